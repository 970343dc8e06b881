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
#include "text/text_encoder.hpp"
#include "text/text_files.hpp"
#include "weft/error.hpp"

namespace weft::data {

// A part of a file that is encoded at once: lines of JSON, or a stretch of a text.
struct TextPiece {
  size_t file = 0;  // its index in TextFiles
  size_t offset = 0;
  std::string_view text;
  bool begins = true, ends = true;  // whether the document begins and ends here, if it is a text
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
  DocumentEncoder(const TextFiles& files, const TextEncoder& encoder, bool skip_broken_lines);

  // Divides the content of a file. A text is divided only where this changes no id, as far as 64 bytes on
  // either side tell.
  std::vector<TextPiece> pieces_of(size_t file, std::string_view content) const;
  // Returns the ids of a piece. `content` is that of its file. Throws INVALID_ARGUMENT with the file, and the
  // line or byte. Called from several threads at once.
  EncodedPiece encode(const TextPiece& piece, std::string_view content) const;

 private:
  struct Line;
  void encode_text(const TextPiece& piece, EncodedPiece& encoded) const;
  void encode_lines(const TextPiece& piece, std::string_view content, EncodedPiece& encoded) const;
  Line read_line(std::string_view text) const;
  Line read_messages(const nlohmann::json& line, std::string_view text) const;
  // `line_bytes`: of the line of JSON that it was read from.
  void add_document(const Line& line, size_t line_bytes, EncodedPiece& encoded) const;
  size_t next_cut(std::string_view content, size_t from) const;
  bool may_cut(std::string_view content, size_t at) const;

  const TextFiles& files_;
  const TextEncoder& encoder_;
  const bool skip_broken_lines_;
  // Made for a tokenizer with a template that Weft can run; otherwise `no_chat_` says why there is none.
  std::optional<ChatFormat> chat_;
  std::optional<Error> no_chat_;
};

// Returns the text of a line of JSON, in the parts that TextSource names: "text"; the prompt with its
// completion; or the content of each message, without what a chat template adds. Throws INVALID_ARGUMENT like
// encode().
std::vector<std::string> texts_of_line(std::string_view line);

}  // namespace weft::data
