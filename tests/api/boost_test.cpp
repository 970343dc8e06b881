// What boost() and the job refuse, and what must be equal on every rank.
#include <cmath>
#include <limits>

#include "api/job.hpp"
#include "runtime/device/stand_in.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/tolerances.hpp"
#include "training/training.hpp"

namespace weft::test {
namespace {

class Boost : public testing::Test {
 protected:
  TemporaryFolder folder_;
  JobOptions options_ = [this] {
    JobOptions options;
    options.model = folder_.file("config.json", config_json({.dropout = 0.1}));
    options.data = folder_.file("data.txt", sample_text(17 * 32));
    return options;
  }();
};

TEST_F(Boost, NamesWhatRanksHaveNotAlike) {
  const std::string other_model = folder_.file("other.json", config_json({.dropout = 0.2}));
  const std::string longer = folder_.file("longer.txt", sample_text(18 * 32));
  const std::string other_text = folder_.file("text.txt", sample_text(17 * 32, 3));
  struct Case {
    std::function<void(JobOptions&)> change;
    std::vector<std::string> pieces;
  };
  const Case cases[] = {
      {[](JobOptions& o) {
         o.hyper = {{"weight_decay", 0.5}};
       },
       {"optimizer groups 0 options weight_decay: rank 0 has 0.01, rank 1 has 0.5"}},
      {[](JobOptions& o) { o.optimizer = "adam"; }, {"optimizer name: rank 0 has adamw, rank 1 has adam"}},
      {[](JobOptions& o) { o.optimizer = ""; }, {"optimizer: rank 0 has {", "rank 1 has none"}},
      {[](JobOptions& o) { o.warmup_steps = 3; }, {"optimizer schedule", "warmup_steps=2", "warmup_steps=3"}},
      {[](JobOptions& o) { o.strategy_options = R"({"bucket_cap_mb": 3})"; },
       {"strategy option bucket_cap_mb: rank 0 has 25", "rank 1 has 3"}},
      {[](JobOptions& o) { o.deterministic = true; }, {"deterministic: rank 0 has false, rank 1 has true"}},
      {[](JobOptions& o) { o.batch_size = 4; }, {"data batch_size: rank 0 has 8 (in ", "rank 1 has 4 (in "}},
      {[](JobOptions& o) { o.data_seed = 1; }, {"data seed: rank 0 has 7 (in ", "rank 1 has 1 (in "}},
      {[&](JobOptions& o) { o.data = longer; },
       {"data samples: rank 0 has 17 (in ", "rank 1 has 18 (in ", "longer.txt"}},
      {[&](JobOptions& o) { o.data = other_text; },
       {"data content: rank 0 has ", "(in " + options_.data + ")", "(in " + other_text + ")"}},
      {[&](JobOptions& o) { o.model = other_model; },
       {"config.json attn_pdrop: rank 0 has 0.1, rank 1 has 0.2"}},
      {[](JobOptions& o) { o.accumulate = 2; }, {"accumulate: rank 0 has 1, rank 1 has 2"}},
      {[](JobOptions& o) { o.max_grad_norm = 2; }, {"max_grad_norm: rank 0 has 0", "rank 1 has 2"}},
      {[](JobOptions& o) { o.seed = 1; }, {"seed: rank 0 has 42, rank 1 has 1"}},
  };
  on_ranks({2}, [&](World& world) {
    for (const Case& c : cases) {
      JobOptions options = options_;
      if (world.rank() == 1) c.change(options);
      try {
        make_job(world, options);
        ADD_FAILURE() << "not seen: " << c.pieces.front();
      } catch (const Error& error) {
        const std::string text = error.what();
        EXPECT_EQ(error.status(), WEFT_FAILED_PRECONDITION) << text;
        EXPECT_NE(text.find("ranks 0 and 1 were not started alike"), std::string::npos) << text;
        for (const std::string& piece : c.pieces) EXPECT_NE(text.find(piece), std::string::npos) << text;
      }
    }
    make_job(world, options_);  // the world still works
  });
}

TEST_F(Boost, RefusesABatchPartOfAnotherRank) {
  on_ranks({2}, [&](World& world) {
    Booster booster({.strategy = "torch_ddp"}, world);
    const auto dataset = data::text(options_.data, 32);
    EXPECT_ERROR(booster.boost(Model::open(options_.model), {}, {}, data::Loader(dataset, {.batch_size = 8})),
                 WEFT_INVALID_ARGUMENT, "part 0 of 1", "of 2", "prepare_dataloader");
    EXPECT_ERROR(booster.prepare_dataloader(dataset, 0), WEFT_INVALID_ARGUMENT, "batch_size");
    EXPECT_ERROR(booster.prepare_dataloader(dataset, INT64_MAX / 2 + 1), WEFT_INVALID_ARGUMENT,
                 "batch_size is 4611686018427387904 on each of 2 data-parallel ranks",
                 "at most 4611686018427387903");
    Job job = booster.boost(Model::open(options_.model), {}, {}, booster.prepare_dataloader(dataset, 4));
    Batch batch;
    ASSERT_TRUE(job.data.next(batch));
    EXPECT_EQ(batch.at("input_ids").size(0), 4);
  });
}

TEST_F(Boost, RefusesOnAllRanksWhatOneRankHasWrong) {
  on_ranks({2}, [&](World& world) {
    Booster booster({.strategy = "torch_ddp"}, world);
    const auto dataset = data::text(options_.data, 32);
    // Right on rank 0 alone.
    const data::Loader first(dataset, {.batch_size = 8, .rank = 0, .ranks = 2});
    EXPECT_ERROR(booster.boost(Model::open(options_.model), {}, {}, first), WEFT_INVALID_ARGUMENT,
                 "part 0 of 2", "rank 1 of 2");
    const Criterion nothing = [](const State& outputs, const Batch&) {
      return outputs.at("logits").sum() * 0;
    };
    EXPECT_ERROR(booster.boost(Model::open(options_.model), {}, world.rank() == 1 ? nothing : Criterion()),
                 WEFT_FAILED_PRECONDITION, "criterion: rank 0 has the model's loss, rank 1 has the caller's");
    Booster tensor({.strategy = "hybrid_parallel", .options = R"({"tp_size": 2})"}, world);
    const Model model = Model::open(options_.model);
    EXPECT_ERROR(tensor.boost(model, {}, {}, first), WEFT_INVALID_ARGUMENT, "part 0 of 2", "rank 0 of 1");
    tensor.boost(model);  // is as it was
    EXPECT_EQ(model.num_elements(), Model::open(options_.model).num_elements());
  });
}

TEST_F(Boost, RefusesAnotherDeviceThanThatOfTheFirstBooster) {
  on_ranks({1}, [&](World& world) {
    const Booster first({.strategy = "none"}, world);
    EXPECT_ERROR(Booster({.strategy = "none", .device = "cuda"}, world), WEFT_FAILED_PRECONDITION,
                 "device cuda: this process computes on cpu already");
    EXPECT_NO_THROW(Booster({.strategy = "none"}, world));
  });
}

// One machine may have a device for each of its ranks, and another one too few.
TEST_F(Boost, RefusesRanksThatCommunicateDifferently) {
  on_ranks({2}, [&](World& world) {
    device::use(device::Device(kStandIn, -1, /*shared=*/world.rank() == 1));
    Booster booster({.strategy = "torch_ddp", .device = "stand_in"}, world);
    EXPECT_ERROR(booster.boost(Model::open(options_.model)), WEFT_FAILED_PRECONDITION,
                 "communication backend of the device: rank 0 has pretended, rank 1 has gloo");
  });
}

// Data that a rank may not be able to read.
class Unreadable final : public data::Dataset {
 public:
  explicit Unreadable(std::shared_ptr<data::Dataset> whole) : whole_(std::move(whole)) {}
  int64_t size() const override { return whole_->size(); }
  std::string name() const override { return whole_->name(); }
  Batch get(const std::vector<int64_t>& indices) const override {
    if (is_damaged) throw Error(WEFT_DATA_LOSS, "the samples are damaged");
    return whole_->get(indices);
  }
  bool is_damaged = false;

 private:
  std::shared_ptr<data::Dataset> whole_;
};

TEST_F(Boost, FailsOnEveryRankWhereOneCannotReadItsData) {
  on_ranks({2}, [&](World& world) {
    Booster booster({.strategy = "torch_ddp"}, world);
    const auto dataset = std::make_shared<Unreadable>(data::text(options_.data, 32));
    const Model model = Model::open(options_.model);
    const std::string told = world.rank() == 0 ? "rank 1 failed: the samples are damaged" : "are damaged";
    dataset->is_damaged = world.rank() == 1;
    EXPECT_ERROR(booster.boost(model, {}, {}, booster.prepare_dataloader(dataset, 4)), WEFT_DATA_LOSS, told);
    dataset->is_damaged = false;
    Job job = booster.boost(model, {}, {}, booster.prepare_dataloader(dataset, 4));  // nobody waits
    dataset->is_damaged = world.rank() == 1;
    EXPECT_ERROR(booster.save_training(job, folder_.path() + "/out"), WEFT_DATA_LOSS, told);
    dataset->is_damaged = false;
    booster.save_training(job, folder_.path() + "/out");
  });
}

// "slices" keeps what it has summed in the gradients themselves.
TEST_F(Boost, AddsUpSynchronisedBackwardsBeforeAStep) {
  options_.model = folder_.file("plain.json", config_json());
  options_.optimizer = "sgd";
  options_.hyper = {{"lr", 1}};
  options_.schedule = "";
  on_ranks({2}, [&](World& world) {
    std::map<std::string, Job> jobs;
    for (const char* strategy : {"torch_ddp", "slices"}) {
      options_.strategy = strategy;
      Job& job = jobs[strategy] = make_job(world, options_);
      Batch batch;
      for (int backwards = 0; backwards < 2; ++backwards) {
        ASSERT_TRUE(job.data.next(batch));
        job.accumulate_gradients(batch);
      }
      job.optimizer.step();
    }
    for (const auto& item : jobs["torch_ddp"].model.module().named_parameters(true))
      EXPECT_TRUE(
          is_near(jobs["slices"].model.module().named_parameters(true)[item.key()], item.value(), 1e-4))
          << item.key();
  });
}

TEST_F(Boost, RefusesWrongOptionsBeforeAnythingHappens) {
  on_ranks({1}, [&](World& world) {
    EXPECT_ERROR(Booster({.accumulate = 0}, world), WEFT_INVALID_ARGUMENT, "accumulate is 0");
    EXPECT_ERROR(Booster({.max_grad_norm = -1}, world), WEFT_INVALID_ARGUMENT, "max_grad_norm is -1");
    EXPECT_ERROR(Booster({.options = R"({"precision": "bf16"})", .precision = "fp16"}, world),
                 WEFT_INVALID_ARGUMENT, "\"fp16\"", "\"bf16\"");
    EXPECT_ERROR(Booster({.precision = "fp31"}, world), WEFT_INVALID_ARGUMENT, "\"fp31\"");
    EXPECT_ERROR(BoosterOptions::parse(R"({"stratgey": "none"})"), WEFT_INVALID_ARGUMENT, "stratgey",
                 "strategy");
    EXPECT_ERROR(BoosterOptions::parse(R"({"accumulate": "two"})"), WEFT_INVALID_ARGUMENT, "accumulate");
    EXPECT_ERROR(Booster({.strategy = "torch_dpp"}, world).boost(Model::open(options_.model)), WEFT_NOT_FOUND,
                 "torch_dpp", "torch_ddp");
    EXPECT_ERROR(Booster({.strategy = "torch_ddp", .options = R"({"bucket_cap": 3})"}, world)
                     .boost(Model::open(options_.model)),
                 WEFT_INVALID_ARGUMENT, "bucket_cap", "bucket_cap_mb");
    EXPECT_ERROR(Booster({.strategy = "none", .recompute = "some"}, world).boost(Model::open(options_.model)),
                 WEFT_INVALID_ARGUMENT, "recompute is \"some\"", "all");
    EXPECT_ERROR(Booster({.strategy = "none", .precision = "fp64"}, world).boost(Model::open(options_.model)),
                 WEFT_INVALID_ARGUMENT, "opened in fp32", "fp64");
  });
}

TEST_F(Boost, NamesAllRanksThatDiffer) {
  on_ranks({4}, [&](World& world) {
    JobOptions options = options_;
    if (world.rank() % 2 == 1) options.seed = 1;
    if (world.rank() == 3) options.accumulate = 2;
    EXPECT_ERROR(make_job(world, options), WEFT_FAILED_PRECONDITION,
                 "ranks 0, 1 and 3 were not started alike",
                 "\nseed: ranks 0 and 2 have 42, ranks 1 and 3 have 1",
                 "\naccumulate: ranks 0, 1 and 2 have 1, rank 3 has 2");
  });
}

TEST_F(Boost, RefusesNumbersThatAreNotFinite) {
  on_ranks({1}, [&](World& world) {
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                     kInfinity = std::numeric_limits<double>::infinity();
    for (const double number : {kNan, kInfinity}) {
      EXPECT_ERROR(Booster({.max_grad_norm = number}, world), WEFT_INVALID_ARGUMENT, "max_grad_norm is");
      const Model model = Model::open(options_.model);
      EXPECT_ERROR(optim::AdamW(model.parameters(), {.lr = number}), WEFT_INVALID_ARGUMENT,
                   "optimizer adamw: lr is", "must be a finite number");
      Job job = make_job(world, options_);
      Batch batch;
      ASSERT_TRUE(job.data.next(batch));
      job.max_grad_norm = number;
      EXPECT_ERROR(job.train_step(batch), WEFT_INVALID_ARGUMENT, "max_grad_norm is");
      job.max_grad_norm = 0;
      job.optimizer.groups()[0].options["weight_decay"] = number;
      EXPECT_ERROR(job.train_step(batch), WEFT_INVALID_ARGUMENT, "optimizer adamw: weight_decay is");
      EXPECT_ERROR(job.optimizer.clip_grad_by_norm(kNan), WEFT_INVALID_ARGUMENT, "nan");
      EXPECT_ERROR(job.optimizer.clip_grad_by_value(kNan), WEFT_INVALID_ARGUMENT, "nan");
    }
    EXPECT_ERROR(optim::schedule("cosine_warmup", {2, 20, kNan}), WEFT_INVALID_ARGUMENT,
                 "minimum_factor is nan");
    EXPECT_ERROR(Booster({.check_agreement = -2}, world), WEFT_INVALID_ARGUMENT, "check_agreement is -2");
    EXPECT_ERROR(BoosterOptions::parse(R"({"check_agreement": -2})"), WEFT_INVALID_ARGUMENT,
                 "booster: check_agreement is -2, must be an integer, at least -1");
    const std::string file = folder_.file("booster.json", R"({"max_grad_norm": -1})");
    EXPECT_ERROR(BoosterOptions::load(file), WEFT_INVALID_ARGUMENT,
                 file + ": max_grad_norm is -1, must be a number, at least 0");
  });
}

TEST_F(Boost, RefusesTf32WhereItHasNoEffect) {
  on_ranks({1}, [&](World& world) {
    for (const char* precision : {"fp64", "bf16", "fp16"})
      EXPECT_ERROR(Booster({.precision = precision, .allow_tf32 = true}, world), WEFT_INVALID_ARGUMENT,
                   "allow_tf32 is true, but has no effect", std::string("the precision is ") + precision);
    EXPECT_ERROR(Booster({.strategy = "none", .mixed_precision = "bf16", .allow_tf32 = true}, world),
                 WEFT_INVALID_ARGUMENT, "allow_tf32 is true, but has no effect", "with mixed_precision bf16");
    EXPECT_ERROR(Booster({.options = R"({"precision": "bf16"})", .allow_tf32 = true}, world),
                 WEFT_INVALID_ARGUMENT, "the precision is bf16");
    EXPECT_ERROR(Booster(BoosterOptions::parse(R"({"allow_tf32": true})"), world), WEFT_UNIMPLEMENTED,
                 "allow_tf32 is true, but has no effect: the device cpu has no TF32");
    EXPECT_TRUE(BoosterOptions::parse(R"({"deterministic": true})").deterministic);
  });
}

// libtorch has put_ for arbitrary indices only without a determined order.
TEST_F(Boost, WithDeterministicRefusesAnOperationThatIsNot) {
  on_ranks({1}, [&](World& world) {
    const auto step_of = [&](bool deterministic) {
      Booster booster({.strategy = "none", .deterministic = deterministic}, world);
      Model model = Model::open(options_.model);
      optim::Optimizer optimizer = optim::AdamW(model.parameters());
      data::Loader loader = booster.prepare_dataloader(data::text(options_.data, 32), 8);
      Job job = booster.boost(
          std::move(model), std::move(optimizer),
          [](const State& outputs, const Batch&) {
            const at::Tensor logits = outputs.at("logits");
            return logits.put(at::zeros({1}, at::kLong), at::ones({1}, logits.options())).sum();
          },
          std::move(loader));
      train(job, 1);
    };
    EXPECT_NO_THROW(step_of(false));
    EXPECT_ERROR(step_of(true), WEFT_INTERNAL, "put_ does not have a deterministic implementation");
  });
}

TEST_F(Boost, AFailedBoostLeavesTheModelToBeBoostedAgain) {
  on_ranks({1}, [&](World& world) {
    Booster booster({.strategy = "none"}, world);
    const Model model = Model::open(options_.model);
    EXPECT_ERROR(booster.boost(model, optim::AdamW({{"transformer.wte.wieght"}})), WEFT_NOT_FOUND,
                 "transformer.wte.wieght", "transformer.wte.weight");
    optim::Optimizer optimizer = optim::AdamW(model.parameters());
    booster.boost(model, optimizer);
    EXPECT_ERROR(booster.boost(model), WEFT_FAILED_PRECONDITION, "boosted already");
    EXPECT_ERROR(booster.boost(Model::open(options_.model), optimizer), WEFT_FAILED_PRECONDITION,
                 "belongs to a boosted model");
  });
}

TEST_F(Boost, RefusesToTrainWithoutWhatItNeeds) {
  on_ranks({1}, [&](World& world) {
    const Model model = Model::open(options_.model);
    Batch batch;
    batch.set("input_ids", at::arange(32).view({1, 32}));
    EXPECT_ERROR(model(batch), WEFT_FAILED_PRECONDITION, "boost it");
    Job job = Booster({.strategy = "none"}, world).boost(model);
    EXPECT_ERROR(job.train_step(batch), WEFT_FAILED_PRECONDITION, "needs an optimizer");
    EXPECT_ERROR(job.evaluate(batch), WEFT_INVALID_ARGUMENT, "no labels");
    EXPECT_ERROR(job.evaluate(Batch()), WEFT_INVALID_ARGUMENT, "no fields");
    batch.set("labels", at::arange(64).view({2, 32}));
    EXPECT_ERROR(job.evaluate(batch), WEFT_INVALID_ARGUMENT, "input_ids has 1, labels has 2");
    EXPECT_ERROR(Booster::NoSync(Model::open(options_.model)), WEFT_FAILED_PRECONDITION, "boosted");
  });
}

TEST_F(Boost, EvaluationLeavesTheModeAndTheGeneratorAlone) {
  on_ranks({1, 2}, [&](World& world) {
    Booster booster({}, world);
    Job job = make_job(world, options_);
    Job other = make_job(world, options_);
    Batch batch;
    ASSERT_TRUE(job.data.next(batch));
    job.train_step(batch);
    const at::Tensor logits = job.forward(batch).at("logits");
    EXPECT_TRUE(at::equal(job.forward(batch).at("logits"), logits));  // no dropout
    const double loss = job.evaluate(batch).loss();
    EXPECT_TRUE(std::isfinite(loss));
    EXPECT_TRUE(job.model.module().is_training());
    const auto [outputs, evaluation] = job.forward_and_evaluate(batch);
    EXPECT_TRUE(at::equal(outputs.at("logits"), logits));
    EXPECT_EQ(evaluation.loss(), loss);
  });
}

TEST_F(Boost, EvaluatesTheCriterionThatItTrainsOn) {
  on_ranks({1, 2}, [&](World& world) {
    const Criterion criterion = [](const State& outputs, const Batch&) {
      return outputs.at("logits").square().mean();
    };
    Booster booster({.strategy = "torch_ddp"}, world);
    const Model model = Model::open(options_.model);
    Job job = booster.boost(model, optim::SGD(model.parameters(), {.lr = 0}), criterion);
    Batch batch;
    batch.set("input_ids", at::arange(64).view({2, 32}) + 64 * world.rank());
    const at::Tensor mean = job.forward(batch).at("logits").square().mean().to(at::kDouble).view(1);
    if (world.size() > 1) world.communicator().all_reduce(mean).wait();
    EXPECT_NEAR(job.evaluate(batch).loss(), mean.item<double>() / world.size(), 1e-7);
  });
}

TEST(Evaluation, IsTheWeightedMeanOverItsTerms) {
  Evaluation evaluation;
  EXPECT_TRUE(std::isnan(evaluation.loss()));
  evaluation += Evaluation{{{"start", 0.5, 6, 2}, {"end", 0.5, 4, 4}, {"choice", 2, 3, 1, "mc_loss"}}, {}};
  evaluation += Evaluation{{{"start", 0.5, 6, 2}, {"end", 0.5, 0, 0}, {"choice", 2, 1, 3, "mc_loss"}}, {}};
  EXPECT_DOUBLE_EQ(evaluation.loss(), 0.5 * 3 + 0.5 * 1 + 2 * 1);
  EXPECT_EQ(evaluation.labels(), 4);
  EXPECT_EQ(evaluation.outputs(), (std::vector<std::pair<std::string, double>>{{"loss", 2}, {"mc_loss", 2}}));
  const Evaluation other{{{"start", 1, 1, 1}}, {}};
  EXPECT_ERROR(evaluation += other, WEFT_INVALID_ARGUMENT, "3", "1 terms");
}

}  // namespace
}  // namespace weft::test
