#include "parallel/operations.hpp"

#include <ATen/ops/zeros.h>

#include <numeric>

#include "nn/embedding.hpp"
#include "nn/linear.hpp"
#include "parallel/node.hpp"
#include "parallel/region.hpp"
#include "parallel/vocabulary_loss.hpp"

namespace weft::parallel {

namespace {

class ColumnLinear final : public nn::LinearOperation {
 public:
  ColumnLinear(std::shared_ptr<RegionInput> input, std::vector<SharedFeatures> shared)
      : input_(std::move(input)), shared_(std::move(shared)) {}
  std::string id() const override { return "weft.linear_column/1"; }
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    const at::Tensor weight = complete(layer.weight, layer.layout == nn::Linear::Layout::kOutIn ? 0 : 1);
    const at::Tensor bias = complete(layer.bias, 0);
    return input_ ? input_->linear(x, weight, bias, layer.layout) : nn::linear(x, weight, bias, layer.layout);
  }

 private:
  // The parameter, whose features lie along `dim`, with a gradient to which all add that hold them.
  at::Tensor complete(const at::Tensor& parameter, int64_t dim) const {
    if (shared_.empty() || !parameter.defined()) return parameter;
    return with_gradient(parameter, parameter, [shared = shared_, dim](const at::Tensor& gradient) {
      // Autograd may hand the same gradient to others, so not over its memory.
      const at::Tensor sum = gradient.clone(at::MemoryFormat::Contiguous);
      for (const SharedFeatures& part : shared)
        part.ranks.all_reduce(sum.narrow(dim, part.begin, part.count)).wait();
      return sum;
    });
  }
  std::shared_ptr<RegionInput> input_;
  std::vector<SharedFeatures> shared_;
};

class RowLinear final : public nn::LinearOperation {
 public:
  explicit RowLinear(std::shared_ptr<ResidualStream> stream) : stream_(std::move(stream)) {}
  std::string id() const override { return "weft.linear_row/1"; }
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    const at::Tensor sum = stream_->leave_product(x, layer.weight, layer.layout);
    return layer.bias.defined() ? sum.add_(stream_->parameter(layer.bias)) : sum;
  }

 private:
  std::shared_ptr<ResidualStream> stream_;
};

// The classes of each rank.
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

class VocabularyLinear final : public nn::LinearOperation {
 public:
  VocabularyLinear(Vocabulary vocabulary, bool gathers, std::shared_ptr<ResidualStream> stream)
      : vocabulary_(std::move(vocabulary)), gathers_(gathers), stream_(std::move(stream)) {}
  std::string id() const override { return "weft.linear_vocab/1"; }
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    const at::Tensor logits = nn::linear(enter(x, vocabulary_.ranks), layer.weight, layer.bias, layer.layout);
    return gathers_ ? gather_last(logits, vocabulary_.counts, vocabulary_.ranks) : logits;
  }
  at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                               int64_t ignored) const override {
    if (stream_ == nullptr) return sum_of(logits, labels, ignored);
    return sum_of(logits, stream_->inside(labels).contiguous(), ignored) *
           static_cast<double>(stream_->times_counted());
  }

 private:
  at::Tensor sum_of(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored) const {
    if (gathers_ || vocabulary_.ranks.size() == 1) return nn::cross_entropy_sum(logits, labels, ignored);
    return vocabulary_cross_entropy_sum(logits, labels, ignored, vocabulary_.begin, vocabulary_.total,
                                        vocabulary_.ranks);
  }
  Vocabulary vocabulary_;
  bool gathers_;
  std::shared_ptr<ResidualStream> stream_;
};

class VocabularyEmbedding final : public nn::EmbeddingOperation {
 public:
  VocabularyEmbedding(Vocabulary vocabulary, std::shared_ptr<ResidualStream> stream)
      : vocabulary_(std::move(vocabulary)), stream_(std::move(stream)) {}
  std::string id() const override { return "weft.embedding_vocab/1"; }
  at::Tensor forward(const nn::Embedding& layer, const at::Tensor& ids) const override {
    nn::check_ids(ids, vocabulary_.total, "embedding");
    return stream_->leave(own_rows(layer, stream_->inside(ids).sub(vocabulary_.begin)));
  }

 private:
  // Zeros for ids of other ranks.
  at::Tensor own_rows(const nn::Embedding& layer, const at::Tensor& local) const {
    const at::Tensor& weight = layer.weight;
    if (vocabulary_.count == 0) {
      at::DimVector shape(local.sizes());
      shape.push_back(weight.size(1));
      // With a graph as on the other ranks, so that all of them take part in what backward sends.
      return at::zeros(shape, weight.options()).add_(weight.sum());
    }
    const at::Tensor others = local.lt(0).bitwise_or_(local.ge(vocabulary_.count));
    const int64_t padding = layer.padding.value_or(-1) - vocabulary_.begin;
    const bool pads_here = padding >= 0 && padding < vocabulary_.count;
    return nn::looked_up(weight, local.masked_fill(others, 0), pads_here ? padding : -1)
        .masked_fill(others.unsqueeze(-1), 0);
  }
  Vocabulary vocabulary_;
  std::shared_ptr<ResidualStream> stream_;
};

// A whole table, looked up for the positions that the stream has here.
class StreamEmbedding final : public nn::EmbeddingOperation {
 public:
  explicit StreamEmbedding(std::shared_ptr<ResidualStream> stream) : stream_(std::move(stream)) {}
  std::string id() const override { return "weft.embedding/1"; }
  at::Tensor forward(const nn::Embedding& layer, const at::Tensor& ids) const override {
    nn::check_ids(ids, layer.weight.size(0), "embedding");
    return nn::looked_up(stream_->parameter(layer.weight), stream_->own(ids), layer.padding.value_or(-1));
  }

 private:
  std::shared_ptr<ResidualStream> stream_;
};

class StreamNorm final : public nn::NormOperation {
 public:
  explicit StreamNorm(std::shared_ptr<ResidualStream> stream) : stream_(std::move(stream)) {}
  at::Tensor parameter(const at::Tensor& parameter) const override { return stream_->parameter(parameter); }

 private:
  std::shared_ptr<ResidualStream> stream_;
};

// A border where the model has none of its own.
class StreamBorder final : public nn::IdentityOperation {
 public:
  using Cross = at::Tensor (ResidualStream::*)(const at::Tensor&);
  StreamBorder(std::string id, std::shared_ptr<ResidualStream> stream, Cross cross)
      : id_(std::move(id)), stream_(std::move(stream)), cross_(cross) {}
  std::string id() const override { return id_; }
  at::Tensor forward(const at::Tensor& x) const override { return (*stream_.*cross_)(x); }

 private:
  const std::string id_;
  std::shared_ptr<ResidualStream> stream_;
  const Cross cross_;
};

}  // namespace

std::shared_ptr<nn::LinearOperation> column_linear(std::shared_ptr<RegionInput> input,
                                                   std::vector<SharedFeatures> shared) {
  return std::make_shared<ColumnLinear>(std::move(input), std::move(shared));
}

std::shared_ptr<nn::LinearOperation> row_linear(std::shared_ptr<ResidualStream> stream) {
  return std::make_shared<RowLinear>(std::move(stream));
}

std::shared_ptr<nn::LinearOperation> vocabulary_linear(Communicator ranks, std::vector<int64_t> counts,
                                                       bool gathers, std::shared_ptr<ResidualStream> stream) {
  return std::make_shared<VocabularyLinear>(Vocabulary(std::move(ranks), std::move(counts)), gathers,
                                            std::move(stream));
}

std::shared_ptr<nn::EmbeddingOperation> vocabulary_embedding(Communicator ranks, std::vector<int64_t> counts,
                                                             std::shared_ptr<ResidualStream> stream) {
  return std::make_shared<VocabularyEmbedding>(Vocabulary(std::move(ranks), std::move(counts)),
                                               std::move(stream));
}

std::shared_ptr<nn::EmbeddingOperation> stream_embedding(std::shared_ptr<ResidualStream> stream) {
  return std::make_shared<StreamEmbedding>(std::move(stream));
}

std::shared_ptr<nn::NormOperation> stream_norm(std::shared_ptr<ResidualStream> stream) {
  return std::make_shared<StreamNorm>(std::move(stream));
}

std::shared_ptr<nn::IdentityOperation> parallel_input(std::shared_ptr<ResidualStream> stream) {
  return std::make_shared<StreamBorder>("weft.parallel_input/1", std::move(stream), &ResidualStream::enter);
}

std::shared_ptr<nn::IdentityOperation> sequence_begin(std::shared_ptr<ResidualStream> stream) {
  return std::make_shared<StreamBorder>("weft.sequence_begin/1", std::move(stream), &ResidualStream::begin);
}

std::shared_ptr<nn::IdentityOperation> sequence_end(std::shared_ptr<ResidualStream> stream) {
  return std::make_shared<StreamBorder>("weft.sequence_end/1", std::move(stream), &ResidualStream::end);
}

}  // namespace weft::parallel
