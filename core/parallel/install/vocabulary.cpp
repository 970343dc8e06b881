#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>

#include <numeric>

#include "streams/region.hpp"
#include "streams/residual_stream.hpp"
#include "streams/vocabulary_loss.hpp"
#include "weft/nn/site.hpp"
#include "weft/operation.hpp"

namespace weft::operations {

namespace {

using parallel::ResidualStream;

// The classes of each rank: this rank has `count` of `total`, from `begin`.
class Vocabulary {
 public:
  Vocabulary(Communicator ranks, std::vector<int64_t> counts)
      : ranks(std::move(ranks)), counts(std::move(counts)) {
    const auto mine = this->counts.begin() + this->ranks.rank();
    begin = std::accumulate(this->counts.begin(), mine, int64_t{0});
    count = *mine;
    total = std::accumulate(this->counts.begin(), this->counts.end(), int64_t{0});
  }
  Communicator ranks;
  std::vector<int64_t> counts;
  int64_t begin, count, total;
};

// A head that computes the logits of this rank's classes. `stream` is set if they are those of this rank's
// positions.
class VocabularyLinear final : public nn::LinearOperation {
 public:
  VocabularyLinear(Vocabulary vocabulary, bool gathers, std::shared_ptr<ResidualStream> stream)
      : vocabulary_(std::move(vocabulary)), gathers_(gathers), stream_(std::move(stream)) {}
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    const at::Tensor logits =
        nn::product(layer, parallel::enter(x, vocabulary_.ranks), layer.weight, layer.bias);
    return gathers_ ? parallel::gather_last(logits, vocabulary_.counts, vocabulary_.ranks) : logits;
  }
  at::Tensor own_labels(const at::Tensor& labels) const override {
    return stream_ == nullptr ? labels : stream_->inside(labels).contiguous();
  }
  at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& own_labels, int64_t ignored,
                               std::optional<double> gradient) const override {
    const at::Tensor sum = sum_of(logits, own_labels, ignored, gradient);
    return stream_ == nullptr ? sum : sum * static_cast<double>(stream_->times_counted());
  }

  double count_right(const at::Tensor& logits, const at::Tensor& own_labels, int64_t ignored) const override {
    const double right = right_of(logits, own_labels, ignored);
    return stream_ == nullptr ? right : right * static_cast<double>(stream_->times_counted());
  }

 private:
  bool has_whole_rows() const { return gathers_ || vocabulary_.ranks.size() == 1; }
  double right_of(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored) const {
    if (has_whole_rows()) return nn::LinearOperation::count_right(logits, labels, ignored);
    return parallel::vocabulary_count_right(logits, labels, ignored, vocabulary_.begin, vocabulary_.ranks);
  }
  at::Tensor sum_of(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored,
                    std::optional<double> gradient) const {
    if (has_whole_rows()) return nn::cross_entropy_sum(logits, labels, ignored, gradient);
    return parallel::vocabulary_cross_entropy_sum(logits, labels, ignored, vocabulary_.begin,
                                                  vocabulary_.total, vocabulary_.ranks);
  }
  Vocabulary vocabulary_;
  bool gathers_;
  std::shared_ptr<ResidualStream> stream_;
};

// An embedding whose rows are sharded. The sum over the ranks is the result.
class VocabularyEmbedding final : public nn::EmbeddingOperation {
 public:
  VocabularyEmbedding(Vocabulary vocabulary, std::shared_ptr<ResidualStream> stream)
      : vocabulary_(std::move(vocabulary)), stream_(std::move(stream)) {}
  at::Tensor forward(const nn::Embedding& layer, const at::Tensor& ids) const override {
    nn::check_ids(ids, vocabulary_.total, "embedding");
    return stream_->leave(own_rows(layer, stream_->inside(ids).sub(vocabulary_.begin)));
  }

 private:
  // Returns this rank's rows, and zeros for ids of other ranks. `local` are ids relative to this rank's first
  // one.
  at::Tensor own_rows(const nn::Embedding& layer, const at::Tensor& local) const {
    const at::Tensor& weight = layer.weight;
    if (vocabulary_.count == 0) {
      at::DimVector shape(local.sizes());
      shape.push_back(weight.size(1));
      // Depend on the weight as on other ranks, so that this rank takes part in the collectives of backward.
      return at::zeros(shape, weight.options()).add_(weight.sum());
    }
    const at::Tensor others = local.lt(0).bitwise_or_(local.ge(vocabulary_.count));
    const int64_t padding = layer.padding.value_or(-1) - vocabulary_.begin;
    const bool pads_here = padding >= 0 && padding < vocabulary_.count;
    return at::embedding(weight, local.masked_fill(others, 0), pads_here ? padding : -1)
        .masked_fill(others.unsqueeze(-1), 0);
  }
  Vocabulary vocabulary_;
  std::shared_ptr<ResidualStream> stream_;
};

// Looks up this rank's positions in a replicated table.
class StreamEmbedding final : public nn::EmbeddingOperation {
 public:
  explicit StreamEmbedding(std::shared_ptr<ResidualStream> stream) : stream_(std::move(stream)) {}
  at::Tensor forward(const nn::Embedding& layer, const at::Tensor& ids) const override {
    nn::check_ids(ids, layer.weight.size(0), "embedding");
    return at::embedding(stream_->parameter(layer.weight), stream_->own(ids), layer.padding.value_or(-1));
  }

 private:
  std::shared_ptr<ResidualStream> stream_;
};

// Returns the number of rows of the layer's weight on each rank.
std::vector<int64_t> counts_of(const Site& site) {
  std::vector<int64_t> counts;
  for (const Cut& cut : site.planned("weight").cuts) counts.push_back(cut.local().front());
  return counts;
}

}  // namespace

void install_embedding(Site& site, const plan::Attributes&) {
  if (!site.is_parallel()) return;
  site.set(site.layer<nn::Embedding>().operation,
           std::make_shared<StreamEmbedding>(parallel::stream_of(site)));
}

void install_embedding_vocab(Site& site, const plan::Attributes& attributes) {
  if (!site.splits_layers()) return install_embedding(site, attributes);
  site.set(site.layer<nn::Embedding>().operation,
           std::make_shared<VocabularyEmbedding>(Vocabulary(site.tensor(), counts_of(site)),
                                                 parallel::stream_of(site)));
}

void install_linear_vocab(Site& site, const plan::Attributes& attributes) {
  const bool own_positions = attributes.flag("split");
  if (!site.splits_layers() && !(site.splits_sequence() && own_positions)) return;
  const bool gathers = site.splits_layers() && !attributes.flag("parallel_output");
  site.set(site.layer<nn::Linear>().operation,
           std::make_shared<VocabularyLinear>(Vocabulary(site.tensor(), counts_of(site)), gathers,
                                              own_positions ? parallel::stream_of(site) : nullptr));
}

}  // namespace weft::operations
