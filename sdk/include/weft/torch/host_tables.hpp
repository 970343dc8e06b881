// The host's tables, and conversions of the values that cross them, for strategies in C++. If a call of the
// host fails, check() throws its status; the text is already in the weft_error of the hook that is running.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "../error.hpp"
#include "../host.h"
#include "../strategy.h"
#include "dtypes.hpp"
#include "tensor.hpp"

namespace weft::plugin {
inline namespace v0 {

// The host's tables, which the plugin fetches once, and the weft_error of the call that is running.
struct HostTables {
  const weft_host* host = nullptr;
  const weft_model_services* model = nullptr;
  const weft_memory_services* memory = nullptr;
  const weft_comm_services* comm = nullptr;
  const weft_step_services* step = nullptr;
  const weft_publish_services* publish = nullptr;
  const weft_mesh_services* mesh = nullptr;
};
inline HostTables host;
inline thread_local weft_error* current_error = nullptr;

// Convert strings to and from the ABI. The weft_str borrows.
inline weft_str str(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string text(weft_str value) {
  return {value.data, value.size};
}

// Fetches the host's tables. Returns false if the host lacks one.
inline bool fetch_tables(const weft_host* table) {
  host.host = table;
  const auto fetch = [&](auto& out, const char* id) {
    out = static_cast<std::remove_reference_t<decltype(out)>>(table->get_extension(str(id)));
    return out != nullptr;
  };
  return fetch(host.model, WEFT_MODEL_SERVICES) && fetch(host.memory, WEFT_MEMORY_SERVICES) &&
         fetch(host.comm, WEFT_COMM_SERVICES) && fetch(host.step, WEFT_STEP_SERVICES) &&
         fetch(host.publish, WEFT_PUBLISH_SERVICES) && fetch(host.mesh, WEFT_MESH_SERVICES);
}

// Thrown when a host call failed: its text is in the sink already.
struct HostFailure {
  weft_status status;
};
inline void check(weft_status status) {
  if (status != WEFT_OK) throw HostFailure{status};
}

// Resizes the storage of a tensor and its views to `elements` of its dtype; 0 frees the memory. The sizes of
// the tensors do not change.
inline void resize_storage(const Tensor& tensor, int64_t elements) {
  check(host.memory->resize_storage(handle(tensor), elements, current_error));
}

}  // namespace v0
}  // namespace weft::plugin
