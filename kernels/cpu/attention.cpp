#include "cpu/attention.hpp"

#include <cmath>
#include <memory>
#include <new>

#include "cpu/drawn_mask.hpp"
#include "cpu/score_rows.hpp"
#include "cpu/tile.hpp"
#include "parallel.hpp"

namespace weft::kernels {

namespace {

constexpr int64_t kQueries = 32;  // of a block: its scores, 32 x S floats, stay in the second cache
constexpr int64_t kMaskFloats = kQueries / sizeof(float);  // for the bytes of a block's mask, of each key
// All keys of a row whose log-sum-exp is less are masked with the lowest finite value.
constexpr float kAllMasked = -1e30f;

int64_t padded(int64_t keys) {
  return (keys + kLanes - 1) / kLanes * kLanes;
}

class Scratch {
 public:
  explicit Scratch(int64_t size)
      : data_(static_cast<float*>(::operator new(size * sizeof(float), kAlignment))) {}
  ~Scratch() { ::operator delete(data_, kAlignment); }
  Scratch(const Scratch&) = delete;
  float* take(int64_t size) {
    float* result = data_ + used_;
    used_ += size;
    return result;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  float* data_;
  int64_t used_ = 0;
};

// Dropout of the probabilities of a head.
struct Drops {
  uint64_t seed;
  uint32_t below;  // of 2^32: the share that is kept
  float scale;     // of what is kept
  int64_t block;   // of the head's first queries; each kQueries have a block of random numbers

  explicit operator bool() const { return scale != 1; }
};

// One head, contiguous, in the caches of one core.
struct Head {
  int64_t queries, keys, size, row;  // row: of what has a column for each key
  bool causal;
  int64_t window;
  float scale;
  ConstHeads q, k, v;
  ConstBias bias;
  Drops drops;
};

// The head `head` of the positions of a span.
// An empty tensor has a null pointer, and no offset may be added to one.
template <typename T>
HeadsOf<T> one(HeadsOf<T> all, const AttentionSpan& span, int64_t head) {
  if (all.data != nullptr) all.data += span.sample * all.batch + head * all.head + span.begin * all.position;
  return all;
}
template <typename T>
BiasOf<T> one(BiasOf<T> all, const AttentionSpan& span, int64_t head) {
  if (all.data != nullptr)
    all.data += span.sample * all.batch + head * all.head + span.begin * all.query + span.begin;
  return all;
}

// All operands of a call. Heads are counted from those of the first span on, then come those of the second.
struct Operands {
  const AttentionShape& shape;
  const ConstHeads &q, &k, &v;
  const ConstBias& bias;

  int64_t spans() const { return shape.num_spans > 0 ? shape.num_spans : shape.batch; }
  int64_t key_heads() const { return shape.heads / shape.shared; }
  // The span of head `index` of `heads` in each.
  AttentionSpan span(int64_t heads, int64_t index) const {
    return shape.num_spans > 0 ? shape.spans[index / heads] : AttentionSpan{index / heads, 0, shape.keys};
  }
  // Most keys of a head.
  int64_t most_keys() const {
    int64_t most = shape.num_spans > 0 ? 0 : shape.keys;
    for (int64_t i = 0; i < shape.num_spans; ++i) most = std::max(most, shape.spans[i].count);
    return most;
  }
  Head head(int64_t index) const {
    const AttentionSpan at = span(shape.heads, index);
    const int64_t own = index % shape.heads, key = own / shape.shared;
    return {shape.num_spans > 0 ? at.count : shape.queries,
            at.count,
            shape.size,
            padded(at.count),
            shape.causal,
            shape.window,
            shape.scale,
            one(q, at, own),
            one(k, at, key),
            one(v, at, key),
            one(bias, at, own),
            drops(index)};
  }
  Drops drops(int64_t index) const {
    if (shape.kept >= 1) return {0, 0, 1, 0};
    return {shape.seed, dropout_threshold(shape.kept),
            static_cast<float>(shape.kept > 0 ? 1 / shape.kept : 0),
            index * ((shape.queries + kQueries - 1) / kQueries)};
  }
  template <class All>
  All of_head(const All& all, int64_t index) const {
    return one(all, span(shape.heads, index), index % shape.heads);
  }
  template <class All>
  All of_key_head(const All& all, int64_t index) const {
    return one(all, span(key_heads(), index), index % key_heads());
  }
  // Of its queries, in (B, H, T).
  template <typename T>
  T* of_queries(T* all, int64_t index) const {
    const AttentionSpan at = span(shape.heads, index);
    return all + (at.sample * shape.heads + index % shape.heads) * shape.queries + at.begin;
  }
};

void copy_rows(const Head& head, const ConstHeads& from, float* to) {
  for (int64_t t = 0; t < head.keys; ++t)
    std::copy_n(from.data + t * from.position, head.size, to + t * head.size);
}

// (S, D) -> (D, row); the columns of no key are 0.
template <InstructionSet>
WEFT_INLINE void transpose_rows_body(const Head& head, const ConstHeads& from, float* to) {
  for (int64_t first = 0; first < head.row; first += kLanes) {
    for (int64_t d = 0; d < head.size; d += kLanes) {
      Floats x[kLanes];
      for (int64_t t = 0; t < kLanes; ++t) {
        if (first + t < head.keys)
          load(x[t], from.data + (first + t) * from.position + d);
        else
          x[t] = Floats{};
      }
      transpose_lanes(x);
      for (int64_t c = 0; c < kLanes; ++c) store(x[c], to + (d + c) * head.row + first);
    }
  }
}
WEFT_DISPATCH(transpose_rows, (const Head& head, const ConstHeads& from, float* to), (head, from, to))

// The first key that a query sees; and a block of queries from `first` on, at a boundary of padding.
int64_t first_of_query(const Head& head, int64_t query) {
  return head.causal && head.window > 0 ? std::max<int64_t>(0, query + 1 - head.window) : 0;
}
int64_t first_of_block(const Head& head, int64_t first) {
  return first_of_query(head, first) / kLanes * kLanes;
}

// The key behind the last one that a block of queries up to `last` sees, padded; and one query.
int64_t end_of_block(const Head& head, int64_t last) {
  return head.causal ? padded(last) : head.row;
}
int64_t end_of_query(const Head& head, int64_t query) {
  return head.causal ? query + 1 : head.keys;
}

// Adds the bias of `keys` keys from `begin` on, and returns what the scores are still to be scaled by.
WEFT_INLINE float biased(const Head& head, float* row, int64_t query, int64_t begin, int64_t keys) {
  if (head.bias.data == nullptr) return head.scale;
  add_bias(row, head.bias.data + query * head.bias.query + begin, keys, head.scale);
  return 1;
}

// Draws the mask of the queries `first` to `last` - 1 and of `keys` keys, a multiple of kLanes.
template <InstructionSet kSet>
WEFT_INLINE void draw_block(const Drops& drops, int64_t first, int64_t last, int64_t keys, uint8_t* mask) {
  if (drops)
    draw_mask<kSet>({drops.seed, drops.block + first / kQueries}, (last - first) * keys, drops.below, mask);
}

// row = scale mask row.
WEFT_INLINE void drop(float* row, const uint8_t* mask, int64_t keys, float scale) {
  Floats x, kept;
  for (int64_t j = 0; j < keys; j += kLanes) {
    load(x, row + j);
    load_mask<float>(kept, mask + j);
    x *= kept * scale;
    store(x, row + j);
  }
}

struct ForwardWork {
  float *keys, *values, *scores;  // (D, row), (S, D), (queries, row)
  uint8_t* mask;                  // (queries, keys)
  // Of heads of `size` values with at most `keys` keys.
  static int64_t floats(int64_t size, int64_t keys) {
    const int64_t row = padded(keys);
    return size * row + keys * size + kQueries * row + kMaskFloats * row;
  }
};

template <InstructionSet kSet>
WEFT_INLINE void forward_head_body(const Head& head, const ForwardWork& work, const Heads& out,
                                   float* log_sum_exp) {
  for (int64_t first = 0; first < head.queries; first += kQueries) {
    const int64_t last = std::min(first + kQueries, head.queries), begin = first_of_block(head, first);
    const int64_t keys = end_of_block(head, last) - begin, real = std::min(keys, head.keys - begin);
    const Scalars queries = {head.q.data + first * head.q.position, head.q.position, 1};
    multiply<kSet>(last - first, keys, head.size, queries, {work.keys + begin, head.row}, work.scores,
                   head.row, false);
    float* result = out.data + first * out.position;
    draw_block<kSet>(head.drops, first, last, keys, work.mask);
    for (int64_t query = first; query < last; ++query) {
      float* row = work.scores + (query - first) * head.row;
      const int64_t from = first_of_query(head, query) - begin, to = end_of_query(head, query) - begin;
      const float scale = biased(head, row, query, begin, to);
      // The largest of scale * score: the scale is positive.
      const float largest = scale * maximum_of(row + from, to - from);
      const float shift = std::isinf(largest) ? 0 : largest;
      const float sum = exponentials(row, from, to, keys, scale, shift);
      log_sum_exp[query] = sum > 0 ? shift + std::log(sum) : 0;
      const float share = sum > 0 ? 1 / sum : 0;
      if (head.drops)
        drop(row, work.mask + (query - first) * keys, keys, share * head.drops.scale);
      else
        for (int64_t j = 0; j < keys; ++j) row[j] *= share;
    }
    multiply<kSet>(last - first, head.size, real, {work.scores, head.row, 1},
                   {work.values + begin * head.size, head.size}, result, out.position, false);
  }
}
WEFT_DISPATCH(forward_head, (const Head& head, const ForwardWork& work, const Heads& out, float* log_sum_exp),
              (head, work, out, log_sum_exp))

struct BackwardWork {
  float *keys, *values;           // (D, row)
  float* key_rows;                // (S, D)
  float *key_sums, *value_sums;   // (row, D): their gradients
  float *probabilities, *slopes;  // (queries, row)
  uint8_t* mask;                  // (queries, keys)
  static int64_t floats(int64_t size, int64_t keys) {
    const int64_t row = padded(keys);
    return 2 * size * row + keys * size + 2 * row * size + 2 * kQueries * row + kMaskFloats * row;
  }
};

template <InstructionSet kSet>
WEFT_INLINE void backward_head_body(const Head& head, const BackwardWork& work, const ConstHeads& out,
                                    const ConstHeads& dout, const float* log_sum_exp, const Heads& dq,
                                    const Bias& dbias) {
  for (int64_t first = 0; first < head.queries; first += kQueries) {
    const int64_t last = std::min(first + kQueries, head.queries), block = last - first;
    const int64_t begin = first_of_block(head, first), keys = end_of_block(head, last) - begin;
    const int64_t real = std::min(keys, head.keys - begin), skipped = begin * head.size;
    const float* queries = head.q.data + first * head.q.position;
    const float* up = dout.data + first * dout.position;
    multiply<kSet>(block, keys, head.size, {queries, head.q.position, 1}, {work.keys + begin, head.row},
                   work.probabilities, head.row, false);
    multiply<kSet>(block, keys, head.size, {up, dout.position, 1}, {work.values + begin, head.row},
                   work.slopes, head.row, false);
    draw_block<kSet>(head.drops, first, last, keys, work.mask);
    for (int64_t query = first; query < last; ++query) {
      const uint8_t* mask = work.mask + (query - first) * keys;
      float* p = work.probabilities + (query - first) * head.row;
      float* slope = work.slopes + (query - first) * head.row;
      const int64_t from = first_of_query(head, query) - begin, to = end_of_query(head, query) - begin;
      const float scale = biased(head, p, query, begin, to);
      const float sum = exponentials(p, from, to, keys, scale, log_sum_exp[query]);
      // The log-sum-exp of such a row is the value of its mask, in which the sum is lost.
      if (log_sum_exp[query] < kAllMasked) {
        for (int64_t j = from; j < to; ++j) p[j] /= sum;
      }
      if (head.drops) drop(slope, mask, keys, head.drops.scale);
      // The softmax's own derivative: what all keys of the query have in common.
      const float common = dot(out.data + query * out.position, dout.data + query * dout.position, head.size);
      if (dbias.data != nullptr) {
        float* sums = dbias.data + query * dbias.query + begin;
        for (int64_t j = from; j < to; ++j) sums[j] += p[j] * (slope[j] - common);
      }
      for (int64_t j = 0; j < keys; ++j) slope[j] = p[j] * (slope[j] - common) * head.scale;
      if (head.drops) drop(p, mask, keys, head.drops.scale);
    }
    multiply<kSet>(real, head.size, block, {work.probabilities, 1, head.row}, {up, dout.position},
                   work.value_sums + skipped, head.size, true);
    multiply<kSet>(real, head.size, block, {work.slopes, 1, head.row}, {queries, head.q.position},
                   work.key_sums + skipped, head.size, true);
    multiply<kSet>(block, head.size, real, {work.slopes, head.row, 1}, {work.key_rows + skipped, head.size},
                   dq.data + first * dq.position, dq.position, false);
  }
}
WEFT_DISPATCH(backward_head,
              (const Head& head, const BackwardWork& work, const ConstHeads& out, const ConstHeads& dout,
               const float* log_sum_exp, const Heads& dq, const Bias& dbias),
              (head, work, out, dout, log_sum_exp, dq, dbias))

void scatter_rows(const Head& head, const float* from, const Heads& to) {
  for (int64_t t = 0; t < head.keys; ++t)
    std::copy_n(from + t * head.size, head.size, to.data + t * to.position);
}

}  // namespace

bool attention_takes(int64_t size) {
  return size > 0 && size % kLanes == 0;
}

void attention_forward(const AttentionShape& shape, const ConstHeads& q, const ConstHeads& k,
                       const ConstHeads& v, const ConstBias& bias, const Heads& out, float* log_sum_exp) {
  const Operands all = {shape, q, k, v, bias};
  const int64_t keys = all.most_keys();
  parallel_for(0, all.spans() * shape.heads, 1, [&](int64_t begin, int64_t end) {
    Scratch scratch(ForwardWork::floats(shape.size, keys));
    const ForwardWork work = {scratch.take(shape.size * padded(keys)), scratch.take(keys * shape.size),
                              scratch.take(kQueries * padded(keys)),
                              reinterpret_cast<uint8_t*>(scratch.take(kMaskFloats * padded(keys)))};
    for (int64_t index = begin; index < end; ++index) {
      const Head head = all.head(index);
      if (index == begin || index % shape.shared == 0) {
        transpose_rows(head, head.k, work.keys);
        copy_rows(head, head.v, work.values);
      }
      forward_head(head, work, all.of_head(out, index), all.of_queries(log_sum_exp, index));
    }
  });
}

void attention_backward(const AttentionShape& shape, const ConstHeads& q, const ConstHeads& k,
                        const ConstHeads& v, const ConstBias& bias, const ConstHeads& out,
                        const ConstHeads& out_gradient, const float* log_sum_exp,
                        const AttentionGradients& gradients) {
  const Operands all = {shape, q, k, v, bias};
  const int64_t key_heads = all.key_heads(), keys = all.most_keys(), row = padded(keys);
  // Spans that share a gradient of the bias are the work of one thread.
  const int64_t together = gradients.bias.data != nullptr && gradients.bias.batch == 0 ? all.spans() : 1;
  parallel_for(0, all.spans() / together * key_heads, 1, [&](int64_t begin, int64_t end) {
    Scratch scratch(BackwardWork::floats(shape.size, keys));
    BackwardWork work;
    work.keys = scratch.take(shape.size * row);
    work.values = scratch.take(shape.size * row);
    work.key_rows = scratch.take(keys * shape.size);
    work.key_sums = scratch.take(row * shape.size);
    work.value_sums = scratch.take(row * shape.size);
    work.probabilities = scratch.take(kQueries * row);
    work.slopes = scratch.take(kQueries * row);
    work.mask = reinterpret_cast<uint8_t*>(scratch.take(kMaskFloats * row));
    for (int64_t task = begin * together; task < end * together; ++task) {
      // Of one head all spans, then of the next; else heads in the order of memory.
      const int64_t key = together == 1 ? task : task % together * key_heads + task / together;
      const Head first = all.head(key * shape.shared);
      transpose_rows(first, first.k, work.keys);
      transpose_rows(first, first.v, work.values);
      copy_rows(first, first.k, work.key_rows);
      std::fill_n(work.key_sums, first.row * shape.size, 0.0f);
      std::fill_n(work.value_sums, first.row * shape.size, 0.0f);
      for (int64_t index = key * shape.shared; index < (key + 1) * shape.shared; ++index) {
        backward_head(all.head(index), work, all.of_head(out, index), all.of_head(out_gradient, index),
                      all.of_queries(log_sum_exp, index), all.of_head(gradients.q, index),
                      all.of_head(gradients.bias, index));
      }
      scatter_rows(first, work.key_sums, all.of_key_head(gradients.k, key));
      scatter_rows(first, work.value_sums, all.of_key_head(gradients.v, key));
    }
  });
}

}  // namespace weft::kernels
