#include "labels/labelled_texts.hpp"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

#include "base/text.hpp"
#include "weft/nn/field_names.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::data {

namespace {

// Returns the class of the tokens of a word behind its first one.
int64_t inside_of(int64_t tag, const std::vector<std::string>& names) {
  const std::string& name = names[static_cast<size_t>(tag)];
  if (!name.starts_with("B-")) return tag;
  const auto inside = std::find(names.begin(), names.end(), "I-" + name.substr(2));
  return inside == names.end() ? tag : inside - names.begin();
}

}  // namespace

std::vector<int64_t> token_labels(const LabelledSample& sample, const std::vector<int64_t>& tags,
                                  const std::vector<std::string>& names, bool all, size_t ends) {
  const size_t tokens = sample.sequence.ids.size() - ends;
  std::vector<int64_t> labels(sample.sequence.ids.size(), nn::kIgnored);
  size_t end = tokens;  // of the tokens of a word
  for (size_t word = sample.words.size(); word-- > 0;) {
    if (sample.words[word] < 0) continue;
    const auto begin = static_cast<size_t>(sample.words[word]);
    labels[begin] = tags[word];
    if (all)
      std::fill(labels.begin() + static_cast<std::ptrdiff_t>(begin) + 1,
                labels.begin() + static_cast<std::ptrdiff_t>(end), inside_of(tags[word], names));
    end = begin;
  }
  return labels;
}

std::vector<double> balanced_weights(const std::vector<LabelledSample>& samples, size_t classes,
                                     bool several) {
  std::vector<double> weights(classes);
  double labels = 0;
  for (const LabelledSample& sample : samples)
    for (const int64_t id : sample.classes)
      if (id != nn::kIgnored) {
        weights.at(static_cast<size_t>(id)) += 1;
        ++labels;
      }
  const double all = several ? static_cast<double>(samples.size()) : labels;
  for (double& weight : weights) weight = weight > 0 ? all / (static_cast<double>(classes) * weight) : 1;
  return weights;
}

LabelledTexts::LabelledTexts(std::vector<LabelledSample> samples, LabelledTextOptions options,
                             std::string name)
    : samples_(std::move(samples)), options_(std::move(options)), name_(std::move(name)) {
  cut_ = std::count_if(samples_.begin(), samples_.end(),
                       [](const LabelledSample& sample) { return sample.sequence.is_cut; });
}

const LabelledSample& LabelledTexts::sample(int64_t index) const {
  if (index < 0 || index >= size())
    fail(WEFT_OUT_OF_RANGE, "{}: no sample {}, there are {}", name_, index, size());
  return samples_[static_cast<size_t>(index)];
}

int64_t LabelledTexts::sample_length(int64_t index) const {
  return std::ssize(sample(index).sequence.ids);
}

int64_t LabelledTexts::padded(int64_t longest) const {
  const int64_t multiple = options_.pad_to_multiple;
  return (longest + multiple - 1) / multiple * multiple;
}

Batch LabelledTexts::get(const std::vector<int64_t>& indices) const {
  int64_t longest = 1;
  for (const int64_t index : indices) longest = std::max(longest, sample_length(index));
  const int64_t length = padded(longest), count = std::ssize(indices);
  const auto all = static_cast<size_t>(count * length);
  std::vector<int64_t> ids(all, options_.padding), mask(all), types(all), positions(all);
  auto row = std::ptrdiff_t{0};
  for (const int64_t index : indices) {
    const EncodedSequence& sequence = sample(index).sequence;
    const std::ptrdiff_t first = row + (options_.pads_left ? length - std::ssize(sequence.ids) : 0);
    std::copy(sequence.ids.begin(), sequence.ids.end(), ids.begin() + first);
    std::fill_n(mask.begin() + first, sequence.ids.size(), 1);
    std::copy(sequence.types.begin(), sequence.types.end(), types.begin() + first);
    std::iota(positions.begin() + first, positions.begin() + first + std::ssize(sequence.ids), int64_t{0});
    row += length;
  }
  Batch batch;
  const auto set = [&](const char* name, const std::vector<int64_t>& values) {
    batch.set(name, at::tensor(values, at::kLong).view({count, length}));
  };
  set(nn::kInputIds, ids);
  set(nn::kAttentionMask, mask);
  if (options_.token_types) set(nn::kTokenTypes, types);
  if (options_.positions && options_.pads_left) set(nn::kPositions, positions);
  set_labels(indices, length, batch);
  return batch;
}

at::Tensor LabelledTexts::token_labels(const std::vector<int64_t>& indices, int64_t length) const {
  std::vector<int64_t> labels(indices.size() * static_cast<size_t>(length), nn::kIgnored);
  auto row = labels.begin();
  for (const int64_t index : indices) {
    const std::vector<int64_t>& own = sample(index).classes;
    std::copy(own.begin(), own.end(), row + (options_.pads_left ? length - std::ssize(own) : 0));
    row += length;
  }
  return at::tensor(labels, at::kLong).view({-1, length});
}

void LabelledTexts::set_labels(const std::vector<int64_t>& indices, int64_t length, Batch& batch) const {
  const int64_t count = std::ssize(indices);
  std::vector<int64_t> classes;
  std::vector<double> numbers;
  for (const int64_t index : indices) {
    const LabelledSample& sample = this->sample(index);
    if (options_.form == LabelForm::kClass) classes.push_back(sample.classes.front());
    if (options_.form == LabelForm::kNumber) numbers.push_back(sample.number);
    if (options_.form != LabelForm::kIndicators) continue;
    numbers.resize(numbers.size() + static_cast<size_t>(options_.classes));
    for (const int64_t id : sample.classes) *(numbers.end() - options_.classes + id) = 1;
  }
  at::Tensor labels;
  if (options_.form == LabelForm::kClass) labels = at::tensor(classes, at::kLong);
  if (options_.form == LabelForm::kNumber) labels = at::tensor(numbers, at::kFloat);
  if (options_.form == LabelForm::kIndicators)
    labels = at::tensor(numbers, at::kFloat).view({count, options_.classes});
  if (options_.form == LabelForm::kTokens) labels = token_labels(indices, length);
  if (labels.defined()) batch.set(nn::kLabels, labels);
  if (!options_.class_weights.empty())
    batch.set(nn::kClassWeights,
              at::tensor(options_.class_weights, at::kDouble).to(at::kFloat).unsqueeze(0).repeat({count, 1}));
}

}  // namespace weft::data
