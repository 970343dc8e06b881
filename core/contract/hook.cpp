#include "contract/hook.hpp"

#include <ATen/ops/stack.h>

#include "base/text.hpp"
#include "contract/ranks.hpp"
#include "contract/scratch.hpp"
#include "contract/tiny_job.hpp"
#include "weft/hooks.hpp"

namespace weft::contract {

namespace {

constexpr int64_t kSteps = 6, kBatches = 4;

// The rows of a few batches of the tiny model.
class TinyData final : public data::Dataset {
 public:
  int64_t size() const override { return kBatches * rows_; }
  Batch get(const std::vector<int64_t>& indices) const override {
    Batch batch;
    for (const auto& [name, tensor] : tiny_batch(0)) {
      std::vector<at::Tensor> samples;
      samples.reserve(indices.size());
      for (const int64_t index : indices)
        samples.push_back(tiny_batch(index / rows_).at(name)[index % rows_]);
      batch.set(name, at::stack(samples));
    }
    return batch;
  }

 private:
  const int64_t rows_ = tiny_batch(0).samples();
};

// Saves at every second step, and where the hook asks for it.
class Saves final : public Hook {
 public:
  explicit Saves(std::string folder) : folder_(std::move(folder)) {}
  std::string name() const override { return "weft.saves"; }
  bool saves() const override { return true; }
  void end_step(Trainer& trainer) override {
    if (trainer.step() % 2 == 0 || trainer.wants_save()) trainer.save(folder_);
  }

 private:
  std::string folder_;
};

// Trains the tiny model, with evaluations and saves. Returns the step after which the training ended.
int64_t train_with(const std::shared_ptr<Hook>& hook, const World& world, const std::string& folder) {
  TinyJob tiny = boost(world, {.strategy = world.size() > 1 ? "" : "none"});
  data::LoaderOptions options;
  options.rank = tiny.booster.data_rank();
  options.ranks = tiny.booster.data_size();
  options.batch_size = 2 * options.ranks;
  const auto dataset = std::make_shared<TinyData>();
  tiny.job.data = data::Loader(dataset, options);
  Trainer trainer(tiny.booster, tiny.job,
                  {.steps = kSteps,
                   .evaluate_every = 2,
                   .evaluation = {{"", data::Loader(dataset, options)}},
                   .hooks = {hook, std::make_shared<Saves>(folder)}});
  trainer.fit();
  return trainer.step();
}

// Returns "" if the hook refuses a text that is no state of it.
std::string refusal_of_another_state(Hook& hook) {
  try {
    hook.restore(R"({"this is": ["the state", "of something else"]})");
  } catch (const Error& error) {
    return error.status() == WEFT_INVALID_ARGUMENT
               ? ""
               : fmt::format("it is refused with status {}: {}", error.status(), error.what());
  }
  return "it takes another text";
}

void check_states(const std::function<std::shared_ptr<Hook>()>& make, const World& world,
                  const std::string& folder, Findings& findings) {
  const std::string begun = make()->state();
  const std::shared_ptr<Hook> hook = make();
  train_with(hook, world, folder);
  const std::string saved = hook->state(), again = make()->state();
  const auto differ = [](const std::string& found, const std::string& expected) {
    return found == expected
               ? ""
               : fmt::format("its state is {}, must be {}", printable(found, 80), printable(expected, 80));
  };
  findings.look("a new hook begins anew, whatever another one has seen", differ(again, begun));
  if (saved.empty()) return findings.note("a restored hook has the state that was saved", "it has no state");
  const std::shared_ptr<Hook> restored = make();
  restored->restore(saved);
  findings.look("a restored hook has the state that was saved", differ(restored->state(), saved));
  findings.look("the state of something else is INVALID_ARGUMENT", refusal_of_another_state(*make()));
}

}  // namespace

void check_hook(const std::string& name, const std::string& options, const Tell& tell) {
  const auto make = [&] { return library_hook(name, options); };
  make();
  tell({"is made with its options, and destroyed", true, ""});
  const Scratch scratch;
  const std::string folder = scratch.path("saved");
  run_case(
      {"1 rank"},
      [&](const World& world, Findings& findings) { check_states(make, world, folder, findings); }, tell);
  run_case(
      {"2 ranks", 2},
      [&](const World& world, Findings& findings) {
        const std::string step = std::to_string(train_with(make(), world, folder));
        const std::string first = world.communicator().broadcast_text(step, 0);
        findings.look("all ranks end after the same step",
                      step == first ? "" : fmt::format("one ends after {}, rank 0 after {}", step, first));
      },
      tell);
}

}  // namespace weft::contract
