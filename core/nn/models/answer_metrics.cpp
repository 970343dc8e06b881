#include "models/answer_metrics.hpp"

#include <algorithm>
#include <map>

#include "device/tensors.hpp"

namespace weft::nn {

namespace {

// Positions `first` to `last`; none if `last` is less.
struct Span {
  int64_t first = 0, last = -1;
};

// Returns the span with the largest sum of both logits, the first one of several. For each end only the best
// begin up to there can win.
Span best_span(const double* begins, const double* ends, const bool* counts, int64_t positions) {
  Span best;
  double most = 0;
  int64_t begin = -1;
  for (int64_t t = 0; t < positions; ++t) {
    if (!counts[t]) continue;
    if (begin < 0 || begins[t] > begins[begin]) begin = t;
    const double sum = begins[begin] + ends[t];
    if (best.last >= 0 && !(sum > most)) continue;
    most = sum;
    best = {begin, t};
  }
  return best;
}

// Returns the harmonic mean of precision and recall: 2 c / (p + l) for c common ids of p predicted and l
// labelled ones.
double overlap(const int64_t* ids, const Span& predicted, const Span& labelled) {
  std::map<int64_t, int64_t> left;
  for (int64_t t = labelled.first; t <= labelled.last; ++t) ++left[ids[t]];
  int64_t common = 0;
  for (int64_t t = predicted.first; t <= predicted.last; ++t) common += left[ids[t]]-- > 0;
  const int64_t both =
      predicted.last - predicted.first + 1 + std::max<int64_t>(0, labelled.last - labelled.first + 1);
  return both == 0 ? 0 : 2 * static_cast<double>(common) / static_cast<double>(both);
}

bool same_ids(const int64_t* ids, const Span& predicted, const Span& labelled) {
  return labelled.first <= labelled.last && std::equal(ids + predicted.first, ids + predicted.last + 1,
                                                       ids + labelled.first, ids + labelled.last + 1);
}

}  // namespace

RowLabels answer_labels(const at::Tensor& labels, int64_t positions) {
  return {labels.reshape(-1).to(at::kLong).clamp(0, positions).contiguous(), positions};
}

std::vector<Metric> answer_metrics(const std::array<at::Tensor, 2>& logits,
                                   const std::array<at::Tensor, 2>& labels, const at::Tensor& ids,
                                   const at::Tensor& mask) {
  const int64_t samples = ids.size(0), positions = ids.size(1);
  const at::Tensor tokens = device::on_host(ids).to(at::kLong).contiguous();
  const at::Tensor counts = mask.defined() ? device::on_host(mask).ne(0).contiguous() : tokens.eq(tokens);
  const at::Tensor begins = device::on_host(logits[0]).to(at::kDouble).contiguous(),
                   ends = device::on_host(logits[1]).to(at::kDouble).contiguous();
  const RowLabels first = answer_labels(device::on_host(labels[0]), positions),
                  last = answer_labels(device::on_host(labels[1]), positions);
  double exact = 0, f1 = 0, answers = 0;
  for (int64_t n = 0; n < samples; ++n) {
    const Span labelled = {first.labels.const_data_ptr<int64_t>()[n],
                           last.labels.const_data_ptr<int64_t>()[n]};
    if (labelled.first == first.ignored || labelled.last == last.ignored) continue;
    const int64_t row = n * positions;
    const int64_t* own = tokens.const_data_ptr<int64_t>() + row;
    const Span predicted =
        best_span(begins.const_data_ptr<double>() + row, ends.const_data_ptr<double>() + row,
                  counts.const_data_ptr<bool>() + row, positions);
    exact += same_ids(own, predicted, labelled) ? 1 : 0;
    f1 += overlap(own, predicted, labelled);
    ++answers;
  }
  return {{"exact_match", exact, answers}, {"f1", f1, answers}};
}

}  // namespace weft::nn
