// A training that is saved under one layout drawn at random and resumed under another goes on as one rank.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "api/job.hpp"
#include "support/launch_ranks.hpp"
#include "support/random_layout.hpp"
#include "support/seed.hpp"
#include "support/slice.hpp"

namespace weft::test {
namespace {

constexpr int64_t kBefore = 3, kAfter = 3;  // steps

struct Pair {
  std::string name;  // of its files
  RandomLayout before, after;
  std::string text() const { return fmt::format("{}: {}, then {}", name, before.text(), after.text()); }
};

// Draws pairs of which one side has stages, of each style in turn.
std::vector<Pair> draw_pairs(uint32_t seed, size_t count) {
  const std::vector<std::string> styles = {"1f1b", "interleaved", "zbh1", "zbv", "gpipe"};
  RandomLayouts layouts(seed, {.ranks = {1, 2, 2, 3, 4, 4, 4, 6, 8, 8}, .units = 6, .heads = 4});
  std::vector<Pair> pairs;
  for (size_t i = 0; i < count; ++i) {
    RandomLayout staged, other = layouts.draw();
    do staged = layouts.draw();
    while (staged.style != styles[(seed + i) % styles.size()]);
    if ((i + i / styles.size()) % 2 == 1) std::swap(staged, other);
    other.precision = staged.precision;
    pairs.push_back({"pair" + std::to_string(i), staged, other});
  }
  return pairs;
}

std::vector<double> values_of(const RawTensor& tensor) {
  if (tensor.dtype == "F32") {
    const std::vector<float> values = float_values(tensor);
    return {values.begin(), values.end()};
  }
  EXPECT_EQ(tensor.dtype, "F64");
  std::vector<double> values(tensor.bytes.size() / sizeof(double));
  std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof(double));
  return values;
}

// Within this much of the largest value.
double value_tolerance(const std::string& precision) {
  return precision == "fp64" ? 1e-9 : 1e-3;
}
double loss_tolerance(const std::string& precision) {
  return precision == "fp64" ? 1e-10 : 1e-5;
}

class RandomReshard : public RandomTest {
 protected:
  RandomReshard() {
    const TinyModel model = {.channels = 16, .heads = 4, .layers = 4};
    options_.model = folder_.file("config.json", config_json(model));
    options_.data = folder_.file("data.txt", sample_text(240 * 32 + 3));
    options_.batch_size = 24;  // of which each drawn number of data-parallel ranks has an equal part
    options_.max_grad_norm = 0.5;
    options_.hyper = {{"eps", 1e-4}};
  }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }
  Job make(const World& world, const RandomLayout& layout) const {
    JobOptions options = options_;
    options.strategy = layout.strategy;
    options.strategy_options = layout.json();
    options.precision = layout.precision;
    options.recompute = layout.recompute;
    options.accumulate = layout.accumulate;
    return make_job(world, options);
  }

  // Trains on one rank without a stop. Leaves its losses in alone_, and the model at the end in "alone-fp32"
  // or "alone-fp64".
  void train_alone(const std::string& precision) {
    const std::string name = "alone-" + precision;
    on_ranks({1}, [&](World& world) {
      RandomLayout layout;
      layout.strategy = "none";
      layout.precision = precision;
      Booster booster({}, world);
      Job job = make(world, layout);
      std::ofstream(in(name + ".losses")) << nlohmann::json(train(job, kBefore + kAfter)).dump();
      booster.save_model(job.model, in(name));
    });
    alone_[precision] = nlohmann::json::parse(read_bytes(in(name + ".losses"))).get<std::vector<double>>();
  }

  void expect_losses(const std::vector<double>& losses, const std::string& precision, size_t begin) const {
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], alone_.at(precision).at(begin + i), loss_tolerance(precision))
          << "step " << begin + i;
  }

  // Calls `run` for each pair on the ranks of one of its layouts, with one launch for each number of ranks.
  using Run = std::function<void(const World& world, const Pair& pair)>;
  static void on_ranks_of(const std::vector<Pair>& pairs, RandomLayout Pair::*side, const Run& run) {
    std::map<int, std::vector<const Pair*>> by_ranks;
    for (const Pair& pair : pairs) by_ranks[(pair.*side).ranks].push_back(&pair);
    for (const auto& [ranks, own] : by_ranks) {
      std::string texts;
      for (const Pair* pair : own) texts += "\n  " + pair->text();
      SCOPED_TRACE(fmt::format("on {} ranks:{}", ranks, texts));  // because a rank that hangs tells of none
      on_ranks({ranks}, [&, launched = &own](World& world) {
        for (const Pair* pair : *launched) {
          SCOPED_TRACE(pair->text());
          run(world, *pair);
        }
        world.communicator().barrier();
      });
    }
  }

  // Writes the whole tensors: parameters, and moments and step counts.
  void gather(Booster& booster, const Job& job, const std::string& name) const {
    booster.save_model(job.model, in(name + ".model"));
    booster.save_optimizer(job.optimizer, in(name + ".safetensors"));
  }

  void expect_same_files(const std::string& one, const std::string& other) const {
    for (const char* file : {".model/model.safetensors", ".safetensors"})
      EXPECT_TRUE(read_bytes(in(one) + file) == read_bytes(in(other) + file)) << one << file;
  }

  void expect_model_of_one_rank(const std::string& name, const std::string& precision) const {
    const RawTensors found = read_safetensors(in(name) + "/model.safetensors"),
                     expected = read_safetensors(in("alone-" + precision) + "/model.safetensors");
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [parameter, tensor] : expected) {
      ASSERT_TRUE(found.contains(parameter)) << parameter;
      EXPECT_EQ(found.at(parameter).shape, tensor.shape) << parameter;
      const std::vector<double> own = values_of(found.at(parameter)), alone = values_of(tensor);
      ASSERT_EQ(own.size(), alone.size()) << parameter;
      double largest = 0, error = 0;
      for (size_t i = 0; i < own.size(); ++i) {
        largest = std::max(largest, std::abs(alone[i]));
        error = std::max(error, std::abs(own[i] - alone[i]));
      }
      EXPECT_LE(error, value_tolerance(precision) * largest) << parameter;
    }
  }

  TemporaryFolder folder_;
  JobOptions options_;
  std::map<std::string, std::vector<double>> alone_;  // losses, by precision
};

// An ordinary run takes the first of the pairs that a run with WEFT_TEST_FULL=1 takes.
TEST_F(RandomReshard, GoesOnAsOneRank) {
  constexpr size_t kWhole = 12, kFew = 2;
  const std::vector<Pair> pairs = draw_pairs(seed_, runs_whole_matrices() ? kWhole : kFew);
  std::set<std::string> precisions;
  for (const Pair& pair : pairs) precisions.insert(pair.before.precision);
  for (const std::string& precision : precisions) train_alone(precision);
  on_ranks_of(pairs, &Pair::before, [&](const World& world, const Pair& pair) {
    Booster booster({}, world);
    Job job = make(world, pair.before);
    expect_losses(train(job, kBefore), pair.before.precision, 0);
    booster.save_training(job, in(pair.name));
    gather(booster, job, pair.name + ".saved");
  });
  if (HasFailure()) return;
  on_ranks_of(pairs, &Pair::after, [&](const World& world, const Pair& pair) {
    Booster booster({}, world);
    Job job = make(world, pair.after);
    booster.load_training(job, in(pair.name));
    EXPECT_EQ(job.optimizer.steps(), kBefore);
    gather(booster, job, pair.name + ".loaded");
    expect_losses(train(job, kAfter), pair.after.precision, static_cast<size_t>(kBefore));
    booster.save_model(job.model, in(pair.name + ".end"));
  });
  if (HasFailure()) return;
  for (const Pair& pair : pairs) {
    SCOPED_TRACE(pair.text());
    expect_same_files(pair.name + ".loaded", pair.name + ".saved");
    expect_model_of_one_rank(pair.name + ".end", pair.after.precision);
  }
}

}  // namespace
}  // namespace weft::test
