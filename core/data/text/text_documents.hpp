// Documents of text that are measured one by one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/text_encoder.hpp"
#include "text/text_files.hpp"
#include "text/text_samples.hpp"
#include "weft/data/text.hpp"
#include "weft/tokenizer.hpp"

namespace weft::data {

// Where a document is.
struct DocumentPlace {
  std::string file;  // as it follows from the path of the source
  int64_t line = 0;  // from 1, in a file of JSON lines; 0: the whole file
};

// The documents of several sources, in windows of one length. Each window has ids and labels (T), with
// padding behind them. The first window of a document begins with it, and each further one with the last
// token of the window before. The first label of a window does not count, so that the windows of a document
// predict each of its tokens but the first exactly once, as far as the document learns it.
class TextDocuments final : public Dataset {
 public:
  struct Source {
    TextFiles files;
    std::shared_ptr<TextSamples> samples;
  };
  explicit TextDocuments(std::vector<Source> sources);

  int64_t size() const override { return windows_.back(); }
  std::string name() const override;
  Batch get(const std::vector<int64_t>& indices) const override;

  int64_t documents() const { return documents_.back(); }
  // Return the document of a window, and how many of its ids are no padding.
  int64_t document(int64_t window) const;
  int64_t tokens(int64_t window) const;
  // Returns where each document is. Reads the files of JSON lines up to their last document.
  std::vector<DocumentPlace> places() const;

 private:
  // Returns the source of a window, whose first one is at windows_[source].
  size_t source_of(int64_t window) const;

  const std::vector<Source> sources_;
  std::vector<int64_t> windows_ = {0}, documents_ = {0};  // where those of each source begin, and the end
};

// Opens text like open_text(), or like open_bytes() without a tokenizer, but as TextDocuments. Of `options`
// packing, labels and positions are not read. Throws INVALID_ARGUMENT also for a source with a weight.
std::shared_ptr<TextDocuments> open_documents(const std::vector<TextSource>& sources,
                                              const std::optional<Tokenizer>& tokenizer,
                                              const TextOptions& options);

}  // namespace weft::data
