// A Trainer on a tiny job, and hooks that tests decide.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "api/job.hpp"
#include "weft/hooks.hpp"

namespace weft::test {

using Names = std::vector<std::string>;

// Notes each moment, and does what a test wants at one.
class Notes final : public Hook {
 public:
  Names seen;
  std::map<std::string, std::function<void(Trainer&)>> then;
  std::string kept, restored;

  std::string name() const override { return "notes"; }
  void begin(Trainer& t) override { note(t, "begin"); }
  void before_epoch(Trainer& t) override { note(t, "before_epoch"); }
  void before_step(Trainer& t) override { note(t, "before_step"); }
  void before_micro_batch(Trainer& t, uint32_t i) override {
    note(t, "before_micro_batch " + std::to_string(i));
  }
  void after_micro_batch(Trainer& t, uint32_t i) override {
    note(t, "after_micro_batch " + std::to_string(i));
  }
  void before_update(Trainer& t) override { note(t, "before_update"); }
  void after_update(Trainer& t) override { note(t, "after_update"); }
  void after_step(Trainer& t) override { note(t, "after_step"); }
  void after_epoch(Trainer& t) override { note(t, "after_epoch"); }
  void before_evaluation(Trainer& t) override { note(t, "before_evaluation"); }
  void after_evaluation(Trainer& t) override { note(t, "after_evaluation"); }
  void before_save(Trainer& t, const std::string&) override { note(t, "before_save"); }
  void after_save(Trainer& t, const std::string&) override { note(t, "after_save"); }
  void end_step(Trainer& t) override { note(t, "end_step"); }
  void end(Trainer& t) override { note(t, "end"); }
  std::string state() const override { return kept; }
  void restore(const std::string& state) override { restored = state; }

  // Forgets what was seen, and returns it.
  Names take() { return std::exchange(seen, {}); }

 private:
  void note(Trainer& trainer, const std::string& moment) {
    seen.push_back(moment);
    const auto found = then.find(moment);
    if (found != then.end()) found->second(trainer);
  }
};

class TrainerTest : public JobTest {
 protected:
  // Of 33 samples: 5 steps an epoch.
  static constexpr int64_t kEpoch = 5;

  EvaluationSet set(const World& world, const std::string& name, uint32_t seed) const {
    const std::string path = in("set-" + name + std::to_string(seed) + std::to_string(world.rank()));
    std::ofstream(path) << sample_text(9 * 32, seed);
    data::LoaderOptions options;
    options.batch_size = 4;
    options.rank = world.rank();
    options.ranks = world.size();
    return {name, data::Loader(data::text(path, 32), options)};
  }
  Trainer trainer(const World& world, TrainerOptions options) const {
    return {Booster({}, world), make_job(world, options_), std::move(options)};
  }
  Names names_in(const std::string& name) const {
    Names names;
    for (const auto& entry : std::filesystem::directory_iterator(in(name)))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  Names steps_in(const std::string& name) const {
    Names names = names_in(name);
    std::erase_if(names, [](const std::string& each) { return !each.starts_with("step-"); });
    return names;
  }
};

// A value that a test decides for each step, in place of that of the data.
class Values final : public Hook {
 public:
  explicit Values(std::map<int64_t, double> losses) : losses_(std::move(losses)) {}
  std::string name() const override { return "values"; }
  void after_evaluation(Trainer& trainer) override {
    const_cast<EvaluationValues&>(*trainer.evaluation())["loss"] = losses_.at(trainer.step());
  }

 private:
  std::map<int64_t, double> losses_;
};

}  // namespace weft::test
