#include "generation/token_choice.hpp"

#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "device/random.hpp"
#include "device/tensors.hpp"

namespace weft {

namespace {

constexpr int64_t kMostSamples = 65536;

// Returns the ids that the vocabulary has, as a tensor; undefined if there are none.
at::Tensor known_ids(const std::vector<int64_t>& ids, int64_t vocabulary) {
  std::vector<int64_t> known;
  for (const int64_t id : ids)
    if (id >= 0 && id < vocabulary) known.push_back(id);
  return known.empty() ? at::Tensor() : device::on_device(at::tensor(known, at::kLong));
}

[[noreturn]] void refuse_logits(double found) {
  fail(WEFT_DATA_LOSS,
       "no token can be chosen, because the largest logit of the next one is {}: the model's weights are not "
       "finite, its precision overflows, or every token is suppressed",
       found);
}

// Returns the number of the largest score of each row, the first of equal ones. On the host this takes a
// fraction of the time of at::argmax.
std::vector<int64_t> largest(const at::Tensor& scores) {
  const std::vector<float> peaks = device::values_of<float>(scores.amax(-1));
  for (const float peak : peaks)
    if (std::isnan(peak) || peak == -std::numeric_limits<float>::infinity()) refuse_logits(peak);
  if (!device::is_on_host(scores)) return device::values_of<int64_t>(scores.argmax(-1));
  const std::vector<float> values = device::values_of<float>(scores);
  std::vector<int64_t> places;
  for (auto row = values.begin(); const float peak : peaks) {
    places.push_back(std::find(row, values.end(), peak) - row);
    row += scores.size(1);
  }
  return places;
}

// Returns the most likely of all tokens, whose probabilities reach `least` together, and their numbers, by
// falling probability. Few do, as a rule: to sort a whole vocabulary would take many times as long.
std::tuple<at::Tensor, at::Tensor> most_likely(const at::Tensor& probabilities, double least) {
  for (int64_t count = 256;; count *= 8) {
    const bool all = count >= probabilities.numel();
    if (all) return probabilities.sort(/*dim=*/0, /*descending=*/true);
    auto found = probabilities.topk(count);
    if (device::value_of<double>(std::get<0>(found).sum(at::kDouble)) >= least) return found;
  }
}

// Draws a place, each with its probability. They need not add up to 1. at::multinomial would draw a number
// for each of them.
int64_t drawn_place(const at::Tensor& probabilities, at::Generator& generator) {
  const double total = device::value_of<double>(probabilities.sum(at::kDouble));
  if (!(total > 0 && std::isfinite(total))) refuse_logits(std::numeric_limits<double>::quiet_NaN());
  double left = total * device::value_of<double>(at::rand({}, generator, at::kDouble));
  const std::vector<float> values = device::values_of<float>(probabilities);
  size_t place = 0;
  for (size_t i = 0; i < values.size() && left >= 0; ++i)
    if (values[i] > 0) {
      place = i;
      left -= values[i];
    }
  return static_cast<int64_t>(place);
}

}  // namespace

SettingName called_by_file(const GenerationOptions& options, const SettingName& called,
                           std::function<bool(const std::string&)> given) {
  return [origin = options.origin, called, given = std::move(given)](const std::string& setting) {
    constexpr std::array kOfFiles = {"temperature", "top_k", "top_p", "repetition_penalty"};
    const bool may_be = std::find(kOfFiles.begin(), kOfFiles.end(), setting) != kOfFiles.end();
    return may_be && !origin.empty() && !given(setting) ? fmt::format("{}: \"{}\"", origin, setting)
                                                        : called(setting);
  };
}

namespace {

void check_drawing(const GenerationOptions& options, const SettingName& called) {
  if (!(options.temperature > 0))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be positive; for no randomness use {}", called("temperature"),
         options.temperature, called("greedy"));
  if (options.top_k < 0)
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must not be negative", called("top_k"), options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be in (0, 1]", called("top_p"), options.top_p);
}

}  // namespace

void check_options(const GenerationOptions& options, const SettingName& called) {
  if (!options.greedy) check_drawing(options, called);
  if (!(options.repetition_penalty > 0))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be positive; 1 is no penalty", called("repetition_penalty"),
         options.repetition_penalty);
  if (options.max_new_tokens.value_or(0) < 0)
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must not be negative", called("max_new_tokens"),
         *options.max_new_tokens);
  if (options.num_samples < 1 || options.num_samples > kMostSamples)
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be 1 to {}", called("num_samples"), options.num_samples,
         kMostSamples);
}

TokenChoice::TokenChoice(const GenerationOptions& options, int64_t vocabulary,
                         const std::vector<const std::vector<int64_t>*>& prompts,
                         const std::vector<uint64_t>& seeds)
    : options_(options),
      suppressed_(known_ids(options.suppressed, vocabulary)),
      suppressed_first_(known_ids(options.suppressed_first, vocabulary)) {
  if (!options.greedy)
    for (const uint64_t seed : seeds) generators_.push_back(device::host_generator(seed));
  for (const std::vector<int64_t>* prompt : prompts)
    forced_.push_back(options.forced_first.has_value() && prompt->size() == 1);
  if (options.repetition_penalty == 1) return;
  const at::Tensor seen = at::zeros({static_cast<int64_t>(prompts.size()), vocabulary}, at::kBool);
  for (size_t row = 0; row < prompts.size(); ++row)
    seen[static_cast<int64_t>(row)].index_fill_(0, at::tensor(*prompts[row], at::kLong), true);
  seen_ = device::on_device(seen);
}

// In the order of Hugging Face's logits processors, in fp32.
at::Tensor TokenChoice::scores_of(const at::Tensor& logits) const {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const bool begins = made_ < 2 && suppressed_first_.defined();
  at::Tensor scores = logits.to(at::kFloat);
  if (seen_.defined()) {
    const double penalty = options_.repetition_penalty;
    scores = at::where(seen_, at::where(scores.lt(0), scores * penalty, scores / penalty), scores);
  } else if ((suppressed_.defined() || begins) && scores.is_same(logits)) {
    scores = scores.clone();
  }
  if (suppressed_.defined()) scores.index_fill_(1, suppressed_, kNever);
  if (!begins) return scores;
  // The first token that is not forced is the second one of a row that begins with a forced one.
  for (size_t row = 0; row < forced_.size(); ++row)
    if (made_ == (forced_[row] ? 1 : 0))
      scores[static_cast<int64_t>(row)].index_fill_(0, suppressed_first_, kNever);
  return scores;
}

// Keeps the top_k most likely tokens, then the smallest set of the most likely ones whose probability reaches
// top_p. scores: (vocabulary) in host memory.
int64_t TokenChoice::draw(const at::Tensor& scores, at::Generator& generator) const {
  at::Tensor values = scores / options_.temperature, order;
  if (options_.top_k > 0 && options_.top_k < values.numel())
    std::tie(values, order) = values.topk(options_.top_k);
  at::Tensor probabilities = values.softmax(0);
  if (options_.top_p < 1) {
    if (!order.defined()) std::tie(probabilities, order) = most_likely(probabilities, options_.top_p);
    const at::Tensor before = probabilities.cumsum(0) - probabilities;
    const int64_t count = std::max<int64_t>(1, device::value_of<int64_t>((before < options_.top_p).sum()));
    probabilities = probabilities.narrow(0, 0, count);
  }
  const int64_t place = drawn_place(probabilities, generator);
  return order.defined() ? device::value_of<int64_t>(order[place]) : place;
}

std::vector<int64_t> TokenChoice::operator()(const at::Tensor& logits) {
  const at::Tensor scores = scores_of(logits);
  std::vector<int64_t> tokens;
  if (options_.greedy) {
    tokens = largest(scores);
  } else {
    const at::Tensor on_host = device::on_host(scores);
    for (size_t row = 0; row < generators_.size(); ++row)
      tokens.push_back(draw(on_host[static_cast<int64_t>(row)], generators_[row]));
  }
  if (made_++ == 0)
    for (size_t row = 0; row < tokens.size(); ++row)
      if (forced_[row]) tokens[row] = *options_.forced_first;
  if (seen_.defined()) seen_.scatter_(1, at::tensor(tokens, at::kLong).to(seen_.device()).unsqueeze(1), true);
  return tokens;
}

void TokenChoice::select_rows(const std::vector<int64_t>& rows) {
  const auto select = [&](auto& all) {
    if (all.empty()) return;
    auto before = std::exchange(all, {});
    for (const int64_t row : rows) all.push_back(before[static_cast<size_t>(row)]);
  };
  select(generators_);
  select(forced_);
  if (seen_.defined()) seen_ = seen_.index_select(0, at::tensor(rows, at::kLong).to(seen_.device()));
}

}  // namespace weft
