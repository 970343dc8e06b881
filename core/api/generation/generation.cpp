#include "weft/generation.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <numeric>

#include "apply/apply.hpp"
#include "base/text.hpp"
#include "booster/running.hpp"
#include "comm/agreement.hpp"
#include "device/tensors.hpp"
#include "generation/token_choice.hpp"
#include "streams/residual_stream.hpp"
#include "weft/nn/key_value_cache.hpp"

namespace weft {

namespace {

using Tokens = std::vector<int64_t>;

// A sequence while it grows.
struct Row {
  GeneratedSequence sequence;
  Tokens tokens;  // the prompt and the new ones
  bool done = false;
};

nn::Decoding decoding_of(const nn::Model& model) {
  if (std::optional<nn::Decoding> found = model.decoding()) return *std::move(found);
  fail(WEFT_INVALID_ARGUMENT,
       "{} does not predict the next token; generate needs a causal language model, or one with a decoder",
       model.architecture());
}

// Throws where ranks hold parts of what a token needs.
void require_whole(Bindings& bindings) {
  if (bindings.mesh().splits(Mesh::stages()) && bindings.stages().virtual_stages() == 1)
    fail(WEFT_UNIMPLEMENTED,
         "generation runs units in their order, but the strategy {} schedules its pipeline stages itself; "
         "load the model under another strategy",
         bindings.strategy_name());
  const parallel::AppliedPlan* const plan = bindings.plan();
  if (bindings.mesh().sequence_size() > 1 || (plan != nullptr && plan->stream("").is_split()))
    fail(WEFT_UNIMPLEMENTED,
         "generation needs whole sequences on each rank, but the strategy splits them (sp_size, "
         "enable_sequence_parallelism); leave these options out");
  if (bindings.divides_logits())
    fail(WEFT_FAILED_PRECONDITION,
         "generation needs all logits on each rank, but they are divided over the tensor ranks; set the "
         "strategy's option parallel_output to false");
}

// A number that differs between the samples of a seed.
uint64_t seed_of(const GenerationOptions& options, const GeneratedSequence& sequence) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;
  const auto number = [](int64_t value) { return static_cast<uint64_t>(value); };
  return number(options.seed) + kGolden * number(sequence.prompt) + (kGolden >> 7) * number(sequence.sample);
}

// One call of generate().
class Generator {
 public:
  Generator(Job& job, const Batch& inputs, const std::vector<Tokens>& prompts,
            const GenerationOptions& options, const OnToken& on_token)
      : training_(training_of(job.model)),
        model_(training_.bindings().model()),
        decoding_(decoding_of(model_)),
        inputs_(inputs),
        options_(options),
        on_token_(on_token) {
    require_whole(training_.bindings());
    check_options(options, own_name);
    check_inputs();
    for (size_t i = 0; i < prompts.size(); ++i)
      check(prompts[i], prompts.size() == 1 ? "" : std::to_string(i));
    for (const Tokens& prompt : prompts) {
      Row& row = rows_.emplace_back();
      row.sequence.prompt = options.first_prompt + static_cast<int64_t>(rows_.size()) - 1;
      row.tokens = prompt;
    }
    max_new_tokens_ = new_tokens();
  }

  Generation operator()();

 private:
  bool has_encoder() const { return !decoding_.encoder.empty(); }
  void check_inputs() const;
  void check(const Tokens& prompt, const std::string& number) const;
  int64_t new_tokens() const;
  // Reads all rows of the batch from their begin. Returns the logits of their last tokens, (rows,
  // vocabulary).
  at::Tensor fill();
  // Reads the last token of each row of the batch.
  at::Tensor step();
  // Returns the logits of the last position; undefined on all stages but the first.
  at::Tensor forward(const Batch& batch, int64_t positions);
  void check_layers() const;
  // Makes the rows of all samples from those of the prompts, and of the cache if there is one. `logits` may
  // be undefined.
  at::Tensor repeat(const at::Tensor& logits);
  // Returns what chooses tokens on rank 0; null on other ranks.
  std::unique_ptr<TokenChoice> make_choice() const;
  // What rank 0 has chosen for each row of the batch: a token, and 1 if the row goes on or 0.
  struct Chosen {
    Tokens tokens, goes_on;
  };
  Chosen choose(const at::Tensor& logits);
  // Gives every rank what rank 0 has chosen, or throws on every rank what rank 0 has thrown.
  void agree(Chosen& chosen, std::exception_ptr failure) const;
  // Adds a token to each row of the batch that is not done. Returns false if all are done then.
  bool add(const at::Tensor& logits);
  // Takes rows that are done out of the batch.
  void drop_done();
  const World& world() const { return training_.bindings().world(); }

  Training& training_;
  nn::Model& model_;
  const nn::Decoding decoding_;
  const Batch& inputs_;
  const GenerationOptions& options_;
  const OnToken& on_token_;
  std::vector<Row> rows_;
  int64_t max_new_tokens_ = 0;
  std::vector<size_t> batch_;  // the numbers of the rows that are computed, in the order of the cache
  std::unique_ptr<nn::KeyValueCache> cache_;
  std::unique_ptr<TokenChoice> choice_;
};

void Generator::check_inputs() const {
  if (!has_encoder()) return;
  for (const auto& [name, field] : inputs_)
    if (std::find(decoding_.encoder.begin(), decoding_.encoder.end(), name) == decoding_.encoder.end())
      fail(WEFT_INVALID_ARGUMENT, "{}: its encoder has no input \"{}\"; its inputs are: {}",
           model_.architecture(), printable(name, 60), fmt::join(decoding_.encoder, ", "));
}

void Generator::check(const Tokens& prompt, const std::string& number) const {
  const std::string what = number.empty() ? "the prompt" : "prompt " + number;
  if (prompt.empty()) fail(WEFT_INVALID_ARGUMENT, "{} is empty: give at least one token", what);
  for (const int64_t token : prompt)
    if (token < 0 || token >= decoding_.vocabulary)
      fail(WEFT_INVALID_ARGUMENT, "{}: the id {} is outside the model's vocabulary, which has 0 to {}", what,
           token, decoding_.vocabulary - 1);
  const auto length = static_cast<int64_t>(prompt.size());
  if (!has_encoder() || decoding_.longest <= 0) return;
  const int64_t room = decoding_.longest - length;
  if (const int64_t wanted = options_.max_new_tokens.value_or(0); wanted > room)
    fail(WEFT_INVALID_ARGUMENT,
         "max_new_tokens is {}, but the decoder begins with {} tokens and takes {} (\"{}\"); give at most {}",
         wanted, length, decoding_.longest, decoding_.longest_key, std::max<int64_t>(room, 0));
}

int64_t Generator::new_tokens() const {
  constexpr int64_t kDefault = 100;
  if (options_.max_new_tokens) return *options_.max_new_tokens;
  if (!has_encoder() || decoding_.longest <= 0) return kDefault;
  int64_t most = kDefault;
  for (const Row& row : rows_)
    most = std::min(most, decoding_.longest - static_cast<int64_t>(row.tokens.size()));
  return most;
}

at::Tensor Generator::forward(const Batch& batch, int64_t positions) {
  const at::Tensor logits = training_.forward_cached(batch, positions, *cache_);
  if (training_.bindings().mesh().place(Mesh::stages()).rank > 0) return {};
  if (!logits.defined() || logits.dim() != 3 || logits.size(2) != decoding_.vocabulary)
    fail(WEFT_INVALID_ARGUMENT, "{} gives no logits over tokens; generate needs a causal language model",
         model_.architecture());
  return logits.select(1, logits.size(1) - 1);
}

// Throws unless any stage has a layer that uses the cache. Collective over the stages.
void Generator::check_layers() const {
  Bindings& bindings = training_.bindings();
  auto layers = static_cast<int64_t>(cache_->layers());
  if (bindings.mesh().splits(Mesh::stages())) {
    const at::Tensor sum = at::tensor({layers}, at::kLong);
    bindings.comm(Mesh::stages())->communicator.all_reduce(sum, ReduceOp::kSum, true).wait();
    layers = device::value_of<int64_t>(sum);
  }
  if (layers == 0)
    fail(WEFT_UNIMPLEMENTED,
         "{}: none of its layers keeps keys and values; attention layers must be derived from "
         "weft::nn::Attention and call attend()",
         model_.architecture());
}

at::Tensor Generator::fill() {
  const auto length_of = [&](const Row& row) {
    const auto all = static_cast<int64_t>(row.tokens.size());
    return decoding_.longest > 0 ? std::min(all, decoding_.longest) : all;
  };
  int64_t positions = 0;
  for (const size_t number : batch_) positions = std::max(positions, length_of(rows_[number]));
  const auto rows = static_cast<int64_t>(batch_.size());
  const at::Tensor ids = at::zeros({rows, positions}, at::kLong),
                   mask = at::zeros({rows, positions}, at::kLong);
  Tokens padding;
  for (int64_t r = 0; r < rows; ++r) {
    const Row& row = rows_[batch_[static_cast<size_t>(r)]];
    const int64_t length = length_of(row);
    padding.push_back(positions - length);
    ids[r]
        .narrow(0, padding.back(), length)
        .copy_(at::tensor(Tokens(row.tokens.end() - length, row.tokens.end()), at::kLong));
    mask[r].narrow(0, padding.back(), length).fill_(1);
  }
  // More is taken when it is needed: sequences may end long before.
  constexpr int64_t kAhead = 1024;
  int64_t capacity = positions + std::min(max_new_tokens_, kAhead);
  if (decoding_.longest > 0) capacity = std::min(capacity, decoding_.longest);
  cache_ = std::make_unique<nn::KeyValueCache>(capacity, std::move(padding));
  Batch batch = inputs_;
  batch.set(decoding_.ids, ids);
  if (cache_->has_padding()) {
    batch.set(decoding_.mask, mask);
    if (!decoding_.positions.empty()) batch.set(decoding_.positions, cache_->positions(positions, ids));
  }
  at::Tensor logits = forward(batch, positions);
  check_layers();
  return logits;
}

at::Tensor Generator::step() {
  const int64_t past = cache_->past();
  if (decoding_.longest > 0 && past >= decoding_.longest) return fill();
  Tokens tokens;
  for (const size_t number : batch_) tokens.push_back(rows_[number].tokens.back());
  Batch batch;
  batch.set(decoding_.ids, at::tensor(tokens, at::kLong).unsqueeze(1));
  if (!decoding_.positions.empty()) {
    Tokens positions = {past};  // the same for all rows
    if (cache_->has_padding()) {
      positions.clear();
      for (size_t row = 0; row < batch_.size(); ++row) positions.push_back(past - cache_->padding_of(row));
    }
    batch.set(decoding_.positions, at::tensor(positions, at::kLong).unsqueeze(1));
  }
  return forward(batch, 1);
}

at::Tensor Generator::repeat(const at::Tensor& logits) {
  if (options_.num_samples == 1) return logits;
  Tokens numbers;
  std::vector<Row> rows;
  for (size_t prompt = 0; prompt < rows_.size(); ++prompt)
    for (int64_t sample = 0; sample < options_.num_samples; ++sample) {
      numbers.push_back(static_cast<int64_t>(prompt));
      rows.push_back(rows_[prompt]);
      rows.back().sequence.sample = sample;
    }
  rows_ = std::move(rows);
  batch_.resize(rows_.size());
  std::iota(batch_.begin(), batch_.end(), size_t{0});
  if (cache_ != nullptr) cache_->select_rows(numbers);
  if (!logits.defined()) return logits;
  return logits.index_select(0, at::tensor(numbers, at::kLong).to(logits.device()));
}

std::unique_ptr<TokenChoice> Generator::make_choice() const {
  if (!world().is_master()) return nullptr;
  std::vector<const Tokens*> prompts;
  std::vector<uint64_t> seeds;
  for (const Row& row : rows_) {
    prompts.push_back(&row.tokens);
    seeds.push_back(seed_of(options_, row.sequence));
  }
  return std::make_unique<TokenChoice>(options_, decoding_.vocabulary, prompts, seeds);
}

Generator::Chosen Generator::choose(const at::Tensor& logits) {
  Chosen chosen = {(*choice_)(logits), Tokens(batch_.size(), 1)};
  for (size_t place = 0; place < batch_.size(); ++place) {
    const Row& row = rows_[batch_[place]];
    if (row.done) continue;
    const int64_t token = chosen.tokens[place];
    const bool ends =
        std::find(options_.stop_ids.begin(), options_.stop_ids.end(), token) != options_.stop_ids.end();
    const bool wanted = !on_token_ || on_token_({row.sequence.prompt, row.sequence.sample, token});
    chosen.goes_on[place] = !ends && wanted;
  }
  return chosen;
}

void Generator::agree(Chosen& chosen, std::exception_ptr failure) const {
  if (world().size() == 1) {
    if (failure != nullptr) std::rethrow_exception(failure);
    return;
  }
  const Communicator& ranks = world().communicator();
  const auto rows = static_cast<int64_t>(batch_.size());
  const at::Tensor all = at::zeros({2 * rows + 1}, at::kLong);  // the last one: whether rank 0 has failed
  if (failure != nullptr) {
    all.fill_(1);
  } else if (world().is_master()) {
    all.narrow(0, 0, rows).copy_(at::tensor(chosen.tokens, at::kLong));
    all.narrow(0, rows, rows).copy_(at::tensor(chosen.goes_on, at::kLong));
  }
  ranks.broadcast(all, 0, true).wait();
  const Tokens values = device::values_of<int64_t>(all);
  if (values.back() != 0) on_master(ranks, [&] { std::rethrow_exception(failure); });
  chosen.tokens.assign(values.begin(), values.begin() + rows);
  chosen.goes_on.assign(values.begin() + rows, values.end() - 1);
}

bool Generator::add(const at::Tensor& logits) {
  Chosen chosen;
  std::exception_ptr failure;
  try {
    if (choice_ != nullptr) chosen = choose(logits);
  } catch (...) {
    failure = std::current_exception();
  }
  agree(chosen, failure);
  for (size_t place = 0; place < batch_.size(); ++place) {
    Row& row = rows_[batch_[place]];
    if (row.done) continue;
    row.tokens.push_back(chosen.tokens[place]);
    row.sequence.ids.push_back(chosen.tokens[place]);
    row.sequence.stopped = chosen.goes_on[place] == 0;
    row.done = row.sequence.stopped;
  }
  return std::any_of(batch_.begin(), batch_.end(), [&](size_t number) { return !rows_[number].done; });
}

// A copy of the cache takes time, so it waits until half of the rows are done. All copies together are then
// of no more rows than the batch had.
void Generator::drop_done() {
  Tokens kept;
  std::vector<size_t> batch;
  for (size_t place = 0; place < batch_.size(); ++place) {
    if (rows_[batch_[place]].done) continue;
    kept.push_back(static_cast<int64_t>(place));
    batch.push_back(batch_[place]);
  }
  if (2 * batch.size() > batch_.size()) return;
  batch_ = std::move(batch);
  cache_->select_rows(kept);
  if (choice_ != nullptr) choice_->select_rows(kept);
}

Generation Generator::operator()() {
  const auto begin = std::chrono::steady_clock::now();
  const EvaluationMode mode(model_);
  Generation result;
  const bool generates = max_new_tokens_ > 0 && !rows_.empty();
  batch_.resize(rows_.size());
  std::iota(batch_.begin(), batch_.end(), size_t{0});
  at::Tensor logits = repeat(generates ? fill() : at::Tensor());
  if (generates) choice_ = make_choice();
  for (int64_t made = 1; generates && add(logits) && made < max_new_tokens_; ++made) {
    drop_done();
    logits = step();
  }
  for (Row& row : rows_) result.sequences.push_back(std::move(row.sequence));
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace

Generation generate(Job& job, const std::vector<std::vector<int64_t>>& prompts,
                    const GenerationOptions& options, const OnToken& on_token) {
  const nn::Decoding decoding = decoding_of(job.model.module());
  if (!decoding.encoder.empty())
    fail(WEFT_INVALID_ARGUMENT,
         "{} has an encoder: give generate() its inputs ({}), and prompts for its decoder",
         job.model.architecture(), fmt::join(decoding.encoder, ", "));
  return Generator(job, Batch(), prompts, options, on_token)();
}

Generation generate(Job& job, const Batch& inputs, const std::vector<std::vector<int64_t>>& prompts,
                    const GenerationOptions& options, const OnToken& on_token) {
  const nn::Decoding decoding = decoding_of(job.model.module());
  if (decoding.encoder.empty())
    fail(WEFT_INVALID_ARGUMENT, "{} has no encoder: give generate() prompts alone", job.model.architecture());
  const auto samples = static_cast<size_t>(inputs.samples());
  if (!prompts.empty() && prompts.size() != samples)
    fail(WEFT_INVALID_ARGUMENT, "there are {} samples of inputs, but {} prompts of the decoder", samples,
         prompts.size());
  if (prompts.empty() && options.decoder_prompt.empty())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: its files do not say with which tokens its decoder begins (\"decoder_start_token_id\"), or the "
         "language is to be detected (\"lang_to_id\", or null in \"forced_decoder_ids\"); give the decoder's "
         "first tokens: start, language, task",
         job.model.architecture());
  if (!prompts.empty()) return Generator(job, inputs, prompts, options, on_token)();
  return Generator(job, inputs, std::vector<Tokens>(samples, options.decoder_prompt), options, on_token)();
}

}  // namespace weft
