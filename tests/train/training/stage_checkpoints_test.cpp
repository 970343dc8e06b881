// Models whose parameters lie on several pipeline stages: loading, saving, and taking over.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/launch_ranks.hpp"
#include "support/temporary_folder.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

namespace {

constexpr const char* kTied = R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 48, "n_positions": 16, "n_embd": 12, "n_layer": 4, "n_head": 4})";

struct Layout {
  int ranks;
  const char* strategy;
  const char* options;
};
// The last three shard the parameters of a stage over tensor- and data-parallel ranks.
const std::vector<Layout> kLayouts = {{2, "torch_ddp", R"({"pp_size": 2})"},
                                      {3, "torch_ddp", R"({"pp_size": 3})"},
                                      {4, "hybrid_parallel", R"({"pp_size": 2, "tp_size": 2})"},
                                      {4, "low_level_zero", R"({"pp_size": 2})"},
                                      {4, "low_level_zero", R"({"pp_size": 2, "dp_outside": false})"}};

class StageCheckpoints : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    unsetenv("WEFT_PLUGIN_PATH");
    setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
  }
  // Returns the values that a job of one rank has of the model at `path`.
  static Tensors values_at(const std::string& path) {
    return values_of(boost(one_rank(), Model::open(path, "", "fp32")));
  }
  static BoosterOptions of(const Layout& layout) {
    BoosterOptions options;
    options.strategy = layout.strategy;
    options.options = layout.options;
    return options;
  }
  static Job boost_in(Booster& booster, const std::string& path) {
    Model model = Model::open(path, "", "fp32");
    optim::Optimizer optimizer = optim::AdamW(model.parameters());
    return booster.boost(std::move(model), std::move(optimizer));
  }

  TemporaryFolder folder_;
};

TEST_F(StageCheckpoints, BeginWithTheValuesOfOneRankAndSaveThem) {
  const std::string config = folder_.file("config.json", kTied);
  const Tensors expected = values_at(config);
  for (size_t l = 0; l < kLayouts.size(); ++l) {
    SCOPED_TRACE(kLayouts[l].options);
    const std::string saved = folder_.path() + "/" + std::to_string(l);
    on_ranks({kLayouts[l].ranks}, [&](World& world) {
      Booster booster(of(kLayouts[l]), world);
      const Job job = boost_in(booster, config);
      booster.save_model(job.model, saved);
    });
    expect_equal(values_at(saved), expected);
  }
}

TEST_F(StageCheckpoints, AreReadByTheStagesOfAnotherLayout) {
  const std::string config = folder_.file("config.json", kTied);
  const Tensors expected = values_at(config);
  const std::string first = folder_.path() + "/first", second = folder_.path() + "/second";
  on_ranks({2}, [&](World& world) {
    Booster booster(of(kLayouts[0]), world);
    Job job = boost_in(booster, config);
    // Files are what it begins with, and what it loads later.
    booster.save_model(job.model, first);
    for (const Shard& shard : job.model.shared().bindings().publish(WEFT_REASON_CHECK))
      shard.value.detach().zero_();
    booster.load_model(job.model, first);
    booster.save_model(job.model, second);
  });
  expect_equal(values_at(second), expected);
  on_ranks({4}, [&](World& world) {
    Booster booster(of(kLayouts[3]), world);
    const Job job = boost_in(booster, second);
    booster.save_model(job.model, first);
  });
  expect_equal(values_at(first), expected);
}

TEST_F(StageCheckpoints, AreTakenOverIntoStagesAndOutOfThem) {
  const std::string config = folder_.file("config.json", kTied), saved = folder_.path() + "/saved";
  const Tensors expected = values_at(config);
  on_ranks({4}, [&](World& world) {
    Booster whole(of({4, "torch_ddp", "{}"}), world);
    Job job = boost_in(whole, config);
    for (const Layout& layout : {kLayouts[2], kLayouts[3], kLayouts[4]}) {
      Booster staged(of(layout), world);
      staged.take_over(job);
      whole.take_over(job);
      expect_equal(values_of(job), expected);
    }
    Booster staged(of(kLayouts[2]), world);
    staged.take_over(job);
    staged.save_model(job.model, saved);
  });
  expect_equal(values_at(saved), expected);
}

}  // namespace

}  // namespace weft::test
