#include "text/text_documents.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "loader/mapped_file.hpp"
#include "loader/mixture.hpp"

namespace weft::data {

namespace {

// Counts lines of a file from one position to the next.
class LineCounter {
 public:
  explicit LineCounter(const std::string& path) : file_(path) {}
  // Returns the line of a byte, from 1. Bytes come in ascending order.
  int64_t line_of(uint64_t offset) {
    const std::string_view passed = file_.bytes().substr(0, offset).substr(offset_);
    line_ += std::count(passed.begin(), passed.end(), '\n');
    offset_ = std::max(offset_, offset);
    return line_;
  }

 private:
  const MappedFile file_;
  uint64_t offset_ = 0;
  int64_t line_ = 1;
};

void add_places(const TextDocuments::Source& source, std::vector<DocumentPlace>& places) {
  const TokenCache& cache = source.samples->cache();
  const std::vector<int64_t>& chosen = source.samples->chosen();
  auto document = chosen.begin();
  int64_t end = 0;  // of the documents of the files so far
  const auto made = nlohmann::json::parse(cache.description());
  for (size_t file = 0; file < source.files.files.size(); ++file) {
    end += made.at("sources").at(file).at("documents").get<int64_t>();
    if (document == chosen.end() || *document >= end) continue;
    std::optional<LineCounter> lines;
    if (has_records(source.files.files[file])) lines.emplace(source.files.path(file));
    for (; document != chosen.end() && *document < end; ++document)
      places.push_back({source.files.shown(file), lines ? lines->line_of(cache.offset(*document)) : 0});
  }
}

}  // namespace

TextDocuments::TextDocuments(std::vector<Source> sources) : sources_(std::move(sources)) {
  for (const Source& source : sources_) {
    windows_.push_back(windows_.back() + source.samples->size());
    documents_.push_back(documents_.back() + source.samples->documents());
  }
}

std::string TextDocuments::name() const {
  std::vector<std::string> names;
  for (const Source& source : sources_) names.push_back(source.samples->name());
  return fmt::format("{}", fmt::join(names, ", "));
}

size_t TextDocuments::source_of(int64_t window) const {
  if (window < 0 || window >= size())
    fail(WEFT_OUT_OF_RANGE, "{}: no sample {}, there are {}", name(), window, size());
  return static_cast<size_t>(std::upper_bound(windows_.begin(), windows_.end(), window) - windows_.begin()) -
         1;
}

Batch TextDocuments::get(const std::vector<int64_t>& indices) const {
  std::vector<Batch> rows;
  for (const int64_t window : indices) {
    const size_t source = source_of(window);
    rows.push_back(sources_[source].samples->get({window - windows_[source]}));
  }
  return joined_batches(rows);
}

int64_t TextDocuments::document(int64_t window) const {
  const size_t source = source_of(window);
  const std::vector<int64_t>& chosen = sources_[source].samples->chosen();
  const int64_t document = sources_[source].samples->document(window - windows_[source]);
  return documents_[source] + (std::lower_bound(chosen.begin(), chosen.end(), document) - chosen.begin());
}

int64_t TextDocuments::tokens(int64_t window) const {
  const size_t source = source_of(window);
  return sources_[source].samples->tokens(window - windows_[source]);
}

std::vector<DocumentPlace> TextDocuments::places() const {
  std::vector<DocumentPlace> places;
  for (const Source& source : sources_) add_places(source, places);
  return places;
}

}  // namespace weft::data
