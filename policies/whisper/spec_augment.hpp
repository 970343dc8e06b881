// SpecAugment (Park et al., SpecAugment: a simple data augmentation method for automatic speech recognition,
// arXiv:1904.08779) as transformers has it: in training, spans of frames and of mel bins become zero. The
// spans are drawn anew for each micro-batch. Shapes: N recordings, M mel bins, F frames.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace weft::whisper {

// How spans along one axis are drawn.
struct Spans {
  double share = 0;    // of the positions that spans cover if none overlap; 0: there are no spans
  int64_t length = 1;  // positions of a span
  int64_t least = 0;   // the smallest number of spans of a row
};

// Returns the number of spans of a row that has `own` positions, of an axis of `positions`. `rounding`, from
// 0 to 1, decides which of the two nearest whole numbers it is; it is the same for all rows of a batch.
int64_t span_count(const Spans& spans, int64_t positions, int64_t own, double rounding);

// Returns (rows, positions), true where a row has a span. `starts` has the first positions of each row's
// spans. If a row has none although a row of all `positions` would have `full` spans, its last position is
// masked, which is padding.
at::Tensor span_mask(const Spans& spans, int64_t positions, int64_t full,
                     const std::vector<std::vector<int64_t>>& starts);

// Draws the spans of rows that have `own` positions each, and returns their mask (rows, positions). Spans of
// a row begin at different positions, each set of which is equally likely.
at::Tensor drawn_mask(const Spans& spans, int64_t positions, const std::vector<int64_t>& own,
                      const at::Generator& generator);

struct SpecAugment {
  bool on = false;
  Spans time = {0.05, 10, 2}, features = {0, 10, 0};

  // Returns `x` (N, M, F) with spans of zeros. frames: (N) int64, the frames of each recording that spans
  // cover, or undefined for all. The random numbers of the running unit decide, so that it draws the
  // same spans when it runs again.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& frames) const;
};

}  // namespace weft::whisper
