// A host of one process for the kit: parameters of a model without layers, pools, and groups whose ranks are
// all alike, so that a sum over `size` ranks is `size` times this rank's value.
#pragma once

#include <ATen/core/Tensor.h>
#include <weft/strategy.h>

#include <string>
#include <vector>

struct weft_param {
  std::string name;
  int64_t count = 0;
  std::vector<uint32_t> units;
  bool frozen = false;
  uint32_t index = 0;
  at::Tensor tensor;
  uint32_t more_gradient_axes = 0;  // in addition to those of "samples"
};
struct weft_unit {
  uint32_t index = 0;
};
struct weft_comm {
  uint32_t rank = 0, size = 1;
};
struct weft_training {
  std::vector<weft_param> params;
  std::vector<weft_unit> units;
  std::vector<at::Tensor> buffers;
  weft_comm data, replicas, tensor, alone;  // by axis: data, replica, tensor, none
};
struct weft_shard_sink {
  struct Record {
    weft_param* param;
    int64_t begin;
    at::Tensor value, gradient;
    uint32_t axes;
  };
  std::vector<Record> records;
};

namespace weft::test {

// The axes of its mesh.
namespace axis {
enum : uint32_t { kData, kReplica, kStages, kTensor, kExperts, kTensorRow };
}  // namespace axis

// The value that the host gives element `index` of a parameter.
float initial_value(const weft_param& param, int64_t index);

// Fetches the tables of this host for the kit. Once.
void use_fake_host();

// The collectives that were started since the last call: "all_reduce 12", with the elements of the input.
std::vector<std::string> take_collectives();

// Parameters of these sizes, each in a unit of its own, on rank `rank` of `ranks`.
weft_training model_of(const std::vector<int64_t>& sizes, uint32_t rank, uint32_t ranks);

}  // namespace weft::test
