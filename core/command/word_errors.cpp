#include "command/word_errors.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "weft/nn/batch_fields.hpp"
#include "weft/nn/model.hpp"

namespace weft::command {

namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  std::vector<std::string_view> words;
  for (size_t begin = text.find_first_not_of(kSpace); begin != text.npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(kSpace, end);
  }
  return words;
}

// Returns the text of a row of labels, which end before -100.
std::string text_of(const at::Tensor& labels, const Tokenizer& tokenizer) {
  std::vector<int64_t> ids;
  for (const int64_t id : device::values_of<int64_t>(labels))
    if (id >= 0) ids.push_back(id);
  return tokenizer.decode(ids);
}

}  // namespace

WordErrors word_errors(std::string_view reference, std::string_view found) {
  const std::vector<std::string_view> wanted = words_of(reference), given = words_of(found);
  // The errors between the words of the reference so far and the first words of what was found.
  std::vector<int64_t> row(given.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t diagonal = row[0]++;
    for (size_t j = 0; j < given.size(); ++j) {
      const int64_t replaced = diagonal + (wanted[i] == given[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return {row.back(), static_cast<int64_t>(wanted.size())};
}

WordErrors count_word_errors(Job& job, const data::Dataset& dataset, const Tokenizer& tokenizer,
                             GenerationOptions options, int64_t batch_size) {
  const std::optional<nn::Decoding> decoding = job.model.module().decoding();
  if (!decoding || decoding->encoder.empty())
    fail(
        WEFT_INVALID_ARGUMENT,
        "the word error rate is of a model with an encoder and a decoder that generates text, and {} is none",
        job.model.architecture());
  WordErrors total;
  for (int64_t begin = 0; begin < dataset.size();) {
    std::vector<int64_t> indices(static_cast<size_t>(std::min(batch_size, dataset.size() - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    const Batch batch = dataset.get(indices);
    const at::Tensor* const labels = batch.find(nn::kLabels);
    if (labels == nullptr || labels->dim() != 2)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: the word error rate needs labels of tokens, which the samples have not", dataset.name());
    Batch inputs;
    for (const std::string& field : decoding->encoder)
      if (const at::Tensor* value = batch.find(field)) inputs.set(field, *value);
    // Twice the longest text is wrong however it ends.
    const auto prompt = static_cast<int64_t>(options.decoder_prompt.size());
    int64_t most = 2 * labels->size(1);
    if (decoding->longest > 0) most = std::min(most, decoding->longest - prompt);
    options.max_new_tokens = most;
    options.first_prompt = begin;
    for (const GeneratedSequence& sequence : generate(job, inputs, {}, options).sequences) {
      const WordErrors errors =
          word_errors(text_of((*labels)[sequence.prompt - begin], tokenizer), tokenizer.decode(sequence.ids));
      total.errors += errors.errors;
      total.words += errors.words;
    }
    begin += static_cast<int64_t>(indices.size());
  }
  return total;
}

}  // namespace weft::command
