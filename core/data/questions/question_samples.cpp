#include "questions/question_samples.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <atomic>

#include "base/text.hpp"
#include "loader/random.hpp"
#include "loader/shared_checks.hpp"
#include "text/threads.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::data {

namespace {

constexpr int64_t kUsualOverlap = 128;

void check(const QuestionEncoder& encoder, const QuestionOptions& options) {
  check_ids_fit(encoder.name, encoder.vocabulary_size, options.vocabulary);
  check_held_out(options.held_out, options.part, "questions", flag_name);
  if (options.overlap.value_or(0) < 0)
    fail(WEFT_INVALID_ARGUMENT, "--overlap is {}, must be at least 0", *options.overlap);
}

// Runs `action`. Adds to its errors which text they are about.
template <class Action>
auto of_text(const std::string& data, const char* what, std::string_view text, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw Error(error.status(),
                fmt::format("{}: {} \"{}\": {}", data, what, printable(text, 60), error.what()));
  }
}

}  // namespace

QuestionSamples::QuestionSamples(QuestionTexts texts, QuestionEncoder encoder, const QuestionOptions& options,
                                 std::string name)
    : encoder_(std::move(encoder)), options_(options), name_(std::move(name)) {
  check(encoder_, options_);
  choose_questions(texts);
  encode_texts();
  for (size_t i = 0; i < questions_.size(); ++i) {
    find_answer(i);
    add_windows(static_cast<int64_t>(i));
  }
  if (options_.note) tell_what_was_cut();
}

void QuestionSamples::choose_questions(QuestionTexts& texts) {
  std::vector<std::optional<size_t>> chosen(texts.contexts.size());  // where a context of the part is kept
  for (size_t i = 0; i < texts.contexts.size(); ++i) {
    Context& context = texts.contexts[i];
    const bool held_out = is_held_out(context.index, options_.held_out, options_.seed);
    if (options_.part != Part::kAll && held_out != (options_.part == Part::kHeldOut)) continue;
    chosen[i] = contexts_.size();
    contexts_.push_back({std::move(context.text), {}, {}});
  }
  for (Question& question : texts.questions) {
    has_impossible_ = has_impossible_ || question.answers.empty();
    if (!chosen[question.context]) continue;
    question.context = *chosen[question.context];
    questions_.push_back(std::move(question));
  }
  if (questions_.empty())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: none of its {} contexts is in the {} part, and the questions on a context stay together; give "
         "more contexts, or another --held-out, which is {}",
         name_, texts.contexts.size(), options_.part == Part::kHeldOut ? "held-out" : "training",
         options_.held_out);
}

void QuestionSamples::encode_texts() {
  on_threads(contexts_.size(), options_.threads, [&](size_t i) {
    EncodedContext& context = contexts_[i];
    const TokenSpans::Encoded encoded =
        of_text(name_, "the context", context.text, [&] { return encoder_.encode_with_spans(context.text); });
    context.ids.assign(encoded.ids.begin(), encoded.ids.end());
    for (const TokenSpan& span : encoded.spans)
      context.spans.emplace_back(static_cast<uint32_t>(span.begin), static_cast<uint32_t>(span.end));
  });
  encoded_.resize(questions_.size());
  std::atomic<int64_t> cut = 0;
  on_threads(questions_.size(), options_.threads, [&](size_t i) {
    const std::vector<int64_t> ids =
        of_text(name_, "question", questions_[i].id, [&] { return encoder_.encode(questions_[i].text); });
    const size_t kept = std::min(ids.size(), static_cast<size_t>(kMostQuestionTokens));
    cut += kept < ids.size() ? 1 : 0;
    const auto first =
        ids.begin() + (encoder_.truncates_left ? std::ssize(ids) - static_cast<std::ptrdiff_t>(kept) : 0);
    encoded_[i].ids.assign(first, first + static_cast<std::ptrdiff_t>(kept));
  });
  cut_questions_ = cut;
}

void QuestionSamples::find_answer(size_t question) {
  if (questions_[question].answers.empty()) return;
  const Answer& answer = questions_[question].answers.front();
  const std::string_view trimmed = trim(answer.text);
  const size_t begin = answer.begin + static_cast<size_t>(trimmed.data() - answer.text.data());
  const size_t end = begin + trimmed.size();
  const auto& spans = contexts_[questions_[question].context].spans;
  const auto first =
      std::find_if(spans.begin(), spans.end(), [&](const auto& span) { return span.second > begin; });
  const auto behind = std::find_if(first, spans.end(), [&](const auto& span) { return span.first >= end; });
  if (first < behind) encoded_[question].answer = {first - spans.begin(), behind - spans.begin() - 1};
}

const QuestionSamples::EncodedContext& QuestionSamples::context_of(int64_t question) const {
  return contexts_[questions_[static_cast<size_t>(question)].context];
}

int64_t QuestionSamples::room(int64_t question) const {
  return options_.sequence_length - encoder_.pair.added() -
         static_cast<int64_t>(encoded_[static_cast<size_t>(question)].ids.size());
}

void QuestionSamples::add_windows(int64_t question) {
  const auto tokens = static_cast<int64_t>(context_of(question).ids.size());
  const int64_t overlap = options_.overlap.value_or(std::min(kUsualOverlap, options_.sequence_length / 3));
  const int64_t most = room(question);
  if (most < 1 || (most < tokens && most <= overlap))
    fail(WEFT_INVALID_ARGUMENT,
         "{}: question \"{}\" has {} tokens and the tokenizer adds {}, which leaves {} of "
         "--sequence-length {} for the context: must be {}; give a larger --sequence-length{}",
         name_, printable(questions_[static_cast<size_t>(question)].id, 60),
         encoded_[static_cast<size_t>(question)].ids.size(), encoder_.pair.added(),
         std::max<int64_t>(most, 0), options_.sequence_length,
         most < 1 ? "at least 1" : fmt::format("more than the {} that windows overlap by", overlap),
         most < 1 ? "" : ", or a smaller --overlap");
  // From the begin to the end, or from the end to the begin.
  for (int64_t done = 0;; done += most - overlap) {
    const int64_t behind = std::min(done + most, tokens);
    windows_.push_back(encoder_.truncates_left ? Place{question, tokens - behind, tokens - done}
                                               : Place{question, done, behind});
    if (behind == tokens) return;
  }
}

void QuestionSamples::tell_what_was_cut() const {
  if (cut_questions_ > 0)
    options_.note(fmt::format("{}: {} of {} questions cut to {} tokens", name_, cut_questions_,
                              questions_.size(), kMostQuestionTokens));
  std::vector<bool> found(questions_.size());
  for (int64_t i = 0; i < size(); ++i) {
    const Window place = window(i);
    if (label_of(place)) found[static_cast<size_t>(place.question)] = true;
  }
  int64_t lost = 0;
  for (size_t i = 0; i < questions_.size(); ++i) lost += !questions_[i].answers.empty() && !found[i] ? 1 : 0;
  if (lost > 0)
    options_.note(
        fmt::format("{}: {} of {} questions have no window with the whole answer, and are learned as "
                    "questions without one; a larger --sequence-length or --overlap has longer answers",
                    name_, lost, questions_.size()));
}

QuestionSamples::Window QuestionSamples::window(int64_t sample) const {
  if (sample < 0 || sample >= size())
    fail(WEFT_OUT_OF_RANGE, "{}: no sample {}, there are {}", name_, sample, size());
  const auto [question, begin, end] = windows_[static_cast<size_t>(sample)];
  const int64_t most = room(question), count = end - begin;
  const int64_t first = encoder_.pads_left ? most - count : 0;
  return {question, begin, count,
          first + options_.sequence_length - most - static_cast<int64_t>(encoder_.pair.after.ids.size()),
          first};
}

std::string QuestionSamples::text_of(int64_t question, int64_t first_token, int64_t last_token) const {
  const EncodedContext& context = context_of(question);
  const size_t begin = context.spans.at(static_cast<size_t>(first_token)).first;
  const size_t end = context.spans.at(static_cast<size_t>(last_token)).second;
  return context.text.substr(begin, std::max(begin, end) - begin);
}

std::optional<std::pair<int64_t, int64_t>> QuestionSamples::label_of(const Window& window) const {
  const auto& answer = encoded_[static_cast<size_t>(window.question)].answer;
  if (!answer || answer->first < window.begin || answer->second >= window.begin + window.count)
    return std::nullopt;
  const int64_t shift = window.position - window.begin;
  return std::pair{answer->first + shift, answer->second + shift};
}

void QuestionSamples::fill(int64_t sample, int64_t* ids, int64_t* mask, int64_t* types) const {
  const Window place = window(sample);
  int64_t at = place.first;
  const auto put = [&](int64_t id, int64_t type) {
    ids[at] = id;
    mask[at] = 1;
    if (types != nullptr) types[at] = type;
    ++at;
  };
  const auto put_added = [&](const JoinedPair::Added& added) {
    for (size_t i = 0; i < added.ids.size(); ++i) put(added.ids[i], added.types[i]);
  };
  put_added(encoder_.pair.before);
  for (const uint32_t id : encoded_[static_cast<size_t>(place.question)].ids)
    put(static_cast<int64_t>(id), encoder_.pair.first_type);
  put_added(encoder_.pair.between);
  const std::vector<uint32_t>& context = context_of(place.question).ids;
  for (int64_t i = 0; i < place.count; ++i)
    put(static_cast<int64_t>(context[static_cast<size_t>(place.begin + i)]), encoder_.pair.second_type);
  put_added(encoder_.pair.after);
}

Batch QuestionSamples::get(const std::vector<int64_t>& indices) const {
  const auto count = static_cast<int64_t>(indices.size());
  const int64_t length = options_.sequence_length;
  const at::Tensor ids = at::full({count, length}, encoder_.padding, at::kLong);
  const at::Tensor mask = at::zeros({count, length}, at::kLong);
  const at::Tensor types = options_.token_types ? at::zeros({count, length}, at::kLong) : at::Tensor();
  const at::Tensor starts = at::empty({count}, at::kLong), ends = at::empty({count}, at::kLong);
  for (int64_t row = 0; row < count; ++row) {
    const int64_t sample = indices[static_cast<size_t>(row)];
    const Window place = window(sample);
    const auto [start, end] = label_of(place).value_or(std::pair{place.first, place.first});
    starts.mutable_data_ptr<int64_t>()[row] = start;
    ends.mutable_data_ptr<int64_t>()[row] = end;
    const auto row_of = [&](const at::Tensor& tensor) {
      return tensor.defined() ? tensor.mutable_data_ptr<int64_t>() + row * length : nullptr;
    };
    fill(sample, row_of(ids), row_of(mask), row_of(types));
  }
  Batch batch;
  batch.set(nn::kInputIds, ids);
  batch.set(nn::kAttentionMask, mask);
  if (types.defined()) batch.set(nn::kTokenTypes, types);
  batch.set("start_positions", starts);
  batch.set("end_positions", ends);
  return batch;
}

}  // namespace weft::data
