#include "cuda/cross_entropy.hpp"

#include <memory>

#include "kernel_test.hpp"

namespace weft::testing {
namespace {

using namespace kernels;

struct Row {
  double log_sum_exp = 0, loss = 0;
  std::vector<double> gradient;
  bool counts = false;
};

// In double. A label of another rank adds nothing to the loss.
Row row_of(const double* logits, int64_t classes, int64_t label, double scale) {
  Row row;
  row.gradient.resize(static_cast<size_t>(classes));
  const bool here = label >= 0 && label < classes;
  row.counts = here || label == kElsewhere;
  if (!row.counts) return row;
  double sum = 0;
  for (int64_t v = 0; v < classes; ++v) sum += std::exp(logits[v]);
  row.log_sum_exp = std::log(sum);
  row.loss = row.log_sum_exp - (here ? logits[label] : 0);
  for (int64_t v = 0; v < classes; ++v)
    row.gradient[static_cast<size_t>(v)] = scale * (std::exp(logits[v]) / sum - (v == label));
  return row;
}

// Every third row is ignored, every fifth has its label elsewhere.
std::vector<int64_t> labels_of(int64_t rows, int64_t classes) {
  std::vector<int64_t> labels;
  for (int64_t row = 0; row < rows; ++row)
    labels.push_back(row % 3 == 1 ? -100 : row % 5 == 4 ? kElsewhere : (row * 7919 + 1) % classes);
  return labels;
}

// The rows with `gap` NaN after each.
std::vector<float> with_gaps(const std::vector<float>& values, int64_t rows, int64_t gap) {
  const int64_t classes = static_cast<int64_t>(values.size()) / rows;
  std::vector<float> result;
  for (int64_t row = 0; row < rows; ++row) {
    result.insert(result.end(), values.begin() + row * classes, values.begin() + (row + 1) * classes);
    result.insert(result.end(), static_cast<size_t>(gap), NAN);
  }
  return result;
}

// The rows without the gaps, which must still be NaN.
std::vector<double> without_gaps(const std::vector<double>& values, int64_t rows, int64_t gap) {
  const int64_t stride = static_cast<int64_t>(values.size()) / rows;
  std::vector<double> result;
  for (int64_t i = 0; i < rows * stride; ++i)
    if (i % stride < stride - gap)
      result.push_back(values[static_cast<size_t>(i)]);
    else
      EXPECT_TRUE(std::isnan(values[static_cast<size_t>(i)])) << "the gap at " << i;
  return result;
}

// Losses, peaks, the sum of the losses, and the gradient, which is written over the logits or
// `gradient_shift` elements past a multiple of 16 bytes. Rows of both have `gap` elements between them.
template <class T>
Results run(const std::vector<float>& logits, const std::vector<int64_t>& labels, float scale, int64_t shift,
            int64_t gradient_shift, int64_t gap = 0) {
  const auto rows = static_cast<int64_t>(labels.size()), count = static_cast<int64_t>(logits.size());
  const int64_t stride = count / rows + gap;
  Buffer<T> memory(with_gaps(logits, rows, gap), shift),
      other(rows * stride, std::max<int64_t>(gradient_shift, 0));
  Buffer<int64_t> on_device(labels);
  Buffer<RowNormaliser<float>> normalisers(rows);
  Buffer<float> losses(rows), sum(1), factor(std::vector<float>{scale});
  Buffer<T>& gradient = gradient_shift < 0 ? memory : other;
  const CrossEntropyRows shape = {rows, count / rows, on_device.data()};
  cuda::cross_entropy_forward<T>(shape, {memory.data(), stride}, normalisers.data(), losses.data(), nullptr);
  cuda::sum_losses(rows, losses.data(), sum.data(), nullptr);
  cuda::cross_entropy_backward<T>(shape, {memory.data(), stride}, normalisers.data(), factor.data(),
                                  {gradient.data(), stride}, nullptr);
  std::vector<double> log_sum_exp;
  for (int64_t row = 0; row < rows; ++row)
    log_sum_exp.push_back(exact(normalisers[row].peak) + exact(normalisers[row].log_sum));
  return {losses.values(), log_sum_exp, sum.values(), without_gaps(gradient.values(), rows, gap)};
}

// Losses and gradient of one pass. The gradient is first computed for twice the scale, and then for `scale`.
template <class T>
Results run_at_once(const std::vector<float>& logits, const std::vector<int64_t>& labels, float scale,
                    int64_t shift, int64_t gap = 0) {
  const auto rows = static_cast<int64_t>(labels.size()), classes = static_cast<int64_t>(logits.size()) / rows;
  Buffer<T> memory(with_gaps(logits, rows, gap), shift);
  Buffer<int64_t> on_device(labels);
  Buffer<float> losses(rows), factor(std::vector<float>{scale});
  const cuda::SpacedRows<T> of_memory = {memory.data(), classes + gap};
  cuda::cross_entropy_with_gradient<T>({rows, classes, on_device.data()}, of_memory, 2 * scale, losses.data(),
                                       nullptr);
  cuda::rescale<T>(rows, classes, of_memory, factor.data(), 2 * scale, nullptr);
  const std::vector<double> rescaled = memory.values();
  cuda::rescale<T>(rows, classes, of_memory, factor.data(), scale, nullptr);
  expect_near(without_gaps(memory.values(), rows, gap), without_gaps(rescaled, rows, gap), 0, 0,
              "after it was rescaled by 1");
  return {losses.values(), without_gaps(rescaled, rows, gap)};
}

void expect_reference(int64_t rows, int64_t classes, int64_t shift, int64_t gradient_shift, int64_t gap = 0) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(classes));
  const float scale = 0.25f;
  const std::vector<float> logits = normal(rows * classes, 5, 4);
  const std::vector<int64_t> labels = labels_of(rows, classes);
  for_types([&]<class T>(T) {
    const Results results =
        in_every_order([&] { return run<T>(logits, labels, scale, shift, gradient_shift, gap); });
    const std::vector<double> x = rounded<T>(logits);
    std::vector<double> losses, log_sum_exp, gradient;
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const Row wanted = row_of(x.data() + row * classes, classes, labels[static_cast<size_t>(row)], scale);
      losses.push_back(wanted.loss);
      log_sum_exp.push_back(wanted.log_sum_exp);
      sum += wanted.loss;
      gradient.insert(gradient.end(), wanted.gradient.begin(), wanted.gradient.end());
    }
    expect_near(results[0], losses, 1e-6, 3e-6, "loss");
    expect_near(results[1], log_sum_exp, 1e-6, 3e-6, "log of the sum");
    expect_near(results[2], {sum}, 1e-6, 3e-6, "sum of losses");
    // fp16 has steps of 2^-24 below 2^-14.
    expect_near(results[3], gradient, 4e-6 + kRounding<T>, std::is_same_v<T, c10::Half> ? 3e-8 : 1e-9,
                "gradient");
    const Results at_once = in_every_order([&] { return run_at_once<T>(logits, labels, scale, shift, gap); });
    expect_near(at_once[0], losses, 1e-6, 3e-6, "loss of one pass");
    expect_near(at_once[1], gradient, 4e-6 + kRounding<T>, std::is_same_v<T, c10::Half> ? 6e-8 : 1e-9,
                "gradient of one pass");
  });
}

TEST(CrossEntropyOnHost, ComputesLossAndGradient) {
  expect_reference(1, 1, 0, -1);
  expect_reference(7, 8, 0, -1);
  expect_reference(4, 2048, 0, -1);
  expect_reference(5, 2049, 0, -1);     // each row begins elsewhere in its sixteen bytes
  expect_reference(5, 777, 3, 1);       // and the gradient elsewhere than the logits
  expect_reference(6, 5, 1, 0);         // fewer classes than a vector has
  expect_reference(5, 777, 0, -1, 23);  // rows are apart: all begin at a multiple of 16 bytes
  expect_reference(4, 70, 1, 3, 5);
}

TEST(CrossEntropyOnHost, TakesLogitsFarFromZero) {
  const std::vector<float> logits = {30000, 30001, 29990, -30000, -30001, -30004, -INFINITY, 2, 3};
  const std::vector<int64_t> labels = {1, 0, 2};
  const Results results = run<float>(logits, labels, 1, 0, -1);
  EXPECT_NEAR(results[0][0], std::log1p(std::exp(-1.0) + std::exp(-11.0)), 1e-6);
  EXPECT_NEAR(results[0][1], std::log1p(std::exp(-1.0) + std::exp(-4.0)), 1e-6);
  EXPECT_NEAR(results[0][2], std::log1p(std::exp(-1.0)), 1e-6);
  EXPECT_EQ(results[3][6], 0) << "a class that cannot be";
  for (const size_t at : {size_t{0}, size_t{700}, size_t{2048}}) {
    std::vector<float> bad = normal(2049, 1);
    bad[at] = NAN;
    EXPECT_TRUE(std::isnan(run<float>(bad, {5}, 1, 0, -1)[0][0])) << "a NaN at " << at;
  }
}

TEST(CrossEntropyOnHost, AgreesWithTheCpu) {
  constexpr int64_t kRows = 11, kClasses = 333;
  const std::vector<float> logits = normal(kRows * kClasses, 5, 4);
  const std::vector<int64_t> labels = labels_of(kRows, kClasses);
  const CrossEntropyRows shape = {kRows, kClasses, labels.data()};
  std::vector<RowNormaliser<float>> normalisers(kRows);
  std::vector<float> gradient(logits.size());
  const double sum = cross_entropy_forward(shape, logits.data(), normalisers.data());
  cross_entropy_backward(shape, logits.data(), normalisers.data(), 0.25f, gradient.data());
  const Results results = run<float>(logits, labels, 0.25f, 0, -1);
  double here = 0;  // the CPU's sum has no rows whose label is elsewhere
  for (size_t row = 0; row < kRows; ++row)
    if (labels[row] >= 0) here += results[0][row];
  EXPECT_NEAR(here, sum, 1e-6 * sum);
  expect_near(results[3], rounded<float>(gradient), 2e-6, 1e-9, "gradient");
}

// What two all-reduces do between the kernels, for ranks with these numbers of classes.
template <class T>
Results run_split(const std::vector<float>& logits, int64_t rows, const std::vector<int64_t>& classes_of,
                  const std::vector<int64_t>& labels, float scale) {
  const int64_t classes = static_cast<int64_t>(logits.size()) / rows;
  const size_t ranks = classes_of.size();
  std::vector<std::unique_ptr<Buffer<T>>> parts;
  std::vector<std::unique_ptr<Buffer<int64_t>>> own_labels;
  std::vector<std::unique_ptr<Buffer<float>>> peaks, sums;
  std::vector<CrossEntropyRows> shapes;
  int64_t begin = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    const int64_t count = classes_of[rank];
    std::vector<float> part;
    std::vector<int64_t> local;
    for (int64_t row = 0; row < rows; ++row) {
      const float* first = logits.data() + row * classes + begin;
      part.insert(part.end(), first, first + count);
      const int64_t label = labels[static_cast<size_t>(row)] - begin;
      local.push_back(labels[static_cast<size_t>(row)] < 0 ? -1
                      : label >= 0 && label < count        ? label
                                                           : kElsewhere);
    }
    parts.push_back(std::make_unique<Buffer<T>>(part));
    own_labels.push_back(std::make_unique<Buffer<int64_t>>(local));
    peaks.push_back(std::make_unique<Buffer<float>>(rows));
    sums.push_back(std::make_unique<Buffer<float>>(2 * rows));
    shapes.push_back({rows, count, own_labels[rank]->data()});
    cuda::cross_entropy_parts<T>(shapes[rank], {parts[rank]->data(), count}, peaks[rank]->data(),
                                 sums[rank]->data(), nullptr);
    begin += count;
  }
  Buffer<float> all(rows), added(std::vector<float>(static_cast<size_t>(2 * rows), 0)), losses(rows),
      factor(std::vector<float>{scale});
  for (int64_t row = 0; row < rows; ++row) {
    all[row] = -INFINITY;
    for (auto& peak : peaks) all[row] = std::max(all[row], (*peak)[row]);
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    cuda::cross_entropy_rebase(shapes[rank], peaks[rank]->data(), all.data(), sums[rank]->data(), nullptr);
    for (int64_t i = 0; i < 2 * rows; ++i) added[i] += (*sums[rank])[i];
  }
  Buffer<RowNormaliser<float>> normalisers(rows);
  Results results(1);
  for (size_t rank = 0; rank < ranks; ++rank) {
    cuda::cross_entropy_finish(shapes[rank], all.data(), added.data(), normalisers.data(), losses.data(),
                               nullptr);
    cuda::cross_entropy_backward<T>(shapes[rank], {parts[rank]->data(), classes_of[rank]}, normalisers.data(),
                                    factor.data(), {parts[rank]->data(), classes_of[rank]}, nullptr);
    results.push_back(parts[rank]->values());
    if (rank == 0)
      results[0] = losses.values();
    else
      EXPECT_EQ(results[0], losses.values()) << "rank " << rank;
  }
  return results;
}

TEST(CrossEntropyOnHost, SplitsTheVocabularyOverRanks) {
  constexpr int64_t kRows = 7, kClasses = 500;
  const std::vector<int64_t> classes_of = {123, 0, 1, 376};
  const std::vector<float> logits = normal(kRows * kClasses, 9, 5);
  const std::vector<int64_t> labels = {0, 122, -1, 123, 124, 499, 300};
  for_types([&]<class T>(T) {
    const Results results =
        in_every_order([&] { return run_split<T>(logits, kRows, classes_of, labels, 0.5f); });
    const std::vector<double> x = rounded<T>(logits);
    for (int64_t row = 0; row < kRows; ++row) {
      const Row wanted = row_of(x.data() + row * kClasses, kClasses, labels[static_cast<size_t>(row)], 0.5);
      EXPECT_NEAR(results[0][static_cast<size_t>(row)], wanted.loss, 3e-6 * (1 + wanted.loss));
      int64_t begin = 0;
      for (size_t rank = 0; rank < classes_of.size(); begin += classes_of[rank++])
        for (int64_t v = 0; v < classes_of[rank]; ++v) {
          const double slope = wanted.gradient[static_cast<size_t>(begin + v)];
          ASSERT_NEAR(results[rank + 1][static_cast<size_t>(row * classes_of[rank] + v)], slope,
                      (4e-6 + kRounding<T>)*std::abs(slope) + 3e-8);
        }
    }
  });
}

}  // namespace
}  // namespace weft::testing
