/* Boxes of tensors: their bytes in a row-major file, and whether they cover a tensor. */
#include <string.h>

#include "raw_files.h"

weft_status raw_make_box(const raw_tensor* tensor, const int64_t* offset, const int64_t* extent,
                         uint64_t size_bytes, raw_box* box, weft_error* error) {
  memset(box, 0, sizeof *box);
  uint64_t size = raw_element_bytes(tensor->dtype);
  for (uint32_t d = 0; d < tensor->ndim; ++d) {
    box->offset[d] = offset == NULL ? 0 : offset[d];
    box->extent[d] = extent == NULL ? tensor->shape[d] : extent[d];
    if (box->offset[d] < 0 || box->extent[d] < 0 || box->offset[d] > tensor->shape[d] - box->extent[d])
      return raw_fail(error, WEFT_OUT_OF_RANGE,
                      "tensor %s: dimension %u of the box begins at %lld and has %lld, the tensor has %lld",
                      tensor->name, d, (long long)box->offset[d], (long long)box->extent[d],
                      (long long)tensor->shape[d]);
    size *= (uint64_t)box->extent[d];
  }
  if (size != size_bytes)
    return raw_fail(error, WEFT_INVALID_ARGUMENT, "tensor %s: the box has %llu bytes, the buffer %llu",
                    tensor->name, (unsigned long long)size, (unsigned long long)size_bytes);
  return WEFT_OK;
}

weft_status raw_each_run(const raw_tensor* tensor, const raw_box* box, raw_move move, void* context) {
  const uint32_t n = tensor->ndim;
  /* A run has whole inner dimensions, and a part of dimension `outer`. */
  uint32_t outer = n;
  uint64_t strides[WEFT_MAX_DIMS + 1] = {0}, run = raw_element_bytes(tensor->dtype), num_runs = 1;
  strides[n] = run;
  for (uint32_t d = n; d-- > 0;) strides[d] = strides[d + 1] * (uint64_t)tensor->shape[d];
  while (outer > 0 && (outer == n || box->extent[outer] == tensor->shape[outer]))
    run *= (uint64_t)box->extent[--outer];
  for (uint32_t d = 0; d < outer; ++d) num_runs *= (uint64_t)box->extent[d];
  if (run == 0) return WEFT_OK;
  int64_t place[WEFT_MAX_DIMS] = {0};
  for (uint64_t i = 0; i < num_runs; ++i) {
    uint64_t at = 0;
    for (uint32_t d = 0; d < n; ++d) at += (uint64_t)(box->offset[d] + place[d]) * strides[d + 1];
    const weft_status status = move(context, at, run);
    if (status != WEFT_OK) return status;
    for (uint32_t d = outer; d-- > 0;) {
      if (++place[d] < box->extent[d]) break;
      place[d] = 0;
    }
  }
  return WEFT_OK;
}

/* Returns 1 if every element of `part` is in one of the boxes. */
static int is_covered(uint32_t ndim, raw_box part, const raw_box* boxes, uint64_t count) {
  for (uint32_t d = 0; d < ndim; ++d)
    if (part.extent[d] == 0) return 1;
  if (count == 0) return 0;
  const raw_box* box = &boxes[count - 1];
  for (uint32_t d = 0; d < ndim; ++d) {
    const int64_t begin = part.offset[d], end = begin + part.extent[d];
    const int64_t box_begin = box->offset[d], box_end = box_begin + box->extent[d];
    if (box_end <= begin || box_begin >= end) return is_covered(ndim, part, boxes, count - 1);
  }
  /* What is before and after the box in each dimension is left to the other boxes. */
  for (uint32_t d = 0; d < ndim; ++d) {
    const int64_t end = part.offset[d] + part.extent[d], box_end = box->offset[d] + box->extent[d];
    raw_box rest = part;
    if (box->offset[d] > part.offset[d]) {
      rest.extent[d] = box->offset[d] - part.offset[d];
      if (!is_covered(ndim, rest, boxes, count - 1)) return 0;
      part.offset[d] = box->offset[d];
    }
    if (box_end < end) {
      rest = part;
      rest.offset[d] = box_end;
      rest.extent[d] = end - box_end;
      if (!is_covered(ndim, rest, boxes, count - 1)) return 0;
    }
    part.extent[d] = (box_end < end ? box_end : end) - part.offset[d];
  }
  return 1;
}

int raw_is_covered(const raw_tensor* tensor, const raw_box* boxes, uint64_t count) {
  raw_box whole = {{0}, {0}};
  for (uint32_t d = 0; d < tensor->ndim; ++d) whole.extent[d] = tensor->shape[d];
  if (tensor->ndim == 0) return count > 0; /* one element, and every box has it */
  return is_covered(tensor->ndim, whole, boxes, count);
}
