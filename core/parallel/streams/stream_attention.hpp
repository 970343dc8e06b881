// The base of both kinds of attention over a split sequence.
#pragma once

#include <ATen/ops/arange.h>

#include <memory>

#include "streams/residual_stream.hpp"
#include "weft/nn/operation.hpp"

namespace weft::parallel {

// Takes the positions of the queries from their residual stream.
class StreamAttention : public nn::AttentionOperation {
 public:
  StreamAttention(std::shared_ptr<ResidualStream> stream, std::shared_ptr<ResidualStream> source)
      : stream_(std::move(stream)), source_(std::move(source)) {}
  at::Tensor positions(const at::Tensor& given, const at::Tensor& like) const override {
    if (given.defined()) return stream_->own(given);
    return stream_->own(at::arange(stream_->length(), like.options().dtype(at::kLong)).unsqueeze(0));
  }

 protected:
  const ResidualStream& stream() const { return *stream_; }
  const ResidualStream& source() const { return *source_; }

 private:
  const std::shared_ptr<ResidualStream> stream_, source_;
};

}  // namespace weft::parallel
