// What hosts share that use libtorch's stable ABI alone, like the plugins that they load, so that both run
// under any libtorch.
#pragma once

#include <dlfcn.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <weft/comm.h>
#include <weft/plugin.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace weft::test {

using torch::stable::Tensor;

inline Tensor share(const weft_at_tensor* handle) {
  AtenTensorHandle own = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_new_tensor_handle(
      reinterpret_cast<AtenTensorHandle>(const_cast<weft_at_tensor*>(handle)), &own));
  return Tensor(own);
}
inline weft_at_tensor* handle(const Tensor& tensor) {
  return reinterpret_cast<weft_at_tensor*>(tensor.get());
}
inline float* floats(const Tensor& tensor) {
  return static_cast<float*>(tensor.data_ptr());
}
inline weft_str text(const char* value) {
  return {value, std::strlen(value)};
}
inline bool is(weft_str a, const char* b) {
  return a.size == std::strlen(b) && std::memcmp(a.data, b, a.size) == 0;
}

[[noreturn]] inline void fail(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::exit(1);
}
inline void check(weft_status status, const char* what) {
  if (status != WEFT_OK) fail(std::string(what) + " failed");
}

// Returns the version of libtorch in this process, and ends it if `wanted` is another one.
inline std::string require_libtorch(const std::string& wanted) {
  const uint64_t version = aoti_torch_abi_version();
  std::string found = std::to_string(version >> 56) + "." + std::to_string(version >> 48 & 255);
  if (found != wanted) fail("this process has libtorch " + found + ", wanted is " + wanted);
  return found;
}

// Loads a library of tier stable, and returns its factory of this id.
template <class Factory>
const Factory& load(const char* library, const char* factory_id, const void* (*extension)(weft_str id)) {
  void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) fail(dlerror());
  const auto query = reinterpret_cast<weft_plugin_query_fn>(dlsym(opened, WEFT_QUERY_SYMBOL));
  static weft_host host = {};
  host.struct_size = sizeof(host);
  host.error_set = [](weft_error*, weft_status status, weft_str what) {
    std::printf("error %d: %.*s\n", status, static_cast<int>(what.size), what.data);
  };
  host.log = [](uint32_t, weft_str, weft_str) {};
  host.get_extension = extension;
  weft_query_request request = {};
  request.struct_size = sizeof(request);
  request.abi_major = WEFT_ABI_MAJOR;
  request.abi_minor_min = request.abi_minor_max = WEFT_ABI_MINOR;
  request.host = &host;
  weft_query_reply reply = {};
  reply.struct_size = sizeof(reply);
  if (query == nullptr || query(&request, &reply, nullptr) != WEFT_OK) fail("the query failed");
  if (reply.tier != WEFT_TIER_STABLE) fail("the library is not of tier stable");
  const void* const factory = reply.plugin->get_factory(reply.plugin, text(factory_id));
  if (factory == nullptr) fail("the library has no factory of this kind");
  return *static_cast<const Factory*>(factory);
}

}  // namespace weft::test
