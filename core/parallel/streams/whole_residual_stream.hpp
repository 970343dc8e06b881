// The stream whose tensor-parallel ranks hold the same positions: all of them, or in derived streams those of
// the rank on a sequence axis.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "streams/residual_stream.hpp"

namespace weft::parallel {

class WholeResidualStream : public ResidualStream {
 public:
  explicit WholeResidualStream(const StreamSetting& setting, std::optional<Positions> positions = {});
  at::Tensor leave(const at::Tensor& partial) override;
  at::Tensor enter(const at::Tensor& x) override;
  std::shared_ptr<RegionInput> input(int64_t readers) override;
  at::Tensor parameter(const at::Tensor& parameter) override { return parameter; }

 private:
  const Communicator ranks_;
};

}  // namespace weft::parallel
