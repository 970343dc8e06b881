// What a job keeps when its strategy changes, and what take_over() refuses.
#include "api/job.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "weft/nn/model.hpp"

namespace weft::test {
namespace {

class LiveSwitch : public testing::Test {
 protected:
  Job make(const World& world, const std::string& strategy) const {
    JobOptions options = options_;
    options.strategy = strategy;
    return make_job(world, options);
  }
  static Booster under(const World& world, const std::string& strategy, const std::string& options = "{}") {
    return Booster({.strategy = strategy, .options = options}, world);
  }

  // Returns this rank's averaged weights.
  static std::vector<at::Tensor> average_of(Job& job) {
    std::vector<at::Tensor> values;
    job.swap_average();
    for (const at::Tensor& weight : job.model.module().parameters())
      values.push_back(weight.detach().clone());
    job.swap_average();
    return values;
  }

  TemporaryFolder folder_;
  JobOptions options_ = [this] {
    JobOptions options;
    options.model = folder_.file("config.json", config_json({.dropout = 0.1}));
    options.data = folder_.file("data.txt", sample_text(17 * 32 + 3));
    return options;
  }();
};

TEST_F(LiveSwitch, KeepsDropoutScheduleAndDataPosition) {
  on_ranks({2}, [&](World& world) {
    Job whole = make(world, "torch_ddp");
    const std::vector<double> expected = train(whole, 6);
    Job job = make(world, "torch_ddp");
    train(job, 2);
    Booster slices = under(world, "slices"), back = under(world, "torch_ddp");
    slices.take_over(job);
    std::vector<double> losses = train(job, 2);
    back.take_over(job);
    for (const double loss : train(job, 2)) losses.push_back(loss);
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i + 2], 1e-5);
    EXPECT_EQ(job.schedule.last_step(), 6);
  });
}

// SGD, because Adam turns the rounding of gradients that are zero into whole steps.
TEST_F(LiveSwitch, AnAverageMovesWithTheWeights) {
  options_.model = folder_.file("config.json", config_json());
  options_.optimizer = "sgd";
  options_.hyper = {{"lr", 0.1}};
  on_ranks({2}, [&](World& world) {
    // Returns the averaged weights by their names.
    const auto averages = [&](Job& job, const std::string& strategy, const std::string& name) {
      const std::string folder = folder_.path() + "/" + name;
      under(world, strategy).save_training(job, folder);
      return read_safetensors(folder + "/ema/model.safetensors");
    };
    Job whole = make(world, "torch_ddp");
    whole.average_weights(0.75);
    train(whole, 8);
    const RawTensors expected = averages(whole, "torch_ddp", "whole");
    Job job = make(world, "torch_ddp");
    job.average_weights(0.75);
    train(job, 2);
    RawTensors before = averages(job, "torch_ddp", "0");
    int moves = 0;
    for (const auto& [strategy, options] : std::vector<std::pair<std::string, std::string>>{
             {"slices", "{}"}, {"hybrid_parallel", R"({"tp_size": 2})"}, {"torch_ddp", "{}"}}) {
      Booster next = under(world, strategy, options);
      next.take_over(job);
      const RawTensors moved = averages(job, strategy, std::to_string(++moves));
      ASSERT_EQ(moved.size(), before.size());
      for (const auto& [name, tensor] : moved) EXPECT_TRUE(tensor.bytes == before.at(name).bytes) << name;
      train(job, 2);
      before = averages(job, strategy, std::to_string(moves) + "more");
      EXPECT_TRUE(before.begin()->second.bytes != moved.begin()->second.bytes);
    }
    ASSERT_EQ(before.size(), expected.size());
    const RawTensors weights = read_safetensors(folder_.path() + "/whole/model.safetensors");
    double farthest = 0;
    for (const auto& [name, tensor] : before) {
      const auto values = [](const RawTensor& of) {
        return at::from_blob(const_cast<char*>(of.bytes.data()),
                             {static_cast<int64_t>(of.bytes.size() / sizeof(float))}, at::kFloat);
      };
      EXPECT_TRUE(at::allclose(values(tensor), values(expected.at(name)), 0, 1e-6)) << name;
      farthest = std::max(farthest, (values(tensor) - values(weights.at(name))).abs().max().item<double>());
    }
    EXPECT_GT(farthest, 1e-4) << "the average is not the weights";
  });
}

TEST_F(LiveSwitch, AnUntrainedJobAndOneWithoutOptimizerMoveToo) {
  options_.optimizer = options_.data = "";
  on_ranks({2}, [&](World& world) {
    Job job = make(world, "slices");
    const at::Tensor before = job.model.module().named_parameters(true)["transformer.wte.weight"].clone();
    Booster ddp = under(world, "torch_ddp");
    ddp.take_over(job);
    EXPECT_TRUE(at::equal(job.model.module().named_parameters(true)["transformer.wte.weight"], before));
  });
}

// Also one that fails when it has the model already, with a plan of its own.
TEST_F(LiveSwitch, AStrategyThatCannotBeMadeLeavesTheJobAsItWas) {
  on_ranks({2}, [&](World& world) {
    for (const char* strategy : {"torch_ddp", "hybrid_parallel"}) {
      options_.strategy_options = strategy == std::string("hybrid_parallel") ? R"({"tp_size": 2})" : "{}";
      Job whole = make(world, strategy);
      whole.average_weights(0.5);
      const std::vector<double> expected = train(whole, 4);
      Job job = make(world, strategy);
      job.average_weights(0.5);
      train(job, 2);
      Booster unknown = under(world, "slizes");
      Booster precise({.strategy = "slices", .precision = "fp64"}, world);
      EXPECT_ERROR(unknown.take_over(job), WEFT_NOT_FOUND, "\"slizes\"", "slices");
      EXPECT_ERROR(precise.take_over(job), WEFT_INVALID_ARGUMENT, "opened in fp32");
      for (const char* options : {R"({"fail": "configure"})", R"({"fail": "values_changed"})",
                                  R"({"fail": "values_changed", "tp_size": 2})"}) {
        Booster failing = under(world, "slices", options);
        EXPECT_ERROR(failing.take_over(job), WEFT_INTERNAL, "told to fail");
      }
      const std::vector<double> losses = train(job, 2);
      for (size_t i = 0; i < losses.size(); ++i) EXPECT_EQ(losses[i], expected[i + 2]);
      const std::vector<at::Tensor> average = average_of(job), unmoved = average_of(whole);
      ASSERT_EQ(average.size(), unmoved.size());
      for (size_t i = 0; i < average.size(); ++i) EXPECT_TRUE(average[i].equal(unmoved[i])) << i;
    }
  });
}

// A data set that throws what no C++ library throws, once it is told to.
class Throwing final : public data::Dataset {
 public:
  explicit Throwing(std::shared_ptr<data::Dataset> whole) : whole_(std::move(whole)) {}
  int64_t size() const override { return whole_->size(); }
  std::string name() const override { return whole_->name(); }
  Batch get(const std::vector<int64_t>& indices) const override {
    if (fails) throw 7;
    return whole_->get(indices);
  }
  bool fails = false;

 private:
  std::shared_ptr<data::Dataset> whole_;
};

TEST_F(LiveSwitch, AnyExceptionLeavesTheJobAsItWas) {
  setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);
  on_ranks({2}, [&](World& world) {
    const auto dataset = std::make_shared<Throwing>(data::text(options_.data, 32));
    Booster ddp = under(world, "torch_ddp"), slices = under(world, "slices");
    const Model model = Model::open(options_.model);
    Job job = ddp.boost(model, optim::AdamW(model.parameters(), {.lr = 1e-3}), {},
                        ddp.prepare_dataloader(dataset, 4));
    train(job, 1);
    dataset->fails = true;
    EXPECT_THROW(slices.take_over(job), int);
    dataset->fails = false;
    train(job, 1);
    EXPECT_EQ(job.optimizer.steps(), 2);
    slices.take_over(job);
    train(job, 1);
  });
}

TEST_F(LiveSwitch, AModelThatCannotBeGivenBackEndsTheJob) {
  on_ranks({2}, [&](World& world) {
    Job job = make(world, "torch_ddp");
    Booster failing = under(world, "slices", R"({"fail": "dtype"})");
    EXPECT_ERROR(failing.take_over(job), WEFT_INVALID_ARGUMENT, "told to fail", "model back", "must be",
                 "of Half");
    EXPECT_ERROR(train(job, 1), WEFT_FAILED_PRECONDITION, "torch_ddp", "earlier step", "a checkpoint");
  });
}

// Tensor-parallel ranks must draw the same dropout masks for the residual stream. After a switch back,
// data-parallel ranks draw different masks again.
TEST_F(LiveSwitch, RanksDrawTheMasksOfTheirNewAxes) {
  const std::string saved = folder_.path() + "/saved";
  on_ranks({2}, [&](World& world) {
    const auto on_all = [&](const at::Tensor& own) {
      const at::Tensor all = at::empty({2, own.numel()}, own.options());
      world.communicator().all_gather(all, own.contiguous().view(-1)).wait();
      return all[0].equal(all[1]);
    };
    const auto expect_one_stream = [&](Job& job) {
      train(job, 2);
      for (const char* name : {"transformer.wpe.weight", "transformer.h.1.mlp.c_proj.bias"})
        EXPECT_TRUE(on_all(job.model.module().named_parameters(true)[name].detach())) << name;
    };
    const auto drawn = [] { return at::rand({8}); };
    Job job = make(world, "torch_ddp");
    train(job, 2);
    Booster tensor = under(world, "hybrid_parallel", R"({"tp_size": 2})"), data = under(world, "torch_ddp");
    tensor.save_training(job, saved);
    tensor.take_over(job);
    expect_one_stream(job);
    data.take_over(job);
    EXPECT_FALSE(on_all(drawn()));

    JobOptions options = options_;
    options.strategy = "hybrid_parallel";
    options.strategy_options = R"({"tp_size": 2})";
    Job resumed = make_job(world, options);
    tensor.load_training(resumed, saved);
    expect_one_stream(resumed);
  });
}

TEST_F(LiveSwitch, RefusesPendingGradientsAndWhatIsNotBoosted) {
  on_ranks({2}, [&](World& world) {
    Job job = make(world, "torch_ddp");
    Batch batch;
    ASSERT_TRUE(job.data.next(batch));
    job.accumulate_gradients(batch, false);
    Booster slices = under(world, "slices");
    EXPECT_ERROR(slices.take_over(job), WEFT_FAILED_PRECONDITION, "no step");
    job.optimizer.zero_grad();
    slices.take_over(job);
    Job loose;
    loose.model = Model::open(options_.model);
    EXPECT_ERROR(slices.take_over(loose), WEFT_FAILED_PRECONDITION, "not boosted");
  });
}

}  // namespace
}  // namespace weft::test
