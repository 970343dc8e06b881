// A training state that was saved under one strategy and number of ranks resumes under any other.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

#include "api/job.hpp"
#include "device/counting_allocator.hpp"
#include "support/launch_ranks.hpp"
#include "support/slice.hpp"
#include "weft/nn/model.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

// Layouts of the training state, one per line. Each loads what every other one has saved.
struct Layout {
  const char* name;
  int ranks;
  const char* strategy;
  const char* options = "{}";
  bool saves = true;  // if false, only loads what others saved
};
constexpr Layout kLayouts[] = {
    {"OneRank", 1, "none"},
    {"TorchDdpOn2", 2, "torch_ddp"},
    {"ZeroStage1On2", 2, "low_level_zero", R"({"stage": 1})"},
    {"ZeroStage2On3", 3, "low_level_zero", R"({"stage": 2})"},
    {"TorchFsdpOn2", 2, "torch_fsdp"},
    {"GeminiOn2", 2, "gemini"},
    {"SlicesOn2", 2, "slices"},
    {"TensorOn2", 2, "hybrid_parallel", R"({"tp_size": 2})"},
    {"TensorAndZeroOn4", 4, "hybrid_parallel", R"({"tp_size": 2, "zero_stage": 1})"},
    {"StagesOn2", 2, "torch_ddp", R"({"pp_size": 2})"},
    {"StagesAndZeroOn4", 4, "hybrid_parallel", R"({"pp_size": 2, "zero_stage": 1})"},
    {"StagesOutsideOn4", 4, "hybrid_parallel", R"({"pp_size": 2, "zero_stage": 1, "dp_outside": false})"},
    {"TurnedSlicesOn3", 3, "slices", R"({"turn": 1})"},
    {"TorchFsdpOn4", 4, "torch_fsdp", "{}", false},
};

std::vector<Layout> saved_layouts() {
  std::vector<Layout> layouts(std::begin(kLayouts), std::end(kLayouts));
  std::erase_if(layouts, [](const Layout& layout) { return !layout.saves; });
  return layouts;
}

void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

class Resharding : public testing::TestWithParam<Layout> {
 protected:
  static constexpr int64_t kBefore = 3, kAfter = 3;

  Resharding() {
    options_.model = folder_.file("config.json", config_json());
    options_.data = folder_.file("data.txt", sample_text(120 * 32 + 3));
    options_.batch_size = 12;
    options_.max_grad_norm = 0.5;
    options_.hyper = {{"eps", 1e-4}};
  }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }
  Job make(const World& world, const Layout& layout) const {
    JobOptions options = options_;
    options.strategy = layout.strategy;
    options.strategy_options = layout.options;
    return make_job(world, options);
  }
  // Returns the whole tensors of the files: parameters, moments and step counts.
  void gather(Booster& booster, const Job& job, const std::string& name) const {
    booster.save_model(job.model, in(name + ".model"));
    booster.save_optimizer(job.optimizer, in(name + ".safetensors"));
  }
  void save(const Layout& layout) const {
    on_ranks({layout.ranks}, [&](World& world) {
      Booster booster({}, world);
      Job job = make(world, layout);
      train(job, kBefore);
      booster.save_training(job, in("saved"));
      gather(booster, job, "saved");
      const std::vector<double> losses = train(job, kAfter);
      if (world.is_master()) std::ofstream(in("losses")) << nlohmann::json(losses).dump();
    });
  }
  // Expects that the loaded job equals the saved one bit for bit, and so do its next steps.
  void expect_goes_on(Booster& booster, Job& job, const std::string& name) const {
    SCOPED_TRACE(name);
    EXPECT_EQ(job.optimizer.steps(), kBefore);
    gather(booster, job, name);
    if (booster.world().is_master())
      for (const char* file : {".model/model.safetensors", ".safetensors"})
        EXPECT_TRUE(read_bytes(in(name) + file) == read_bytes(in("saved") + file)) << file;
    const std::vector<double> expected = nlohmann::json::parse(read_bytes(in("losses")));
    const std::vector<double> losses = train(job, kAfter);
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], tolerance_);
  }
  // Loads under these layouts; those with the same number of ranks use the same processes.
  void expect_loads(const std::vector<Layout>& layouts) const {
    for (const int ranks : {1, 2, 3, 4}) {
      const auto fits = [&](const Layout& layout) { return layout.ranks == ranks; };
      if (std::none_of(layouts.begin(), layouts.end(), fits)) continue;
      on_ranks({ranks}, [&](World& world) {
        Booster booster({}, world);
        for (const Layout& layout : layouts) {
          if (!fits(layout)) continue;
          Job job = make(world, layout);
          booster.load_training(job, in("saved"));
          expect_goes_on(booster, job, layout.name);
        }
      });
    }
  }

  TemporaryFolder folder_;
  JobOptions options_;
  double tolerance_ = 1e-5;  // of losses
};

TEST_P(Resharding, LoadsUnderEveryLayout) {
  save(GetParam());
  expect_loads({std::begin(kLayouts), std::end(kLayouts)});
}

// CAME has states per row, per column and per element.
TEST_P(Resharding, StatesOfWholeParametersMoveToo) {
  options_.optimizer = "came";
  options_.hyper = {{"lr", 1e-3}};
  save(GetParam());
  expect_loads({{"One", 1, "none"}, {"Turned", 3, "slices", R"({"turn": 1})"}});
}

// The folder has the weights in bf16; the training state has the fp32 values from which they were rounded.
TEST_P(Resharding, HalfPrecisionMovesItsMasters) {
  options_.precision = "bf16";
  tolerance_ = 0.05;
  save(GetParam());
  expect_loads({{"One", 1, "none"}, {"Turned", 3, "slices", R"({"turn": 1})"}});
  options_.precision = "fp32";
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job job = make(world, {"One", 1, "none"});
    booster.load_training(job, in("saved"));
    const at::Tensor weight = job.model.module().named_parameters(true)["transformer.wte.weight"];
    EXPECT_FALSE(at::equal(weight.to(at::kBFloat16).to(at::kFloat), weight)) << "the masters were not read";
    const std::vector<double> expected = nlohmann::json::parse(read_bytes(in("losses")));
    EXPECT_NEAR(train(job, 1)[0], expected[0], tolerance_);
  });
}

// The sizes of the files show that every rank wrote its share and nothing was written twice. The first
// tensor-parallel rank writes what no rank splits, such as norms.
TEST_P(Resharding, EveryRankWritesItsPart) {
  save(GetParam());
  size_t expected = 0, bytes = 0, first = 0;
  for (const auto& [name, tensor] : read_safetensors(in("saved.safetensors"))) {
    expected += tensor.bytes.size();
    if (std::string(GetParam().name) != "TensorOn2") continue;
    for (const char* whole : {"ln_", "wpe", "c_proj.bias"})
      if (name.find(whole) != std::string::npos) first += tensor.bytes.size();
  }
  std::vector<RawTensors> parts;
  const bool even = !std::string(GetParam().name).starts_with("Stages");  // stages have different units
  for (int rank = 0; rank < GetParam().ranks; ++rank) {
    const std::string part = in("saved/training_state/part-0000" + std::to_string(rank) + ".safetensors");
    // Another stage may count all that a rank holds: the embeddings that are tied to the head.
    if (even || std::filesystem::exists(part)) parts.push_back(read_safetensors(part));
  }
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    size_t own = 0;
    for (const auto& [name, tensor] : parts[rank]) own += tensor.bytes.size();
    const double share =
        static_cast<double>(expected - first) / GetParam().ranks + static_cast<double>(rank == 0 ? first : 0);
    if (even) {
      EXPECT_NEAR(static_cast<double>(own), share, 2000) << rank;
    }
    bytes += own;
  }
  EXPECT_EQ(bytes, expected);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Resharding, testing::ValuesIn(slice("Resharding", saved_layouts(), 4)),
                         [](const auto& layout) { return std::string(layout.param.name); });

// Moments are fp32 even if the optimizer updates half-precision values.
class WithoutMasters : public Resharding {};

TEST_P(WithoutMasters, MovesWithItsMoments) {
  options_.precision = "bf16";
  tolerance_ = 0.05;
  save(GetParam());
  expect_loads({{"WithMasters", 1, "none"},
                {"Zero", 3, "low_level_zero", R"({"stage": 2, "master_weights": false})"},
                {"Offloaded", 2, "low_level_zero", R"({"cpu_offload": true, "master_weights": false})"},
                {"Gemini", 4, "gemini", R"({"master_weights": false})"},
                {"OffloadedFsdp", 2, "torch_fsdp", R"({"cpu_offload": true})"}});
}

INSTANTIATE_TEST_SUITE_P(Layouts, WithoutMasters,
                         testing::Values(Layout{"ZeroOn2", 2, "low_level_zero",
                                                R"({"master_weights": false})"},
                                         Layout{"GeminiOn2", 2, "gemini", R"({"master_weights": false})"}),
                         [](const auto& layout) { return std::string(layout.param.name); });

class TakeOver : public Resharding {};

// The rest of a run under another strategy equals the rest of the run.
TEST_P(TakeOver, GoesOnUnderEveryLayoutOfAsManyRanks) {
  const Layout& before = GetParam();
  save(before);
  on_ranks({before.ranks}, [&](World& world) {
    for (const Layout& after : kLayouts) {
      if (after.ranks != before.ranks) continue;
      Job job = make(world, before);
      train(job, kBefore);
      Booster next({.strategy = after.strategy, .options = after.options}, world);
      next.take_over(job);
      expect_goes_on(next, job, after.name);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, TakeOver, testing::ValuesIn(slice("TakeOver", saved_layouts(), 4)),
                         [](const auto& layout) { return std::string(layout.param.name); });

// Loading holds at most one whole tensor beside the shards; here one embedding is most of the model.
class Memory : public Resharding {
 protected:
  static constexpr int64_t kVocabulary = 30000, kLargest = kVocabulary * 12 * 4, kSlack = 200000;
  Memory() { options_.model = folder_.file("config.json", config_json({.vocabulary = kVocabulary})); }
};

TEST_P(Memory, HoldsOneTensorBesideTheShardsInASave) {
  on_ranks({GetParam().ranks}, [&](World& world) {
    count_memory();
    Booster booster({}, world);
    Job job = make(world, GetParam());
    train(job, 1);
    const int64_t before = allocated_bytes();
    reset_peak_allocated_bytes();
    booster.save_training(job, in("saved"));
    EXPECT_LE(peak_allocated_bytes() - before, kLargest + kSlack);
    EXPECT_LE(allocated_bytes(), before + kSlack);
    reset_peak_allocated_bytes();
    booster.load_training(job, in("saved"));
    EXPECT_LE(peak_allocated_bytes() - before, 2 * kLargest + kSlack);  // old and new moments at once
  });
}

TEST_P(Memory, HoldsBothLayoutsAndOneTensorInATakeOver) {
  for (const Layout& after : kLayouts) {
    if (after.ranks != GetParam().ranks) continue;
    on_ranks({after.ranks}, [&](World& world) {
      count_memory();
      Job job = make(world, GetParam());
      train(job, 1);
      const int64_t before = allocated_bytes();
      reset_peak_allocated_bytes();
      Booster next({.strategy = after.strategy, .options = after.options}, world);
      next.take_over(job);
      EXPECT_LE(peak_allocated_bytes(), before + allocated_bytes() + kLargest + kSlack);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Memory, testing::ValuesIn(slice("Memory", saved_layouts(), 4)),
                         [](const auto& layout) { return std::string(layout.param.name); });

}  // namespace
}  // namespace weft::test
