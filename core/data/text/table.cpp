#include "text/table.hpp"

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "text/text_files.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::data {

namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

Table::Table(std::string_view content, const std::string& file)
    : content_(content), separator_(extension_of(file) == ".tsv" ? '\t' : ','), end_(content.size()) {
  if (content.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  std::optional<TableRow> header;
  try {
    header = next_row();
    if (!header) fail(WEFT_INVALID_ARGUMENT, "the table is empty, its first row must name the columns");
    columns_ = std::move(header->fields);
    std::set<std::string> names;
    for (const std::string& column : columns_)
      if (!names.insert(column).second)
        fail(WEFT_INVALID_ARGUMENT, "two columns have the name \"{}\"; rename one", printable(column, 60));
  } catch (const Error& error) {
    throw Error(error.status(), fmt::format("{}:1: {}", file, error.what()));
  }
}

std::optional<size_t> Table::find(std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<size_t>(found - columns_.begin());
}

void Table::seek(size_t begin, size_t end) {
  at_ = std::max(at_, begin);  // behind the columns
  end_ = end;
}

std::optional<TableRow> Table::next() {
  std::optional<TableRow> row = next_row();
  if (row && row->fields.size() != columns_.size())
    fail(WEFT_INVALID_ARGUMENT, "the row has {} fields, but the table {} columns ({})", row->fields.size(),
         columns_.size(), printable(fmt::format("{}", fmt::join(columns_, ", "))));
  return row;
}

std::optional<TableRow> Table::next_row() {
  const auto is_line_end = [&](size_t at) {
    return content_[at] == '\n' || (content_[at] == '\r' && at + 1 < end_ && content_[at + 1] == '\n');
  };
  while (at_ < end_ && is_line_end(at_)) ++at_;
  if (at_ >= end_) return std::nullopt;
  begin_ = at_;
  TableRow row{{}, at_};
  for (bool more = true; more;) {
    row.fields.push_back(take_field());
    more = at_ < end_ && content_[at_] == separator_;
    if (at_ < end_) at_ += content_[at_] == '\r' ? 2 : 1;
  }
  const std::string_view text = content_.substr(begin_, at_ - begin_);
  if (text.find('\0') != text.npos) fail(WEFT_INVALID_ARGUMENT, "the row has a byte that is zero, no text");
  if (!tokenizer::is_utf8(text))
    fail(WEFT_INVALID_ARGUMENT, "the row is not UTF-8; convert the file to UTF-8");
  return row;
}

bool Table::ends_field(size_t at) const {
  return at >= end_ || content_[at] == separator_ || content_[at] == '\n' ||
         (content_[at] == '\r' && at + 1 < end_ && content_[at + 1] == '\n');
}

std::string Table::take_field() {
  if (at_ < end_ && content_[at_] == '"') return take_quoted();
  const size_t first = at_;
  while (!ends_field(at_)) {
    if (content_[at_] == '"')
      refuse("a quote stands in a field without quotes; put the field in quotes and double those in it");
    ++at_;
  }
  return std::string(content_.substr(first, at_ - first));
}

std::string Table::take_quoted() {
  std::string field;
  for (size_t from = at_ + 1;;) {
    const size_t quote = content_.find('"', from);
    if (quote >= end_) {
      at_ = end_;
      fail(WEFT_DATA_LOSS, "a quote has no end: the field begins with one, and none ends it; complete it");
    }
    field += content_.substr(from, quote - from);
    if (quote + 1 < end_ && content_[quote + 1] == '"') {
      field += '"';
      from = quote + 2;
      continue;
    }
    at_ = quote + 1;
    if (!ends_field(at_))
      refuse("a field goes on behind the quote that ends it; double the quotes that are part of it");
    return field;
  }
}

void Table::refuse(const std::string& text) {
  at_ = std::min(content_.find('\n', begin_), end_);
  throw Error(WEFT_INVALID_ARGUMENT, text);
}

std::vector<JsonStretch> table_stretches(std::string_view content, const std::string& file, size_t bytes) {
  Table table(content, file);
  std::vector<JsonStretch> stretches;
  std::optional<size_t> begin;  // of the stretch
  const auto take = [&](size_t end) {
    stretches.push_back({content.substr(*begin, end - *begin), *begin, 0});
    begin.reset();
  };
  for (bool more = true; more;) {
    try {
      more = table.next().has_value();
    } catch (const Error& error) {
      if (error.status() == WEFT_DATA_LOSS) more = false;  // whoever reads the row says it
    }
    if (begin && (table.offset() - *begin >= bytes)) take(table.offset());
    if (!begin && table.offset() > 0) begin = table.offset();
  }
  if (begin) take(content.size());
  return stretches;
}

}  // namespace weft::data
