#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "cpu/cross_entropy.hpp"
#include "parallel.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/layers.hpp"
#include "weft/nn/row_labels.hpp"

namespace weft::test {

namespace {

struct Case {
  at::Tensor logits, labels;
  Case(int64_t rows, int64_t classes, at::ScalarType dtype = at::kFloat) {
    at::manual_seed(rows * 1000 + classes);
    logits = (at::randn({rows, classes}, at::kDouble) * 5).to(dtype).requires_grad_(true);
    labels = at::randint(classes, {rows}, at::kLong);
    if (rows > 2) labels[1] = -100;
  }
  at::Tensor reference() const {
    return at::cross_entropy_loss(logits.to(at::kDouble), labels, {}, at::Reduction::Sum, -100);
  }
};

at::Tensor gradient(const at::Tensor& leaf, const at::Tensor& loss) {
  leaf.mutable_grad().reset();
  (loss * 0.25).backward();
  return leaf.grad().clone();
}

TEST(CrossEntropy, RefusesLabelsOutOfRangeNamingThem) {
  Case it(4, 7);
  it.labels[3] = 7;
  EXPECT_ERROR(nn::cross_entropy_sum(it.logits, it.labels), WEFT_INVALID_ARGUMENT, "7", "[3]", "0 to 6",
               "-100");
  EXPECT_ERROR(nn::cross_entropy_sum(it.logits, it.labels.slice(0, 0, 2)), WEFT_INVALID_ARGUMENT, "[2]",
               "[4]", "[4, 7]");
}

TEST(CrossEntropy, AgreesWithLibtorchAtEverySize) {
  for (int64_t classes : {1, 2, 3, 15, 16, 17, 31, 32, 33, 47, 48, 50, 1000}) {
    for (int64_t rows : {1, 5, 70}) {
      Case it(rows, classes);
      const at::Tensor loss = nn::cross_entropy_sum(it.logits, it.labels), expected = it.reference();
      EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-6 * (1 + expected.item<double>()))
          << rows << " " << classes;
      const at::Tensor wanted = gradient(it.logits, expected);
      const at::Tensor found = gradient(it.logits, loss);
      EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-6 * 0.25) << rows << " " << classes;
    }
  }
}

TEST(CrossEntropy, VectorsAgreeWithThePlainKernel) {
  Case it(1, 77);
  const float* logits = it.logits.const_data_ptr<float>();
  const int64_t label = 40;
  kernels::RowNormaliser<float> found, plain = kernels::normaliser_plain(77, logits);
  kernels::cross_entropy_forward({1, 77, &label}, logits, &found);
  EXPECT_EQ(found.peak, plain.peak);
  EXPECT_NEAR(found.log_sum, plain.log_sum, 1e-6);
  const at::Tensor expected = at::empty({77}), gradient = at::empty({77});
  kernels::cross_entropy_gradient_plain(77, logits, label, plain, 0.5f, expected.mutable_data_ptr<float>());
  kernels::cross_entropy_backward({1, 77, &label}, logits, &found, 0.5f, gradient.mutable_data_ptr<float>());
  EXPECT_TRUE(is_near(gradient, expected, kKernelFp32));
}

TEST(CrossEntropy, IsExactInFp64) {
  Case it(9, 37, at::kDouble);
  const at::Tensor expected = it.reference(), loss = nn::cross_entropy_sum(it.logits, it.labels);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-12 * expected.item<double>());
  const at::Tensor wanted = gradient(it.logits, expected);
  EXPECT_TRUE(is_near(gradient(it.logits, loss), wanted, kKernelFp64));
}

TEST(CrossEntropy, StandsLargeLogits) {
  at::Tensor logits = at::zeros({2, 40});
  logits[0][3] = 3e38;
  logits[1] = -3e38;
  const at::Tensor loss = nn::cross_entropy_sum(logits.requires_grad_(true), at::tensor({3, 5}, at::kLong));
  EXPECT_NEAR(loss.item<double>(), std::log(40.0), 1e-5);  // the second row alone counts
  EXPECT_TRUE(gradient(logits, loss).isfinite().all().item<bool>());
  at::Tensor broken = at::zeros({1, 40});
  broken[0][7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(nn::cross_entropy_sum(broken, at::zeros({1}, at::kLong)).item<double>()));
}

TEST(CrossEntropy, IgnoresAnyLabelThatIsAskedFor) {
  Case it(6, 5);
  it.labels = at::tensor({0, 1, 2, 2, 4, 3}, at::kLong);
  for (int64_t ignored : {2, 5}) {
    const at::Tensor expected = at::cross_entropy_loss(it.logits, it.labels, {}, at::Reduction::Sum, ignored);
    EXPECT_NEAR(nn::cross_entropy_sum(it.logits, it.labels, ignored).item<double>(), expected.item<double>(),
                1e-5);
  }
  EXPECT_EQ((nn::RowLabels{it.labels, 2}.count()), 4);
}

TEST(CrossEntropy, IsTheSameForRowLabelsAndTheirRows) {
  Case it(6, 5);
  const at::Tensor expected = nn::cross_entropy_sum(it.logits, it.labels);
  for (const at::Tensor& labels : {it.labels, it.labels.view({6, 1}), it.labels.to(at::kInt)})
    EXPECT_TRUE(nn::RowLabels{labels}.cross_entropy(it.logits).equal(expected)) << labels.sizes();
  EXPECT_TRUE(nn::RowLabels{it.labels}.cross_entropy(it.logits.view({2, 3, 5})).equal(expected));
  EXPECT_ERROR(nn::RowLabels{it.labels}.cross_entropy(it.logits.slice(0, 2)), WEFT_INVALID_ARGUMENT, "[6]",
               "[4, 5]", "[4]");
}

TEST(CrossEntropy, PutsTheGradientInTheMemoryOfLogitsThatNobodyHolds) {
  Case it(6, 50);
  const auto memory = [&](bool keep) {
    at::Tensor logits = it.logits * 1.5;
    const void* before = logits.data_ptr();
    const void* after = nullptr;
    logits.register_hook([&](const at::Tensor& gradient) { after = gradient.data_ptr(); });
    const at::Tensor loss = nn::cross_entropy_sum(logits, it.labels);
    const at::Tensor held = keep ? logits : at::Tensor(),
                     value = keep ? logits.detach().clone() : at::Tensor();
    logits.reset();
    loss.backward();
    if (keep) EXPECT_TRUE(held.equal(value));
    return before == after;
  };
  EXPECT_TRUE(memory(false));
  EXPECT_FALSE(memory(true));
}

TEST(CrossEntropy, CanBeTakenBackTwiceWhenTheGraphIsKept) {
  Case it(6, 50);
  const at::Tensor loss = nn::cross_entropy_sum(it.logits * 1.5, it.labels);
  loss.backward({}, /*keep_graph=*/true);
  const at::Tensor once = it.logits.grad().clone();
  loss.backward();
  EXPECT_TRUE(it.logits.grad().equal(once * 2));
}

// Once with the gradient that backward passes, once with another.
TEST(CrossEntropy, WithAnExpectedGradientHasTheSameGradientInTheMemoryOfTheLogits) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const double expected : {0.25, 3.0}) {
      Case it(70, 50, type);
      const auto run = [&](std::optional<double> known) {
        at::Tensor logits = it.logits * 1.5;
        const void *const before = logits.data_ptr(), *after = nullptr;
        logits.register_hook([&](const at::Tensor& found) { after = found.data_ptr(); });
        const at::Tensor loss = nn::cross_entropy_sum(logits, it.labels, -100, known),
                         result = gradient(it.logits, loss);
        EXPECT_EQ(before == after, known.has_value());
        return std::pair(loss.detach(), result);
      };
      const auto [loss, found] = run({});
      const auto [same_loss, same] = run(expected);
      EXPECT_TRUE(same_loss.equal(loss));
      EXPECT_LE((same - found).abs().max().item<double>(), expected == 0.25 ? 0 : 1e-6 * 0.25);
    }
  }
}

TEST(CrossEntropy, WithAnExpectedGradientIsTakenBackOnce) {
  Case it(6, 50);
  const at::Tensor loss = nn::cross_entropy_sum(it.logits * 1.5, it.labels, -100, 1.0);
  loss.backward({}, /*keep_graph=*/true);
  EXPECT_ERROR(loss.backward(), WEFT_FAILED_PRECONDITION, "second backward");
}

TEST(CrossEntropy, RefusesAGradientOfItsGradient) {
  Case it(6, 50);
  EXPECT_ERROR(nn::cross_entropy_sum(it.logits, it.labels).backward({}, true, true), WEFT_UNIMPLEMENTED,
               "create_graph");
}

TEST(CrossEntropy, SumsAlikeOnAnyNumberOfThreads) {
  Case it(300, 1000);
  const at::Tensor one = nn::cross_entropy_sum(it.logits, it.labels);
  at::set_num_threads(3);
  const at::Tensor three = nn::cross_entropy_sum(it.logits, it.labels);
  at::set_num_threads(1);
  EXPECT_TRUE(one.equal(three));
}

TEST(ParallelFor, CoversTheRangeOnceOnLibtorchsThreads) {
  at::set_num_threads(3);
  std::vector<int> visits(1000);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  kernels::parallel_for(0, 1000, 10, [&](int64_t first, int64_t last) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    for (int64_t i = first; i < last; ++i) ++visits[i];
  });
  at::set_num_threads(1);
  EXPECT_EQ(threads.size(), 3);
  for (int count : visits) EXPECT_EQ(count, 1);
}

}  // namespace

}  // namespace weft::test
