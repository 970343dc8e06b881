// How many words of generated texts are wrong.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "opening/model_state.hpp"
#include "weft/nn/batch_fields.hpp"
#include "weft/nn/model.hpp"
#include "weft/trainer.hpp"

namespace weft {

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

// Returns the least number of words that are replaced, left out or added to turn `reference` into `found`.
int64_t word_errors(const std::vector<std::string_view>& wanted, const std::vector<std::string_view>& given) {
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
  return row.back();
}

class WordErrorRate final : public SetMeasures {
 public:
  WordErrorRate(data::Loader set, Tokenizer tokenizer, GenerationOptions options)
      : set_(std::move(set)), tokenizer_(std::move(tokenizer)), options_(std::move(options)) {}

  void check(Job& job) override {
    GenerationOptions one = options_;
    one.max_new_tokens = 1;
    const Batch sample = set_.dataset().get({0});
    const Batch inputs = inputs_of(job, sample);
    labels_of(sample);
    generate(job, inputs, {}, one);
  }
  void begin() override { errors_ = words_ = next_ = 0; }
  void add(Job& job, const Batch&, const State&) override;
  void end(EvaluationValues& values) override {
    const double rate = static_cast<double>(errors_) / static_cast<double>(words_);
    values["word_error_rate"] = words_ > 0 ? std::optional(rate) : std::nullopt;
  }

 private:
  static nn::Decoding decoding_of(const Job& job);
  // Returns what the encoder reads of samples.
  static Batch inputs_of(const Job& job, const Batch& samples);
  // Returns the labels (samples, T).
  const at::Tensor& labels_of(const Batch& samples) const;
  void compare(const std::string& reference, const std::string& found);

  const data::Loader set_;
  const Tokenizer tokenizer_;
  const GenerationOptions options_;
  int64_t errors_ = 0, words_ = 0;  // of the references
  int64_t next_ = 0;                // sample
};

nn::Decoding WordErrorRate::decoding_of(const Job& job) {
  std::optional<nn::Decoding> decoding = job.model.module().decoding();
  if (decoding && !decoding->encoder.empty()) return *std::move(decoding);
  fail(WEFT_INVALID_ARGUMENT,
       "the word error rate is of a model with an encoder and a decoder that generates text, and {} is none",
       job.model.architecture());
}

Batch WordErrorRate::inputs_of(const Job& job, const Batch& samples) {
  Batch inputs;
  for (const std::string& field : decoding_of(job).encoder)
    if (const at::Tensor* value = samples.find(field)) inputs.set(field, *value);
  return inputs;
}

const at::Tensor& WordErrorRate::labels_of(const Batch& samples) const {
  const at::Tensor* const labels = samples.find(nn::kLabels);
  if (labels == nullptr || labels->dim() != 2)
    fail(WEFT_INVALID_ARGUMENT, "{}: the word error rate needs labels of tokens, which the samples have not",
         set_.dataset().name());
  return *labels;
}

// Every rank generates the texts of the whole batch.
void WordErrorRate::add(Job& job, const Batch&, const State&) {
  const int64_t count = std::min(set_.options().batch_size, set_.dataset().size() - next_);
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), next_);
  const Batch samples = set_.dataset().get(indices);
  const at::Tensor& labels = labels_of(samples);
  const nn::Decoding decoding = decoding_of(job);
  GenerationOptions options = options_;
  // Twice the longest text is wrong however it ends.
  int64_t most = 2 * labels.size(1);
  if (decoding.longest > 0) most = std::min(most, decoding.longest - std::ssize(options.decoder_prompt));
  options.max_new_tokens = most;
  options.first_prompt = next_;
  for (const GeneratedSequence& sequence : generate(job, inputs_of(job, samples), {}, options).sequences)
    compare(text_of(labels[sequence.prompt - next_], tokenizer_), tokenizer_.decode(sequence.ids));
  next_ += count;
}

void WordErrorRate::compare(const std::string& reference, const std::string& found) {
  const std::vector<std::string_view> wanted = words_of(reference);
  errors_ += word_errors(wanted, words_of(found));
  words_ += std::ssize(wanted);
}

}  // namespace

std::shared_ptr<SetMeasures> measure_word_errors(const data::Loader& set, const Tokenizer& tokenizer,
                                                 const GenerationOptions& options) {
  return std::make_shared<WordErrorRate>(set, tokenizer, options);
}

}  // namespace weft
