// A tiny job of a Booster, which the tests of checkpoints vary.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "api/samples.hpp"
#include "support/temporary_folder.hpp"
#include "weft/weft.hpp"

namespace weft::test {

struct JobOptions {
  std::string model;  // config.json or a model folder
  std::string architecture;
  std::string data;  // empty for none
  int64_t sequence_length = 32;
  int64_t batch_size = 8;  // over all ranks
  bool shuffle = true, drop_last = false;
  int64_t data_seed = 7;
  std::string optimizer = "adamw";  // empty for none
  optim::Hyper hyper = {};
  std::string schedule = "cosine_warmup";  // empty for none
  int64_t warmup_steps = 2;
  std::string strategy = "torch_ddp";
  std::string strategy_options = "{}";
  std::string precision = "fp32";
  std::string recompute = "off";
  int64_t accumulate = 1;
  double max_grad_norm = 0;
  int64_t seed = 42;
  bool deterministic = false;
  std::string checkpoint_io;
};

inline Job make_job(const World& world, const JobOptions& options) {
  setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
  BoosterOptions booster_options;
  booster_options.strategy = options.strategy;
  booster_options.options = options.strategy_options;
  booster_options.precision = options.precision;
  booster_options.recompute = options.recompute;
  booster_options.accumulate = options.accumulate;
  booster_options.max_grad_norm = options.max_grad_norm;
  booster_options.seed = options.seed;
  booster_options.deterministic = options.deterministic;
  booster_options.checkpoint_io = options.checkpoint_io;
  Booster booster(booster_options, world);
  Model model = Model::open(options.model, options.architecture, options.precision);
  optim::Optimizer optimizer;
  if (!options.optimizer.empty())
    optimizer = optim::Optimizer(options.optimizer, model.parameters(), options.hyper);
  optim::Scheduler schedule;
  if (optimizer && !options.schedule.empty())
    schedule = optim::Scheduler(optimizer, optim::schedule(options.schedule, {options.warmup_steps, 20, 0}));
  data::Loader loader;
  if (!options.data.empty())
    loader = booster.prepare_dataloader(data::text(options.data, options.sequence_length),
                                        options.batch_size / booster.data_size(), options.shuffle,
                                        options.data_seed, options.drop_last);
  return booster.boost(std::move(model), std::move(optimizer), {}, std::move(loader), std::move(schedule));
}

// A folder with a tiny model and data for jobs.
class JobTest : public testing::Test {
 protected:
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  TemporaryFolder folder_;
  JobOptions options_ = [this] {
    JobOptions options;
    options.model = folder_.file("config.json", config_json());
    options.data = folder_.file("data.txt", sample_text(33 * 32));
    return options;
  }();
};

// Trains this number of steps, over several epochs if necessary. Returns the losses.
inline std::vector<double> train(Job& job, int64_t steps) {
  std::vector<double> losses;
  Batch batch;
  while (static_cast<int64_t>(losses.size()) < steps)
    if (job.data.next(batch)) losses.push_back(job.train_step(batch).loss);
  return losses;
}

}  // namespace weft::test
