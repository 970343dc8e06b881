#include "weft/metric.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/text.hpp"

namespace weft {

namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : kUndefined;
}

// What is counted of each class.
struct ClassCounts {
  double right, predicted, labelled;
  double f1() const { return predicted + labelled > 0 ? 2 * right / (predicted + labelled) : 0; }
};

std::vector<ClassCounts> class_counts(const std::vector<double>& sums, size_t classes) {
  std::vector<ClassCounts> counts;
  for (size_t c = 0; c < classes; ++c) counts.push_back({sums[3 * c], sums[3 * c + 1], sums[3 * c + 2]});
  return counts;
}

ClassCounts sum_of(const std::vector<ClassCounts>& classes) {
  ClassCounts all = {};
  for (const ClassCounts& each : classes) {
    all.right += each.right;
    all.predicted += each.predicted;
    all.labelled += each.labelled;
  }
  return all;
}

// Matthews' correlation of several classes (Gorodkin 2004), which needs no more of the confusion matrix than
// its diagonal and its sums.
double matthews(const std::vector<ClassCounts>& classes, const ClassCounts& all) {
  double both = 0, predicted = 0, labelled = 0;
  for (const ClassCounts& each : classes) {
    both += each.predicted * each.labelled;
    predicted += each.predicted * each.predicted;
    labelled += each.labelled * each.labelled;
  }
  const double samples = all.labelled;
  const double of_predicted = samples * samples - predicted, of_labelled = samples * samples - labelled;
  if (of_predicted * of_labelled == 0) return 0;
  return (all.right * samples - both) / std::sqrt(of_predicted * of_labelled);
}

std::vector<Measure> of_classes(const Metric& metric) {
  const std::vector<ClassCounts> classes = class_counts(metric.sums, metric.sums.size() / 3);
  const ClassCounts all = sum_of(classes);
  double f1 = 0, present = 0;
  for (const ClassCounts& each : classes) {
    f1 += each.f1();
    present += each.predicted + each.labelled > 0 ? 1 : 0;
  }
  const double count = all.labelled;
  return {{"accuracy", ratio(all.right, count), count},
          {"f1_macro", ratio(f1, present), count},
          {"f1_micro", count > 0 ? all.f1() : kUndefined, count},
          {"matthews", count > 0 ? matthews(classes, all) : kUndefined, count}};
}

std::vector<Measure> of_indicators(const Metric& metric) {
  const size_t labels = (metric.sums.size() - 2) / 3;
  const std::vector<ClassCounts> classes = class_counts(metric.sums, labels);
  const double whole = metric.sums[3 * labels], samples = metric.sums[3 * labels + 1];
  double f1 = 0;
  for (const ClassCounts& each : classes) f1 += each.f1();
  return {{"accuracy", ratio(whole, samples), samples},
          {"f1_macro", samples > 0 ? f1 / static_cast<double>(labels) : kUndefined, samples},
          {"f1_micro", samples > 0 ? sum_of(classes).f1() : kUndefined, samples}};
}

// Returns the correlation of Pearson; undefined if one of them does not vary.
double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto varies = [](const std::vector<double>& values) {
    return std::any_of(values.begin(), values.end(), [&](double value) { return value != values.front(); });
  };
  if (!varies(a) || !varies(b)) return kUndefined;
  const auto count = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / count,
               mean_b = std::accumulate(b.begin(), b.end(), 0.0) / count;
  double both = 0, of_a = 0, of_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean_a) * (b[i] - mean_b);
    of_a += (a[i] - mean_a) * (a[i] - mean_a);
    of_b += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return std::clamp(both / std::sqrt(of_a) / std::sqrt(of_b), -1.0, 1.0);
}

// Returns the rank of each value, from 1; equal values have the mean of theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double rank = static_cast<double>(begin + end + 1) / 2;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = rank;
  }
  return ranks;
}

std::vector<Measure> of_values(const Metric& metric) {
  std::vector<double> labels, predictions;
  double squares = 0;
  bool finite = true;
  for (size_t i = 0; i + 1 < metric.values.size(); i += 2) {
    const double label = metric.values[i], prediction = metric.values[i + 1];
    labels.push_back(label);
    predictions.push_back(prediction);
    squares += (label - prediction) * (label - prediction);
    finite = finite && std::isfinite(label) && std::isfinite(prediction);
  }
  const auto count = static_cast<double>(labels.size());
  const bool some = finite && !labels.empty();
  return {{"mse", ratio(squares, count), count},
          {"pearson", some ? correlation(labels, predictions) : kUndefined, count},
          {"spearman", some ? correlation(ranks_of(labels), ranks_of(predictions)) : kUndefined, count}};
}

std::vector<Measure> of_entities(const Metric& metric) {
  const ClassCounts all = {metric.sums[0], metric.sums[1], metric.sums[2]};
  return {{"entity_f1", all.f1(), all.labelled}};
}

}  // namespace

Metric& Metric::operator+=(const Metric& other) {
  if (name != other.name || kind != other.kind || sums.size() != other.sums.size())
    fail(WEFT_INVALID_ARGUMENT, "the metrics \"{}\" and \"{}\" of {} and {} sums cannot be added", name,
         other.name, sums.size(), other.sums.size());
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += other.sums[i];
  values.insert(values.end(), other.values.begin(), other.values.end());
  return *this;
}

void Metric::clear() {
  std::fill(sums.begin(), sums.end(), 0.0);
  values.clear();
}

std::vector<Measure> Metric::measures() const {
  switch (kind) {
    case Kind::kMean:
      return {{name, ratio(sums[0], sums[1]), sums[1]}};
    case Kind::kClasses:
      return of_classes(*this);
    case Kind::kIndicators:
      return of_indicators(*this);
    case Kind::kValues:
      return of_values(*this);
    case Kind::kEntities:
      return of_entities(*this);
  }
  return {};
}

}  // namespace weft
