// Layouts of a job, drawn at random: a strategy, the sizes of the axes, a pipeline schedule, a way to split
// sequences, micro-batches, recomputation and precision. The same seed draws the same layouts everywhere.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace weft::test {

struct RandomLayout {
  int ranks = 1;
  std::string strategy;
  std::vector<std::pair<std::string, std::string>> options;  // of the strategy: names, and values as JSON
  std::string recompute = "off", precision = "fp32";
  int64_t accumulate = 1;
  double max_grad_norm = 0;  // 0: no clipping

  // What the options say.
  int tensor = 1, stages = 1, chunks = 1, sequence = 1;
  std::string style, mode;  // of the pipeline schedule and of sequence parallelism; empty without them
  int data() const { return ranks / tensor / stages; }

  std::string json() const;  // the options as an object
  std::string text() const;  // everything in one line
};

struct LayoutBounds {
  // One that is listed twice is drawn twice as often.
  std::vector<int> ranks = {1, 2, 2, 3, 4, 4, 4, 5, 6, 6, 7, 8, 8, 8};
  // Of the model. If they are given, only layouts are drawn that Weft accepts for it. Otherwise some are
  // refused, for one of their options or for the model.
  int units = 0, heads = 0;
};

class RandomLayouts {
 public:
  explicit RandomLayouts(uint64_t seed, LayoutBounds bounds = {});
  RandomLayout draw();
  // Returns a number below `count`.
  size_t below(size_t count) { return static_cast<size_t>(random_() % count); }

 private:
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  RandomLayout any();
  void split_sequences(RandomLayout& layout);
  void schedule(RandomLayout& layout);
  bool fits(const RandomLayout& layout) const;

  std::mt19937_64 random_;
  const LayoutBounds bounds_;
};

}  // namespace weft::test
