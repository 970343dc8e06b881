// Objectives of libraries in C++: the loss and the gradients of PyTorch's formulas, on any ranks.
#include <ATen/ATen.h>
#include <weft/nn/model.hpp>

#include <cstdlib>

#include "api/samples.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/temporary_folder.hpp"
#include "weft/weft.hpp"

namespace weft::test {
namespace {

constexpr int64_t kSamples = 5, kPositions = 12, kVocabulary = 256, kSteps = 2;  // TinyModel's
constexpr double kTemperature = 1.5, kTeacher = 0.3;

// Those of the first sample first.
at::Tensor teacher_logits() {
  at::manual_seed(4);
  return at::randn({kSamples, kPositions, kVocabulary}, at::kDouble);
}

class Objective : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_OBJECTIVES, 1); }
  void SetUp() override {
    distillation_.objective = "distillation";
    distillation_.objective_options = R"({"temperature": 1.5, "teacher_weight": 0.3})";
    distillation_.precision = focal_.precision = "fp64";
    focal_.objective = "focal";
    own_.precision = "fp64";
    own_.strategy = "none";
  }
  Job boost(const World& world, const BoosterOptions& options, const Criterion& criterion = {}) const {
    Model model = Model::open(config_, "", "fp64");
    optim::Optimizer optimizer("sgd", model.parameters(), {{"lr", 0.5}});
    return Booster(options, world).boost(model, optimizer, criterion);
  }

  static World alone() { return launch(0, 1, "localhost", 1); }

  // The first samples have many labels that count, and the last ones few.
  static Batch batch_of_model() {
    at::manual_seed(3);
    Batch batch;
    batch.set("input_ids", at::randint(kVocabulary, {kSamples, kPositions}));
    at::Tensor labels = batch.at("input_ids").clone();
    for (int64_t i = 0; i < kSamples; ++i) labels[i].narrow(0, 0, 2 * i + 1).fill_(-100);
    batch.set("labels", labels);
    return batch;
  }
  static Batch batch_of(const BoosterOptions& options) {
    Batch batch = batch_of_model();
    if (options.objective == "distillation") batch.set("teacher_logits", teacher_logits());
    return batch;
  }
  static Batch part(const Batch& batch, int64_t begin, int64_t end) {
    Batch rows;
    for (const auto& [name, tensor] : batch) rows.set(name, tensor.narrow(0, begin, end - begin));
    return rows;
  }
  static Batch part_of_rank(const World& world, const BoosterOptions& options) {
    return part(batch_of(options), world.rank() * kSamples / world.size(),
                (world.rank() + 1) * kSamples / world.size());
  }

  TemporaryFolder folder_;
  std::string config_ = folder_.file("config.json", config_json());
  BoosterOptions distillation_, focal_, own_;
};

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> values;
  double evaluated = 0;
};

Trained train(Job job, const Batch& batch) {
  Trained trained;
  for (int64_t i = 0; i < kSteps; ++i) trained.losses.push_back(job.train_step(batch).loss);
  trained.evaluated = job.evaluate(batch).loss();
  for (const auto& item : job.model.module().named_parameters(true))
    trained.values.push_back(item.value().detach().clone());
  return trained;
}

void expect_same(const Trained& found, const Trained& expected) {
  for (int64_t i = 0; i < kSteps; ++i) EXPECT_NEAR(found.losses.at(i), expected.losses.at(i), 1e-12) << i;
  EXPECT_NEAR(found.evaluated, expected.evaluated, 1e-12);
  ASSERT_EQ(found.values.size(), expected.values.size());
  for (size_t i = 0; i < found.values.size(); ++i)
    EXPECT_TRUE(at::allclose(found.values[i], expected.values[i], 1e-9, 1e-12)) << i;
}

// Rows of logits whose label counts, and these labels.
struct Rows {
  at::Tensor student, teacher, labels;
};
Rows rows_of(const State& outputs, const Batch& batch) {
  const auto flat = [](const at::Tensor& logits) {
    return logits.narrow(1, 0, kPositions - 1).flatten(0, 1);
  };
  const at::Tensor labels = batch.at("labels").slice(1, 1).flatten(),
                   rows = labels.ne(-100).nonzero().squeeze(1);
  return {flat(outputs.at("logits")).index_select(0, rows), flat(teacher_logits()).index_select(0, rows),
          labels.index_select(0, rows)};
}

// F.kl_div(F.log_softmax(s / T, -1), F.softmax(t / T, -1), reduction="batchmean") * T**2, and
// F.cross_entropy.
at::Tensor distillation_of_pytorch(const State& outputs, const Batch& batch) {
  const Rows rows = rows_of(outputs, batch);
  const at::Tensor divergence = at::kl_div(at::log_softmax(rows.student / kTemperature, -1),
                                           at::softmax(rows.teacher / kTemperature, -1), at::Reduction::Sum) /
                                static_cast<double>(rows.labels.size(0));
  return kTeacher * kTemperature * kTemperature * divergence +
         (1 - kTeacher) * at::cross_entropy_loss(rows.student, rows.labels);
}

// As torchvision's sigmoid_focal_loss, of a softmax: (1 - pt)**gamma * cross_entropy.
at::Tensor focal_of_pytorch(const State& outputs, const Batch& batch) {
  const Rows rows = rows_of(outputs, batch);
  const at::Tensor entropy = at::cross_entropy_loss(rows.student, rows.labels, {}, at::Reduction::None);
  return ((1 - (-entropy).exp()).pow(2) * entropy).mean();
}

TEST_F(Objective, HasTheLossAndGradientsOfPyTorchOnAnyRanks) {
  struct Pair {
    BoosterOptions options;
    Criterion formula;
  };
  for (const Pair& pair : {Pair{distillation_, distillation_of_pytorch}, Pair{focal_, focal_of_pytorch}}) {
    const Trained expected = train(boost(alone(), own_, pair.formula), batch_of_model());
    BoosterOptions options = pair.options;
    options.strategy = "none";
    expect_same(train(boost(alone(), options), batch_of(options)), expected);
    options.accumulate = 3;  // of 1, 2 and 2 samples
    expect_same(train(boost(alone(), options), batch_of(options)), expected);
    options.recompute = "all";
    expect_same(train(boost(alone(), options), batch_of(options)), expected);
    on_ranks({2, 3}, [&](World& world) {
      expect_same(train(boost(world, pair.options), part_of_rank(world, pair.options)), expected);
    });
  }
}

TEST_F(Objective, GivesAStandInNoPart) {
  const Batch whole = batch_of_model();
  const Trained expected = train(boost(alone(), focal_), part(whole, 0, 2));
  on_ranks({2}, [&](World& world) {
    Batch own = part(whole, 0, 2);
    if (world.rank() == 1) {
      own = part(whole, 4, 5);
      own.empty = true;
    }
    expect_same(train(boost(world, focal_), own), expected);
  });
}

TEST_F(Objective, IsRefusedWhereItCannotBeTheLoss) {
  on_ranks({1}, [&](World& world) {
    BoosterOptions options = focal_;
    options.strategy = "none";
    EXPECT_ERROR(boost(world, options, focal_of_pytorch), WEFT_INVALID_ARGUMENT, "a criterion is given",
                 "the objective focal");
    Job job = boost(world, options);
    EXPECT_ERROR(Booster(options, world).execute_pipeline(batch_of_model(), job.model, focal_of_pytorch),
                 WEFT_INVALID_ARGUMENT, "a criterion is given", "the objective focal");
    Batch without = batch_of_model();
    without.erase("labels");
    EXPECT_ERROR(job.train_step(without), WEFT_INVALID_ARGUMENT, "objective focal: the batch has no labels",
                 "the fields are input_ids");
    BoosterOptions other = options;
    other.objective_options = R"({"gamma": 3})";
    Booster booster(other, world);
    EXPECT_ERROR(booster.take_over(job), WEFT_INVALID_ARGUMENT, "take_over", "\"gamma\":2.0", "\"gamma\":3");
    Booster same(options, world);
    same.take_over(job);
    EXPECT_GT(job.train_step(batch_of_model()).loss, 0);
    const auto expect_refusal = [&](const std::string& name, const std::string& values,
                                    const auto&... parts) {
      BoosterOptions wrong = options;
      wrong.objective = name;
      wrong.objective_options = values;
      EXPECT_ERROR(boost(world, wrong), WEFT_INVALID_ARGUMENT, parts...);
    };
    expect_refusal("focl", "{}", "objective is \"focl\"", "masked_lm", "did you mean \"focal\"?");
    expect_refusal("masked_lm", "{}", "makes labels", "weft_data_open");
    expect_refusal("focal", R"({"gama": 2})", "objective focal", "did you mean \"gamma\"?");
    expect_refusal("focal", R"({"gamma": -1})", "gamma");
    expect_refusal("", R"({"gamma": 2})", "objective_options", "without objective");
  });
}

TEST_F(Objective, NeedsWholeLogitsOnEachRank) {
  const Trained expected = train(boost(alone(), distillation_), batch_of(distillation_));
  on_ranks({2}, [&](World& world) {
    BoosterOptions options = distillation_;
    options.strategy = "hybrid_parallel";
    options.options = R"({"tp_size": 2})";
    EXPECT_ERROR(boost(world, options), WEFT_INVALID_ARGUMENT, "the objective distillation is given",
                 "parallel_output false");
    for (const char* layout :
         {R"({"tp_size": 2, "parallel_output": false})", R"({"pp_size": 2, "num_microbatches": 3})",
          R"({"sp_size": 2, "enable_sequence_parallelism": true, "sequence_parallelism_mode": "all_to_all",
              "parallel_output": false})"}) {
      options.options = layout;
      Trained found = train(boost(world, options), batch_of(options));
      found.values = expected.values;  // a rank has its part alone
      expect_same(found, expected);
    }
  });
}

}  // namespace
}  // namespace weft::test
