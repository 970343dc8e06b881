#include "evaluation/gathered_outputs.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "comm/agreement.hpp"
#include "device/tensors.hpp"
#include "mesh/mesh.hpp"
#include "weft/torch/dtypes.hpp"

namespace weft {

using nlohmann::json;

namespace {

// Gathers the rows of all ranks in order; a rank that is `empty` has none. Collective.
at::Tensor gather_rows(const at::Tensor& mine, bool empty, const World& world) {
  if (world.size() == 1) return mine;
  const Communicator& all = world.communicator();
  const at::Tensor counts = at::empty({world.size()}, at::kLong);
  all.all_gather(counts, at::full({1}, empty ? 0 : mine.size(0), at::kLong), true).wait();
  const std::vector<int64_t> rows = device::values_of<int64_t>(counts);
  const int64_t most = *std::max_element(rows.begin(), rows.end());
  std::vector<int64_t> shape = mine.sizes().vec();
  shape[0] = most;
  const at::Tensor padded = at::zeros(shape, mine.options());
  if (!empty) padded.narrow(0, 0, mine.size(0)).copy_(mine);
  shape[0] = most * world.size();
  const at::Tensor gathered = at::empty(shape, mine.options());
  all.all_gather(gathered, padded, true).wait();
  std::vector<at::Tensor> parts;
  parts.reserve(rows.size());
  for (int rank = 0; rank < world.size(); ++rank)
    parts.push_back(gathered.narrow(0, rank * most, rows[static_cast<size_t>(rank)]));
  return at::cat(parts);
}

// Adds placeholder outputs with the right names, dtypes and shapes if the outputs are on another pipeline
// stage, so that every rank can take part in the gather. Returns whether the outputs are this rank's.
// Collective.
bool complete_outputs(State& outputs, Bindings& bindings) {
  const bool own = !outputs.empty();
  if (!bindings.mesh().splits(Mesh::stages())) return own;
  const auto describe = [&] {
    json described = json::array();
    for (const auto& [name, tensor] : outputs)
      described.push_back({name, dtype_code(tensor.scalar_type()), tensor.sizes().vec()});
    return described.dump();
  };
  for (const std::string& text :
       gather_from_every_rank(bindings.comm(Mesh::stages())->communicator, describe))
    for (const json& output : json::parse(text))
      if (!own)
        outputs.set(output[0].get<std::string>(),
                    at::zeros(output[2].get<std::vector<int64_t>>(), scalar_type(output[1].get<uint32_t>())));
  return own;
}

}  // namespace

State gather_outputs(State outputs, const Batch& batch, Bindings& bindings) {
  const bool own = complete_outputs(outputs, bindings);
  const bool counts = own && !batch.empty && bindings.mesh().speaks_for(Fact::kOutputs);
  State gathered;
  for (const auto& [name, tensor] : outputs)
    gathered.set(name, gather_rows(device::on_host(tensor).contiguous(), !counts, bindings.world()));
  return gathered;
}

}  // namespace weft
