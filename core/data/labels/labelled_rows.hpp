// Rows of text that people have given labels, from files of JSON and tables.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "text/text_files.hpp"

namespace weft::data {

// Which members of a record, or columns of a table, are read.
struct RowColumns {
  std::string text = "text";
  std::string second_text;  // of pairs; empty: there is none
  std::string label = "label";
  // Whether rows have words with a tag each, lists of JSON, or a text and "spans" of it with labels, in place
  // of a text and a label.
  bool of_words = false;
  std::string words = "tokens", tags = "tags";
};

// Where a row is.
struct RowPlace {
  size_t source = 0, file = 0;  // of LabelledRows::sources, and of its files
  size_t offset = 0;            // in bytes
  int64_t element = 0;          // of the array of a file of JSON, from 1; otherwise 0
  int64_t index = 0;            // among the rows of its source
};

// A label as it was written.
struct RowLabel {
  enum class Kind { kNone, kText, kInteger, kReal };
  Kind kind = Kind::kNone;          // of each value
  bool is_list = false;             // of JSON
  std::vector<std::string> values;  // texts, or numbers in decimal; of words a tag for each
};

// A part of a text, as bytes [begin, end).
struct RowSpan {
  size_t begin = 0, end = 0;
};

// A text, a pair, words or a text with spans, with the label.
struct LabelledRow {
  std::string text, second_text;
  std::vector<std::string> words;
  std::vector<RowSpan> spans;  // in the order of the text, each with a value of the label
  bool of_spans = false;
  RowLabel label;
  RowPlace place;
};

// The rows of several sources, in their order.
struct LabelledRows {
  std::vector<TextFiles> sources;
  std::vector<LabelledRow> rows;

  // Returns the paths that were given.
  std::string name() const;
  // Returns "FILE:LINE", or "FILE:LINE: element NUMBER". Reads the file up to there.
  std::string text_of(const RowPlace& place) const;
};

// How rows are read.
struct RowReading {
  RowColumns columns;
  bool labels = true;  // false: the label is not read, and may be missing
  bool skip_broken_lines = false;
  std::function<void(const std::string& note)> note;
};

// Reads the rows of several sources, each a file of JSON or a table, a folder of them, or a pattern of their
// names. All values of a table are texts; those of its labels are integers or numbers if all of the source
// are. Throws NOT_FOUND for a path without such files; INVALID_ARGUMENT, with file and line, for a record
// that is broken, without its text or label, or with labels of another kind than the rows before, and for
// sources without rows; DATA_LOSS like Table.
LabelledRows read_labelled_rows(const std::vector<std::string>& paths, const RowReading& reading);

}  // namespace weft::data
