#include "layers/documents.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "weft/nn/masks.hpp"

namespace weft::nn {

void require_documents_of(const at::Tensor& begins, int64_t rows, int64_t queries, int64_t keys) {
  if (!begins.defined() || (queries == keys && begins.numel() == rows * keys && begins.size(0) == rows))
    return;
  fail(WEFT_INVALID_ARGUMENT,
       "attention inside documents: document begins of {} rows and {} positions, but {} rows of {} queries "
       "and "
       "{} keys; they must be of one sequence",
       begins.size(0), begins.size(-1), rows, queries, keys);
}

std::vector<kernels::AttentionSpan> document_spans(const at::Tensor& begins) {
  TORCH_INTERNAL_ASSERT(!need_document_mask(begins));
  const int64_t rows = begins.size(0), positions = begins.size(-1);
  const std::vector<int64_t> values = device::values_of<int64_t>(begins);
  auto begin = values.begin();
  std::vector<kernels::AttentionSpan> spans;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t at = 0; at < positions; ++at, ++begin) {
      if (*begin == at)
        spans.push_back({row, at, 1});
      else
        ++spans.back().count;
    }
  }
  return spans;
}

bool need_document_mask(const at::Tensor& begins) {
  return !device::is_on_host(begins);
}

at::Tensor with_document_mask(const at::Tensor& mask, const at::Tensor& begins, const at::Tensor& like) {
  const at::Tensor allowed = document_mask(begins);
  const at::ScalarType dtype = like.scalar_type();
  if (!mask.defined()) return additive_mask(allowed, dtype);
  const at::Tensor given = mask.scalar_type() == at::kBool ? additive_mask(mask, dtype) : mask.to(dtype);
  return at::where(allowed, given, additive_mask(at::zeros({1}, allowed.options()), dtype));
}

at::Tensor by_documents(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                        const at::Tensor& begins, const AttendDocument& attend) {
  const std::vector<kernels::AttentionSpan> spans = document_spans(begins);
  std::vector<int64_t> lengths;
  for (const kernels::AttentionSpan& span : spans) lengths.push_back(span.count);
  // One split, so that backward joins the gradients of all documents once.
  const auto split = [&](const at::Tensor& x) { return x.flatten(0, 1).split_with_sizes(lengths); };
  const std::vector<at::Tensor> queries = split(q), keys = split(k), values = split(v);
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < spans.size(); ++i) {
    const kernels::AttentionSpan& span = spans[i];
    at::Tensor own = mask;
    if (own.defined()) {
      if (own.size(0) > 1) own = own.narrow(0, span.sample, 1);
      if (own.size(-2) > 1) own = own.narrow(-2, span.begin, span.count);
      own = own.narrow(-1, span.begin, span.count);
    }
    results.push_back(
        attend(queries[i].unsqueeze(0), keys[i].unsqueeze(0), values[i].unsqueeze(0), own).squeeze(0));
  }
  return at::cat(results).unflatten(0, {q.size(0), q.size(1)});
}

void take_documents(at::Tensor& mask, AttentionOptions& options) {
  if (!are_document_begins(mask)) return;
  options.documents = mask;
  mask = at::Tensor();
}

}  // namespace weft::nn
