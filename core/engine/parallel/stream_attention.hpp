// What both kinds of attention over a split sequence know of positions.
#pragma once

#include <ATen/ops/arange.h>

#include <memory>

#include "parallel/stream.hpp"
#include "weft/nn/operation.hpp"

namespace weft::parallel {

class StreamAttention : public nn::AttentionOperation {
 public:
  explicit StreamAttention(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  at::Tensor positions(const at::Tensor& given, const at::Tensor& like) const override {
    if (given.defined()) return stream_->own(given);
    return stream_->own(at::arange(stream_->length(), like.options().dtype(at::kLong)).unsqueeze(0));
  }

 protected:
  const Stream& stream() const { return *stream_; }

 private:
  const std::shared_ptr<Stream> stream_;
};

}  // namespace weft::parallel
