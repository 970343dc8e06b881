// The operations of a tensor axis, each tested alone.
#include <ATen/ATen.h>

#include "install/installers.hpp"
#include "layers/linear.hpp"
#include "layers/random_stream.hpp"
#include "operations/registry.hpp"
#include "sequence_modes/sequence_mode.hpp"
#include "streams/attention_block.hpp"
#include "streams/residual_stream.hpp"
#include "streams/vocabulary_loss.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/tolerances.hpp"
#include "transformations/transformation.hpp"
#include "weft/nn/masks.hpp"
#include "weft/nn/site.hpp"

namespace weft::test {

namespace {

using at::Tensor;
using Layout = nn::Linear::Layout;

Tensor leaf(const Tensor& values) {
  return values.clone().requires_grad_(true);
}

// The site of one linear layer whose shards are held by one rank each.
class LinearSite : public Site {
 public:
  LinearSite(nn::Linear& layer, Communicator ranks, std::shared_ptr<parallel::ResidualStream> stream,
             std::shared_ptr<parallel::RegionInput> shared = nullptr)
      : layer_(layer), ranks_(std::move(ranks)), stream_(std::move(stream)), shared_(std::move(shared)) {
    sizes_.tensor = static_cast<uint32_t>(ranks_.size());
    planned_.cuts.resize(sizes_.tensor);
  }
  const plan::ParallelSizes& sizes() const override { return sizes_; }
  bool is_split() const override { return sizes_.tensor > 1; }
  const Communicator& tensor() const override { return ranks_; }
  Summed summed_gradient(std::string_view) override {
    return [](const Tensor& parameter) { return parameter; };
  }
  const plan::PlannedParameter& planned(std::string_view) const override { return planned_; }
  std::shared_ptr<nn::ResidualStream> stream() const override { return stream_; }
  std::shared_ptr<nn::ResidualStream> stream_below(const std::string&) const override { return stream_; }
  std::shared_ptr<parallel::RegionInput> shared_input() override { return shared_; }

 protected:
  torch::nn::Module& module() const override { return layer_; }
  void refuse_class(const std::type_info&) const override { throw std::bad_cast(); }
  void change(std::function<void()> apply, std::function<void()>) override { apply(); }

 private:
  nn::Linear& layer_;
  const Communicator ranks_;
  const std::shared_ptr<parallel::ResidualStream> stream_;
  const std::shared_ptr<parallel::RegionInput> shared_;
  plan::ParallelSizes sizes_;
  plan::PlannedParameter planned_;
};

void install(const char* id, LinearSite site, const std::string& input = "own") {
  const plan::Operation& operation = *plan::find_operation(id);
  std::vector<plan::Attribute> attributes;
  for (const plan::AttributeRule& rule : operation.attributes) {
    attributes.push_back(rule.standard);
    if (rule.standard.key == "input") attributes.back().text = input;
  }
  operations::installer(operation)(site, plan::Attributes(attributes));
}

TEST(Operations, EachHasTheHalfThatFillsItsLayersSlot) {
  for (const plan::Operation& operation : plan::known_operations())
    EXPECT_NE(operations::installer(operation), nullptr) << operation.id;
}

TEST(Transformations, EachHasTheHalfThatChangesLayers) {
  for (const plan::Transformation& transformation : plan::transformations())
    EXPECT_NE(operations::transformer(transformation.name), nullptr) << transformation.name;
  EXPECT_EQ(operations::transformer("nobody"), nullptr);
}

TEST(SequenceModes, EachHasAResidualStream) {
  for (const plan::SequenceMode& mode : plan::sequence_modes())
    EXPECT_NE(parallel::stream_maker(mode.name), nullptr) << mode.name;
  EXPECT_EQ(parallel::stream_maker("nobody"), nullptr);
}

// A norm of heads without parameters has no gradients to sum.
WEFT_RANKS_TEST(NormOfHeads, MayHaveNoParameters, 2) {
  class NormSite final : public LinearSite {
   public:
    NormSite(nn::LayerNorm& norm, nn::Linear& beside, const Communicator& ranks)
        : LinearSite(beside, ranks, nullptr), norm_(norm) {}
    Summed summed_gradient(std::string_view parameter) override {
      if (!norm_.weight.defined()) throw Error(WEFT_INTERNAL, "the module norm has no weight");
      return LinearSite::summed_gradient(parameter);
    }

   protected:
    torch::nn::Module& module() const override { return norm_; }

   private:
    nn::LayerNorm& norm_;
  };
  nn::Linear beside(4, 4, false, at::kFloat);
  const plan::Operation& operation = *plan::find_operation("weft.layer_norm/1");
  std::vector<plan::Attribute> attributes;
  for (const plan::AttributeRule& rule : operation.attributes) {
    attributes.push_back(rule.standard);
    if (rule.standard.key == "split") attributes.back().integer = 1;
  }
  for (const bool affine : {true, false}) {
    nn::LayerNorm norm(4, 1e-5, at::kFloat, affine);
    NormSite site(norm, beside, world.communicator());
    operations::installer(operation)(site, plan::Attributes(attributes));
    EXPECT_EQ(norm.operation != nullptr, affine);
    if (!affine) EXPECT_EQ(norm(at::ones({2, 4})).sum().item<float>(), 0);
  }
}

int64_t all_reduced() {
  return communicated_bytes()["all_reduce"];
}

// Returns the numbers of classes of each rank: 5 + 2 on two ranks, 3 + 3 + 1 + 0 on four.
std::vector<int64_t> split_of(int ranks) {
  return ranks == 2 ? std::vector<int64_t>{5, 2} : std::vector<int64_t>{3, 3, 1, 0};
}

WEFT_RANKS_TEST(VocabularyCrossEntropy, IsThatOfWholeLogits, 2, 4) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    at::manual_seed(3);
    const Tensor logits = (at::randn({2, 4, 7}, dtype) * 3), labels = at::randint(7, {2, 4}, at::kLong);
    labels[0][1] = -100;
    labels[1][3] = -100;
    const Tensor whole = leaf(logits);
    const Tensor expected = nn::cross_entropy_sum(whole, labels);
    (expected * 2).backward();
    const std::vector<int64_t> counts = split_of(world.size());
    int64_t begin = 0;
    for (int rank = 0; rank < world.rank(); ++rank) begin += counts[static_cast<size_t>(rank)];
    const int64_t count = counts[static_cast<size_t>(world.rank())];
    const Tensor part = leaf(logits.narrow(-1, begin, count));
    const Tensor loss =
        parallel::vocabulary_cross_entropy_sum(part, labels, -100, begin, 7, world.communicator());
    EXPECT_TRUE(is_near(loss.detach(), expected.detach(), dtype == at::kFloat ? 1e-6 : 1e-13));
    (loss * 2).backward();
    if (count > 0) {
      EXPECT_TRUE(
          is_near(part.grad(), whole.grad().narrow(-1, begin, count), dtype == at::kFloat ? 1e-5 : 1e-12));
    }
  }
}

WEFT_RANKS_TEST(VocabularyCrossEntropy, RefusesLabelsBeyondTheWholeVocabulary, 2) {
  const Tensor logits = at::zeros({1, world.rank() == 0 ? 5 : 2});
  const int64_t begin = world.rank() == 0 ? 0 : 5;
  EXPECT_ERROR(parallel::vocabulary_cross_entropy_sum(logits, at::full({1}, 7, at::kLong), -100, begin, 7,
                                                      world.communicator()),
               WEFT_INVALID_ARGUMENT, "cross entropy: labels", "the value 7");
}

// Halves of a few values, so that classes of different ranks have the same logit.
WEFT_RANKS_TEST(VocabularyCountRight, IsThatOfWholeLogits, 2, 4) {
  const std::vector<int64_t> counts = split_of(world.size());
  int64_t begin = 0;
  for (int rank = 0; rank < world.rank(); ++rank) begin += counts[static_cast<size_t>(rank)];
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    at::manual_seed(4);
    const Tensor logits = at::randint(-3, 4, {40, 5, 7}, at::kLong).to(dtype) / 2,
                 labels = at::randint(7, {40, 5}, at::kLong);
    labels.slice(0, 30).fill_(-100);
    const Tensor right = logits.argmax(-1).eq(labels);
    const Tensor part = logits.narrow(-1, begin, counts[static_cast<size_t>(world.rank())]);
    const double expected = right.sum().item<double>();
    ASSERT_GT(expected, 10);
    EXPECT_EQ(parallel::vocabulary_count_right(part, labels, -100, begin, world.communicator()), expected);
    // A label that does not count may be a class.
    EXPECT_EQ(parallel::vocabulary_count_right(part, labels, 0, begin, world.communicator()),
              right.logical_and(labels.ne(0)).sum().item<double>());
  }
}

// Computes x W1 W2 with W1 (256, 1024) sharded to (256, 512) and W2 (1024, 256) to (512, 256), the documents'
// example.
WEFT_RANKS_TEST(TensorParallel, ColumnsThenRowsAreTheWholeProduct, 2) {
  at::manual_seed(5);
  const Tensor x = at::randn({4, 256}, at::kDouble), w1 = at::randn({256, 1024}, at::kDouble),
               w2 = at::randn({1024, 256}, at::kDouble), bias = at::randn({256}, at::kDouble);
  const Tensor whole_x = leaf(x);
  const Tensor expected = at::matmul(at::matmul(whole_x, w1), w2) + bias;
  expected.square().sum().backward();
  const auto mine = [&](const Tensor& w, int64_t dim) { return w.chunk(2, dim)[world.rank()].contiguous(); };
  nn::Linear first(mine(w1, 1), {}, Layout::kInOut), second(mine(w2, 0), bias.clone(), Layout::kInOut);
  EXPECT_EQ(first.weight.sizes(), (at::IntArrayRef{256, 512}));
  EXPECT_EQ(second.weight.sizes(), (at::IntArrayRef{512, 256}));
  const auto stream = parallel::stream_maker("whole")({.tensor = world.communicator()});
  install("weft.linear_column/1", {first, world.communicator(), stream});
  install("weft.linear_row/1", {second, world.communicator(), stream});
  const Tensor own_x = leaf(x);
  const Tensor y = second(first(own_x));
  EXPECT_TRUE(is_near(y.detach(), expected.detach(), 1e-12));
  y.square().sum().backward();
  EXPECT_TRUE(is_near(own_x.grad(), whole_x.grad(), 1e-12));
}

// Three layers that read one tensor must reduce its gradient once.
WEFT_RANKS_TEST(TensorParallel, ASharedInputIsReducedOnce, 2) {
  for (const bool shared : {false, true}) {
    const auto stream = parallel::stream_maker("whole")({.tensor = world.communicator()});
    const auto input = stream->input(3);
    std::vector<nn::Linear> layers;
    for (int i = 0; i < 3; ++i) {
      layers.emplace_back(at::full({8, 16}, 0.5 + i), Tensor());
      install("weft.linear_column/1", {layers.back(), world.communicator(), stream, input},
              shared ? "shared" : "own");
    }
    for (int repeat = 0; repeat < 2; ++repeat) {
      nn::ForwardContext context;
      const nn::RunningUnit unit(context, 0);
      const Tensor x = leaf(at::ones({4, 16}));
      Tensor sum = at::zeros({});
      for (const nn::Linear& layer : layers) sum = sum + layer(x).sum();
      const int64_t before = all_reduced();
      sum.backward();
      EXPECT_EQ(all_reduced() - before, (shared ? 1 : 3) * x.numel() * 4) << shared;
      EXPECT_TRUE(x.grad().equal(at::full({4, 16}, 2 * 8 * (0.5 + 1.5 + 2.5))));
    }
  }
}

// Padding from position 4 on, and a window of two positions: position 4 sees 3, later ones see padding only.
WEFT_RANKS_TEST(RingAttention, SeesNothingBeforeAWindowOfPadding, 2, 3) {
  constexpr int64_t kPositions = 12, kPadding = 4;
  nn::ForwardContext context({nn::Sequence{"", kPositions, 2, {}}}, 1);
  const nn::RunningUnit unit(context, 0);
  const auto stream =
      parallel::stream_maker("ring_attn")({.along = world.communicator(), .order = Segments::Order::kZigzag});
  const auto operation = stream->attention(stream);
  const nn::AttentionOptions options = {.causal = true, .window = 2};
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    at::manual_seed(5);
    const auto random = [&](int64_t heads) { return at::randn({2, kPositions, heads, 16}, dtype); };
    const Tensor q = random(4), k = random(2), v = random(2), changed = v.clone();
    changed.narrow(1, 0, kPadding).add_(1);
    const Tensor mask =
        nn::additive_mask(at::arange(kPositions).lt(kPadding).view({1, 1, 1, kPositions}), dtype);
    const auto by_ring = [&](const Tensor& values) {
      const Tensor own =
          operation->forward(stream->own(q), stream->own(k), stream->own(values), mask, options);
      return stream->positions().gathered(own, kPositions);
    };
    const Tensor found = by_ring(v), whole = nn::self_attention(q, k, v, mask, options);
    EXPECT_TRUE(is_near(found.narrow(1, 0, kPadding + 1), whole.narrow(1, 0, kPadding + 1),
                        dtype == at::kFloat ? 1e-5 : 1e-12));
    const auto padded = [](const Tensor& x) { return x.slice(1, kPadding + 1); };
    EXPECT_TRUE(padded(by_ring(changed)).equal(padded(found)));
    EXPECT_FALSE(by_ring(changed).equal(found));
  }
  EXPECT_ERROR(operation->forward(stream->own(at::ones({2, kPositions, 4, 16})), {}, {}, {}, {.window = -1}),
               WEFT_INVALID_ARGUMENT, "the window is -1");
}

// Documents begin and end within the segments of ranks and across them; one row is a single document.
WEFT_RANKS_TEST(RingAttention, StaysInsideDocuments, 2, 3) {
  constexpr int64_t kPositions = 23;
  nn::ForwardContext context({nn::Sequence{"", kPositions, 2, {}}}, 1);
  const nn::RunningUnit unit(context, 0);
  at::Tensor starts = at::zeros({2, kPositions}, at::kBool);
  for (const int64_t begin : {2, 3, 17}) starts[0][begin].fill_(true);
  const Tensor begins = nn::document_begins(starts, 2);
  at::manual_seed(5);
  const auto leaf = [&](int64_t heads) {
    return at::randn({2, kPositions, heads, 16}, at::kDouble).requires_grad_(true);
  };
  const std::vector<Tensor> in = {leaf(4), leaf(2), leaf(2)};
  const Tensor bias = at::randn({2, 4, 1, kPositions}, at::kDouble),
               up = at::randn({2, kPositions, 64}, at::kDouble);
  for (const Segments::Order order : {Segments::Order::kInOrder, Segments::Order::kZigzag}) {
    const auto stream = parallel::stream_maker("ring_attn")({.along = world.communicator(), .order = order});
    const auto operation = stream->attention(stream);
    for (nn::AttentionOptions options : {nn::AttentionOptions{.causal = true},
                                         {.causal = true, .window = 4},
                                         {.causal = true, .soft_cap = 2},
                                         {}}) {
      options.documents = begins;
      const Tensor whole = nn::self_attention(in[0], in[1], in[2], bias, options);
      const Tensor part =
          operation->forward(stream->own(in[0]), stream->own(in[1]), stream->own(in[2]), bias, options);
      EXPECT_TRUE(is_near(stream->positions().gathered(part, kPositions), whole.detach(), 1e-12));
      const auto expected = torch::autograd::grad({(whole * up).sum()}, in),
                 found = torch::autograd::grad({(part * stream->own(up)).sum()}, in);
      for (size_t i = 0; i < in.size(); ++i)
        EXPECT_TRUE(is_near(stream->own(found[i]), stream->own(expected[i]), 1e-11)) << i;
    }
  }
  const Tensor learned = at::randn({1, 4, 1, kPositions}, at::kDouble).requires_grad_(true);
  const auto stream = parallel::stream_maker("ring_attn")({.along = world.communicator()});
  const auto own = [&](size_t i) { return stream->own(in[i]); };
  EXPECT_ERROR(stream->attention(stream)->forward(own(0), own(1), own(2), learned,
                                                  {.causal = true, .documents = begins}),
               WEFT_UNIMPLEMENTED, "learned bias");
}

// Attention to two blocks of keys, merged, must equal attention to all keys, and so must the gradients. With
// dropout, gradients are also compared with finite differences.
TEST(AttentionBlock, PartsMergeToTheWhole) {
  at::manual_seed(9);
  const auto random = [](int64_t heads, int64_t positions) {
    return at::randn({2, heads, positions, 8}, at::kDouble);
  };
  const Tensor q = random(4, 5), k = random(2, 7), v = random(2, 7), up = random(4, 5);
  const Tensor bias = at::randn({2, 1, 5, 7}, at::kDouble);
  for (const bool fused : {false, true})
    for (const auto& [dropout, soft_cap] : {std::pair(0.0, 0.0), {0.4, 0.0}, {0.0, 0.8}, {0.4, 0.8}}) {
      const auto block = [&, dropout = dropout, cap = soft_cap](const Tensor& queries, int64_t begin,
                                                                int64_t count) {
        return parallel::AttentionBlock{queries,
                                        k.narrow(2, begin, count),
                                        v.narrow(2, begin, count),
                                        bias.narrow(3, begin, count),
                                        false,
                                        0.3,
                                        cap,
                                        fused,
                                        dropout,
                                        static_cast<uint64_t>(begin + 1),
                                        true};
      };
      const auto whole_of = [&](const Tensor& queries) {
        parallel::AttentionPart whole = parallel::attend(block(queries, 0, 3));
        parallel::merge(whole, parallel::attend(block(queries, 3, 4)));
        return whole;
      };
      const parallel::AttentionPart whole = whole_of(q);
      Tensor dq = at::zeros_like(q), dbias = at::zeros_like(bias);
      for (const auto& [begin, count] : {std::pair(0, 3), std::pair(3, 4)}) {
        const parallel::AttentionGradients part =
            parallel::attend_backward(block(q, begin, count), whole, up);
        dq += part.dq;
        dbias.narrow(3, begin, count) += part.dbias;
      }
      if (dropout == 0) {
        const Tensor learnt = leaf(bias);
        const Tensor scores = at::matmul(q, k.repeat_interleave(2, 1).transpose(2, 3)) * 0.3;
        const Tensor logits = nn::soft_capped(scores, soft_cap) + learnt;
        const Tensor expected = at::matmul(logits.softmax(-1), v.repeat_interleave(2, 1));
        EXPECT_TRUE(is_near(whole.out, expected.detach(), 1e-12));
        (expected * up).sum().backward();
        EXPECT_TRUE(is_near(dbias, learnt.grad(), 1e-12));
      }
      const Tensor direction = random(4, 5);
      const double step = 1e-5;
      const Tensor difference =
          (whole_of(q + direction * step).out - whole_of(q - direction * step).out) / (2 * step);
      const double expected = (difference * up).sum().item<double>();
      EXPECT_NEAR((dq * direction).sum().item<double>(), expected, 1e-7 * std::abs(expected) + 1e-8);
    }
}

TEST(RandomStream, LeavesTheGeneratorInStepWhateverItDraws) {
  const auto after = [](uint64_t stream, int64_t drawn) {
    at::manual_seed(11);
    Tensor inside;
    {
      const nn::RandomStream random(stream);
      inside = at::rand({drawn});
    }
    return std::pair(inside, at::rand({4}));
  };
  EXPECT_TRUE(after(1, 3).second.equal(after(2, 50).second));
  EXPECT_FALSE(after(1, 8).first.equal(after(2, 8).first));
  EXPECT_TRUE(after(2, 8).first.equal(after(2, 8).first));
}

}  // namespace

}  // namespace weft::test
