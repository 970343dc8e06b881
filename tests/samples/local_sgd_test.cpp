// The strategy of samples/local_sgd: what replicas train between two merges, and what a merge makes of them.
#include <cmath>
#include <cstdlib>

#include "plugins/support/parity.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/unverified.hpp"

namespace weft::test {
namespace {

constexpr const char* kUngated = "\"gated\": false";

// Rows that all have as many labels, so that the samples of each replica weigh the same.
Batch even_batch(int64_t seed) {
  Batch batch = toy_batch(6, seed, false);
  batch.set("labels", batch.at("ids").flip(0));
  return batch;
}

// Several trainings of one rank without a strategy that are merged by hand.
class Replicas {
 public:
  Replicas(int count, double outer_lr, double outer_momentum)
      : outer_lr_(outer_lr), outer_momentum_(outer_momentum) {
    for (int i = 0; i < count; ++i)
      jobs_.push_back(boost(one_rank(), toy({.precision = "fp64"}, kUngated), {.precision = "fp64"}));
    last_ = values_of(jobs_.front());
    for (const auto& [name, value] : last_) momentum_[name] = at::zeros_like(value);
  }

  void update(int64_t step) {
    for (size_t i = 0; i < jobs_.size(); ++i)
      jobs_[i].train_step(
          own_part(even_batch(step), static_cast<int64_t>(i), static_cast<int64_t>(jobs_.size())));
  }

  void merge() {
    Tensors mean;
    for (const auto& [name, value] : last_) mean[name] = at::zeros_like(value);
    for (const Job& job : jobs_)
      for (const auto& [name, value] : values_of(job)) mean[name] += value / double(jobs_.size());
    for (auto& [name, value] : last_) {
      const at::Tensor step = value - mean[name];
      momentum_[name] = momentum_[name] * outer_momentum_ + step;
      value = value - outer_lr_ * (step + outer_momentum_ * momentum_[name]);
    }
    const at::NoGradGuard no_grad;
    for (const Job& job : jobs_)
      for (auto& item : job.model.module().named_parameters()) item.value().copy_(last_.at(item.key()));
  }

  const Tensors& merged() const { return last_; }

 private:
  double outer_lr_, outer_momentum_;
  std::vector<Job> jobs_;
  Tensors last_, momentum_;
};

class LocalSgd : public testing::Test {
 protected:
  static void SetUpTestSuite() { setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1); }

  static JobOptions options(const std::string& own) {
    return {.strategy = "local_sgd", .options = own, .precision = "fp64"};
  }
  static Job boosted(const World& world, const std::string& own) {
    return boost(world, toy(options(own), kUngated), options(own));
  }
  static void train(Job& job, int64_t first, int64_t last) {
    for (int64_t step = first; step < last; ++step) job.train_step(own_part(even_batch(step), job));
  }
};

TEST_F(LocalSgd, IsDataParallelismIfEveryUpdateIsMerged) {
  const auto values = [](const World& world, const std::string& strategy, const std::string& own) {
    const JobOptions chosen{.strategy = strategy, .options = own, .precision = "fp64"};
    Job job = boost(world, toy(chosen, kUngated), chosen);
    for (int64_t step = 0; step < 3; ++step) job.train_step(own_part(toy_batch(7, step), job));
    return values_of(job);
  };
  const Tensors expected = values(one_rank(), "none", "{}");
  on_ranks({1, 2, 3}, [&](World& world) {
    expect_near(values(world, "local_sgd", R"({"interval": 1})"), expected, kGradientFp64);
  });
}

TEST_F(LocalSgd, AveragesWhatReplicasTrainedOnTheirOwn) {
  on_ranks({2, 3}, [&](World& world) {
    Replicas replicas(world.size(), 1, 0);
    Job job = boosted(world, R"({"interval": 3})");
    for (int64_t step = 0; step < 6; ++step) {
      train(job, step, step + 1);
      replicas.update(step);
      if (step % 3 != 2) continue;
      replicas.merge();
      expect_near(values_of(job), replicas.merged(), kGradientFp64);
    }
  });
}

TEST_F(LocalSgd, MergesWithNesterovMomentum) {
  on_ranks({2}, [&](World& world) {
    Replicas replicas(world.size(), 0.7, 0.9);
    Job job = boosted(world, R"({"interval": 2, "outer_lr": 0.7, "outer_momentum": 0.9})");
    for (int64_t step = 0; step < 6; ++step) {
      train(job, step, step + 1);
      replicas.update(step);
      if (step % 2 == 1) replicas.merge();
    }
    expect_near(values_of(job), replicas.merged(), kGradientFp64);
  });
}

TEST_F(LocalSgd, GoesOnFromACheckpoint) {
  const TemporaryFolder folder;
  const std::string own = R"({"interval": 2, "outer_lr": 0.7, "outer_momentum": 0.9})";
  const std::string path = folder.path() + "/saved";
  on_ranks({2}, [&](World& world) {
    Booster booster(booster_options_of(options(own)), world);
    const Model model = toy(options(own), kUngated);
    Job job = booster.boost(model, optim::SGD(model.parameters(), {.lr = 1}));
    train(job, 0, 4);
    booster.save_training(job, path);
    train(job, 4, 8);
    const Model other = toy(options(own), kUngated);
    Job resumed = booster.boost(other, optim::SGD(other.parameters(), {.lr = 1}));
    booster.load_training(resumed, path);
    train(resumed, 4, 8);
    expect_equal(values_of(resumed), values_of(job));
  });
}

TEST_F(LocalSgd, IsMergedBeforeASave) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/saved", own = R"({"interval": 100})";
  on_ranks({2}, [&](World& world) {
    Replicas replicas(world.size(), 1, 0);
    Booster booster(booster_options_of(options(own)), world);
    const Model model = toy(options(own), kUngated);
    Job job = booster.boost(model, optim::SGD(model.parameters(), {.lr = 1}));
    for (int64_t step = 0; step < 2; ++step) {
      train(job, step, step + 1);
      replicas.update(step);
    }
    replicas.merge();
    booster.save_training(job, path);
    expect_near(values_of(job), replicas.merged(), kGradientFp64);
  });
  on_ranks({3}, [&](World& world) {
    Booster booster(booster_options_of(options(own)), world);
    const Model model = toy(options(own), kUngated);
    Job job = booster.boost(model, optim::SGD(model.parameters(), {.lr = 1}));
    booster.load_training(job, path);
    train(job, 2, 3);
  });
}

TEST_F(LocalSgd, ClipsByTheMeanOverReplicas) {
  on_ranks({2}, [&](World& world) {
    Job job = boosted(world, R"({"interval": 8})");
    const Batch batch = own_part(even_batch(0), job);
    Job alone = boost(one_rank(), toy({.precision = "fp64"}, kUngated), {.precision = "fp64"});
    const auto square = [](Job& of, const Batch& samples) {
      of.accumulate_gradients(samples);
      const double norm = of.optimizer.clip_grad_by_norm(1e9);
      return norm * norm;
    };
    double squares[2];
    for (int64_t rank = 0; rank < 2; ++rank) {
      squares[rank] = square(alone, own_part(even_batch(0), rank, 2));
      alone.optimizer.zero_grad();
    }
    EXPECT_NEAR(square(job, batch), (squares[0] + squares[1]) / 2, 1e-9);
    EXPECT_GT(std::abs(squares[0] - squares[1]), 1e-3 * squares[0]);
  });
}

TEST_F(LocalSgd, RefusesRulesThatSumOverAParameter) {
  on_ranks({2}, [&](World& world) {
    const Model model = toy(options("{}"), kUngated);
    EXPECT_ERROR(
        boost(world, model, options("{}"), optim::Optimizer("lamb", model.parameters(), {{"lr", 0.1}})),
        WEFT_INVALID_ARGUMENT, "local_sgd", "lamb", "adamw");
  });
}

}  // namespace
}  // namespace weft::test
