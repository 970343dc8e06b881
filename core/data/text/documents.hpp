// The documents of text files as token ids.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat.hpp"
#include "text/records.hpp"
#include "text/text_encoder.hpp"
#include "text/text_files.hpp"
#include "weft/error.hpp"

namespace weft::data {

// A part of a file that is encoded at once: records, or a stretch of a text.
struct TextPiece {
  size_t file = 0;  // its index in TextFiles
  size_t offset = 0;
  std::string_view text;
  bool begins = true, ends = true;  // whether the document begins and ends here, if it is a text
  int64_t first_element = 0;        // as JsonStretch has it
};

struct EncodedPiece {
  std::vector<uint32_t> ids;
  std::vector<int64_t> begins;                          // of documents, in `ids`
  std::vector<uint64_t> offsets;                        // of the same documents, in bytes of their file
  std::vector<std::pair<int64_t, int64_t>> unlabelled;  // ranges of `ids` whose labels do not count
  int64_t empty_documents = 0;                          // that were left out
  int64_t broken_lines = 0;                             // that were skipped
  std::string first_broken;                             // what is wrong with the first one
};

class DocumentEncoder {
 public:
  // With `separates` a completion or a turn of the assistant is a document of its own: first what is before
  // it, encoded alone and without labels, then itself.
  DocumentEncoder(const TextFiles& files, const TextEncoder& encoder, bool skip_broken_lines,
                  bool separates = false);

  // Divides the content of a file. A text is divided only where this changes no id, as far as 64 bytes on
  // either side tell. Throws INVALID_ARGUMENT for an array of JSON that has no end.
  std::vector<TextPiece> pieces_of(size_t file, std::string_view content) const;
  // Returns the ids of a piece. `content` is that of its file. Throws INVALID_ARGUMENT with the file, and the
  // line, element or byte. Called from several threads at once.
  EncodedPiece encode(const TextPiece& piece, std::string_view content) const;

 private:
  struct Line;
  void encode_text(const TextPiece& piece, EncodedPiece& encoded) const;
  void encode_records(const TextPiece& piece, std::string_view content, EncodedPiece& encoded) const;
  // `text`: of the record, if it is JSON.
  Line read_record(const nlohmann::json& object, std::string_view text) const;
  Line read_messages(const nlohmann::json& line, std::string_view text) const;
  // `record_bytes`: of the record of JSON that it was read from.
  void add_document(const Line& line, size_t record_bytes, EncodedPiece& encoded) const;
  void add_pairs(const Line& line, EncodedPiece& encoded) const;
  size_t next_cut(std::string_view content, size_t from) const;
  bool may_cut(std::string_view content, size_t at) const;

  const TextFiles& files_;
  const TextEncoder& encoder_;
  const bool skip_broken_lines_, separates_;
  // Made of a template that Weft can run; otherwise `missing` says why there is none.
  struct Chat {
    std::optional<ChatFormat> format;
    std::optional<Error> missing;
  };
  Chat chat_, tool_chat_;
};

// Returns the text of a record of JSON, in the parts that TextSource names: "text"; the prompt with its
// completion; or the content of each message, without what a chat template adds. Throws INVALID_ARGUMENT like
// encode().
std::vector<std::string> texts_of_record(const nlohmann::json& object);

}  // namespace weft::data
