#include "parallel/operations.hpp"

#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>

#include <numeric>

#include "nn/linear.hpp"
#include "parallel/vocabulary_loss.hpp"

namespace weft::parallel {

namespace {

class ColumnLinear final : public nn::LinearOperation {
 public:
  ColumnLinear(std::shared_ptr<SharedInput> input, Communicator sharers)
      : input_(std::move(input)), sharers_(std::move(sharers)) {}
  std::string id() const override { return "weft.linear_column/1"; }
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    const at::Tensor inside = input_ ? input_->enter(x) : x;
    return nn::linear(inside, shared(layer.weight), shared(layer.bias), layer.layout);
  }

 private:
  at::Tensor shared(const at::Tensor& parameter) const {
    return sharers_ && parameter.defined() ? enter(parameter, sharers_) : parameter;
  }
  std::shared_ptr<SharedInput> input_;
  Communicator sharers_;
};

// The same where the input is split along the sequence.
class SequenceColumnLinear final : public nn::LinearOperation {
 public:
  SequenceColumnLinear(std::shared_ptr<GatheredInput> input, Communicator sharers)
      : input_(std::move(input)), sharers_(std::move(sharers)) {}
  std::string id() const override { return "weft.linear_column/1"; }
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    const auto shared = [&](const at::Tensor& parameter) {
      return sharers_ && parameter.defined() ? enter(parameter, sharers_) : parameter;
    };
    return input_->linear(x, shared(layer.weight), shared(layer.bias), layer.layout);
  }

 private:
  std::shared_ptr<GatheredInput> input_;
  Communicator sharers_;
};

class SequenceRowLinear final : public nn::LinearOperation {
 public:
  explicit SequenceRowLinear(Communicator ranks) : ranks_(std::move(ranks)) {}
  std::string id() const override { return "weft.linear_row/1"; }
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    const at::Tensor sum = scatter_sum(nn::linear(x, layer.weight, {}, layer.layout), ranks_);
    // Each rank adds it to its own positions.
    return layer.bias.defined() ? sum + enter(layer.bias, ranks_) : sum;
  }

 private:
  Communicator ranks_;
};

class RowLinear final : public nn::LinearOperation {
 public:
  explicit RowLinear(Communicator ranks) : ranks_(std::move(ranks)) {}
  std::string id() const override { return "weft.linear_row/1"; }
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    const at::Tensor sum = leave(nn::linear(x, layer.weight, {}, layer.layout), ranks_);
    return layer.bias.defined() ? sum.add_(layer.bias) : sum;
  }

 private:
  Communicator ranks_;
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
  VocabularyLinear(Vocabulary vocabulary, bool gathers)
      : vocabulary_(std::move(vocabulary)), gathers_(gathers) {}
  std::string id() const override { return "weft.linear_vocab/1"; }
  at::Tensor forward(const nn::Linear& layer, const at::Tensor& x) const override {
    const at::Tensor logits = nn::linear(enter(x, vocabulary_.ranks), layer.weight, layer.bias, layer.layout);
    return gathers_ ? gather_last(logits, vocabulary_.counts, vocabulary_.ranks) : logits;
  }
  at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels,
                               int64_t ignored) const override {
    if (gathers_) return nn::cross_entropy_sum(logits, labels, ignored);
    return vocabulary_cross_entropy_sum(logits, labels, ignored, vocabulary_.begin, vocabulary_.total,
                                        vocabulary_.ranks);
  }

 private:
  Vocabulary vocabulary_;
  bool gathers_;
};

class VocabularyEmbedding final : public nn::EmbeddingOperation {
 public:
  VocabularyEmbedding(Vocabulary vocabulary, std::shared_ptr<SequenceSplit> split)
      : vocabulary_(std::move(vocabulary)), split_(std::move(split)) {}
  std::string id() const override { return "weft.embedding_vocab/1"; }
  at::Tensor forward(const nn::Embedding& layer, const at::Tensor& ids) const override {
    nn::check_ids(ids, vocabulary_.total, "embedding");
    const at::Tensor rows = own_rows(layer, ids.sub(vocabulary_.begin));
    if (split_ == nullptr) return leave(rows, vocabulary_.ranks);
    split_->total = ids.size(1);
    return scatter_sum(rows, vocabulary_.ranks);
  }

 private:
  // Zeros for ids of other ranks.
  at::Tensor own_rows(const nn::Embedding& layer, const at::Tensor& local) const {
    const at::Tensor& weight = layer.weight;
    if (vocabulary_.count == 0) {
      at::DimVector shape(local.sizes());
      shape.push_back(weight.size(1));
      return at::zeros(shape, weight.options());
    }
    const at::Tensor others = local.lt(0).logical_or_(local.ge(vocabulary_.count));
    const int64_t padding = layer.padding.value_or(-1) - vocabulary_.begin;
    const bool pads_here = padding >= 0 && padding < vocabulary_.count;
    return at::embedding(weight, local.masked_fill(others, 0), pads_here ? padding : -1)
        .masked_fill(others.unsqueeze(-1), 0);
  }
  Vocabulary vocabulary_;
  std::shared_ptr<SequenceSplit> split_;
};

// A whole table, looked up for this rank's positions of the sequence.
class PositionEmbedding final : public nn::EmbeddingOperation {
 public:
  explicit PositionEmbedding(Communicator ranks) : ranks_(std::move(ranks)) {}
  std::string id() const override { return "weft.embedding/1"; }
  at::Tensor forward(const nn::Embedding& layer, const at::Tensor& ids) const override {
    nn::check_ids(ids, layer.weight.size(0), "embedding");
    return at::embedding(enter(layer.weight, ranks_), own_positions(ids, ranks_));
  }

 private:
  Communicator ranks_;
};

// Weights that every rank applies to its own positions.
class SequenceNorm final : public nn::NormOperation {
 public:
  explicit SequenceNorm(Communicator ranks) : ranks_(std::move(ranks)) {}
  at::Tensor parameter(const at::Tensor& parameter) const override { return enter(parameter, ranks_); }

 private:
  Communicator ranks_;
};

class SequenceEnd final : public nn::IdentityOperation {
 public:
  explicit SequenceEnd(std::shared_ptr<const SequenceSplit> split) : split_(std::move(split)) {}
  std::string id() const override { return "weft.sequence_end/1"; }
  at::Tensor forward(const at::Tensor& x) const override { return gather_positions(x, *split_); }

 private:
  std::shared_ptr<const SequenceSplit> split_;
};

class ParallelInput final : public nn::IdentityOperation {
 public:
  ParallelInput(Communicator ranks, std::shared_ptr<const SequenceSplit> split)
      : ranks_(std::move(ranks)), split_(std::move(split)) {}
  std::string id() const override { return "weft.parallel_input/1"; }
  at::Tensor forward(const at::Tensor& x) const override {
    return split_ ? gather_into_region(x, *split_) : enter(x, ranks_);
  }

 private:
  Communicator ranks_;
  std::shared_ptr<const SequenceSplit> split_;
};

}  // namespace

std::shared_ptr<nn::LinearOperation> column_linear(std::shared_ptr<SharedInput> input, Communicator sharers) {
  return std::make_shared<ColumnLinear>(std::move(input), std::move(sharers));
}

std::shared_ptr<nn::LinearOperation> row_linear(Communicator ranks) {
  return std::make_shared<RowLinear>(std::move(ranks));
}

std::shared_ptr<nn::LinearOperation> vocabulary_linear(Communicator ranks, std::vector<int64_t> counts,
                                                       bool gathers) {
  return std::make_shared<VocabularyLinear>(Vocabulary(std::move(ranks), std::move(counts)), gathers);
}

std::shared_ptr<nn::IdentityOperation> parallel_input(Communicator ranks,
                                                      std::shared_ptr<const SequenceSplit> split) {
  return std::make_shared<ParallelInput>(std::move(ranks), std::move(split));
}

std::shared_ptr<nn::EmbeddingOperation> vocabulary_embedding(Communicator ranks, std::vector<int64_t> counts,
                                                             std::shared_ptr<SequenceSplit> split) {
  return std::make_shared<VocabularyEmbedding>(Vocabulary(std::move(ranks), std::move(counts)),
                                               std::move(split));
}

std::shared_ptr<nn::LinearOperation> sequence_column_linear(std::shared_ptr<GatheredInput> input,
                                                            Communicator sharers) {
  return std::make_shared<SequenceColumnLinear>(std::move(input), std::move(sharers));
}

std::shared_ptr<nn::LinearOperation> sequence_row_linear(Communicator ranks) {
  return std::make_shared<SequenceRowLinear>(std::move(ranks));
}

std::shared_ptr<nn::EmbeddingOperation> position_embedding(Communicator ranks) {
  return std::make_shared<PositionEmbedding>(std::move(ranks));
}

std::shared_ptr<nn::NormOperation> sequence_norm(Communicator ranks) {
  return std::make_shared<SequenceNorm>(std::move(ranks));
}

std::shared_ptr<nn::IdentityOperation> sequence_end(std::shared_ptr<const SequenceSplit> split) {
  return std::make_shared<SequenceEnd>(std::move(split));
}

}  // namespace weft::parallel
