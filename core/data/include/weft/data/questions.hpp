// Questions whose answers are parts of a text, as in SQuAD.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/data/dataset.hpp"
#include "weft/data/part.hpp"
#include "weft/tokenizer.hpp"

namespace weft::data {

// The most tokens of a question; further ones are cut off.
inline constexpr int64_t kMostQuestionTokens = 64;

// How questions become samples.
struct QuestionOptions {
  int64_t sequence_length = 0;  // of a sample, in tokens
  // How many tokens of the context a window has in common with the next one. Without a value 128, or a third
  // of the sequence length if that is less.
  std::optional<int64_t> overlap;
  bool token_types = false;  // whether the model reads them
  // The share of the contexts that are held out, from 0 to less than 1, and the part to read. The seed and
  // the context's index in its source decide which; all questions on a context are in the same part.
  double held_out = 0;
  Part part = Part::kAll;
  int64_t seed = 1024;
  int64_t vocabulary = 0;  // of the model, which must have all ids of the tokenizer; 0: not known
  int64_t threads = 0;     // that tokenize; 0: as many as the machine runs at once
  // Called with what should be known of the data: how many questions were cut.
  std::function<void(const std::string& note)> note;
};

// Opens files of questions for a model that predicts where an answer begins and ends. A path is a .json,
// .jsonl, .jsonlines or .ndjson file, a folder of them, or a pattern of their names. A file is SQuAD's
//   {"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ...,
//     "answers": [{"text": ..., "answer_start": ...}], "is_impossible": false}]}]}]}
// or it has in each line, or in each element of one array,
//   {"id": ..., "context": ..., "question": ..., "answers": {"text": [...], "answer_start": [...]}}
// "answer_start" counts code points. A question without answers cannot be answered from its context.
//
// A sample is a question and a window of its context, joined as the tokenizer joins a pair. Windows begin
// with the context and overlap, until one ends with it. A sample has ids and an attention mask (T), token
// types (T) if the model reads them, "start_positions" and "end_positions" (): the first and last token of
// the first answer, or twice the position of the first token if the window does not have all of it. Padding
// is on the side that tokenizer_config.json says. With "truncation_side": "left" there, the first window ends
// with the context and the last one begins with it, and questions keep their last tokens.
//
// Throws NOT_FOUND for a path without files; INVALID_ARGUMENT naming the file, and the line or the question,
// for what is not as above, an answer that is not where it should be, two questions with one id, a sequence
// length that leaves no room for the context, and a tokenizer with ids that the model does not have;
// UNIMPLEMENTED for a tokenizer whose pairs do not contain the ids of both sequences.
std::shared_ptr<Dataset> open_questions(const std::vector<std::string>& paths, const Tokenizer& tokenizer,
                                        const QuestionOptions& options);

}  // namespace weft::data
