#include "spec_augment.hpp"

#include <ATen/ops/rand.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "weft/nn/forward_context.hpp"
#include "weft/torch/values.hpp"

namespace weft::whisper {

int64_t span_count(const Spans& spans, int64_t positions, int64_t own, double rounding) {
  const double wanted = spans.share * static_cast<double>(own) / static_cast<double>(spans.length);
  int64_t count = std::max(static_cast<int64_t>(wanted + rounding), spans.least);
  if (count * spans.length > positions) count = positions / spans.length;
  return std::min(count, std::max<int64_t>(own - (spans.length - 1), 0));
}

at::Tensor span_mask(const Spans& spans, int64_t positions, int64_t full,
                     const std::vector<std::vector<int64_t>>& starts) {
  const at::Tensor mask = at::zeros({static_cast<int64_t>(starts.size()), positions}, at::kBool);
  for (size_t row = 0; row < starts.size(); ++row) {
    const at::Tensor own = mask[static_cast<int64_t>(row)];
    for (const int64_t start : starts[row]) own.slice(0, start, start + spans.length).fill_(true);
    if (starts[row].empty() && full > 0) own[positions - 1].fill_(true);
  }
  return mask;
}

at::Tensor drawn_mask(const Spans& spans, int64_t positions, const std::vector<int64_t>& own,
                      const at::Generator& generator) {
  const double rounding = values_of<double>(at::rand({1}, generator, at::kDouble)).front();
  std::vector<std::vector<int64_t>> starts;
  for (const int64_t length : own) {
    const int64_t count = span_count(spans, positions, length, rounding);
    const int64_t places = std::max<int64_t>(length - (spans.length - 1), 0);
    std::vector<int64_t> order = values_of<int64_t>(at::randperm(places, generator, at::kLong));
    order.resize(static_cast<size_t>(count));
    starts.push_back(std::move(order));
  }
  return span_mask(spans, positions, span_count(spans, positions, positions, rounding), starts);
}

at::Tensor SpecAugment::operator()(const at::Tensor& x, const at::Tensor& frames) const {
  const int64_t rows = x.size(0), bins = x.size(1), all = x.size(2);
  const at::Generator generator = nn::drawn_generator();
  at::Tensor masked = x;
  if (time.share > 0) {
    std::vector<int64_t> own(static_cast<size_t>(rows), all);
    if (frames.defined()) own = values_of<int64_t>(frames);
    masked = masked.masked_fill(nn::on_device_of(x, drawn_mask(time, all, own, generator)).unsqueeze(1), 0);
  }
  if (features.share > 0) {
    const std::vector<int64_t> own(static_cast<size_t>(rows), bins);
    masked =
        masked.masked_fill(nn::on_device_of(x, drawn_mask(features, bins, own, generator)).unsqueeze(2), 0);
  }
  return masked;
}

}  // namespace weft::whisper
