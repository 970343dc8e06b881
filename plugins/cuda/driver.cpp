#include "driver.hpp"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "nccl.hpp"
#include "operators.hpp"

namespace weft::cuda {

namespace {

// CUDA 13 has no code for older GPUs.
constexpr int kOldestMajor = 7, kOldestMinor = 5;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Returns the version of CUDA that the driver is for, or 0 if there is no driver.
int driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

// Returns the version of the driver's kernel module, such as "580.82.07", or nothing.
std::string module_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;)
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  return "";
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, index));
  return value;
}

std::string capability(int index) {
  return std::to_string(attribute(cudaDevAttrComputeCapabilityMajor, index)) + "." +
         std::to_string(attribute(cudaDevAttrComputeCapabilityMinor, index));
}

bool is_too_old(int index) {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, index);
  return major < kOldestMajor ||
         (major == kOldestMajor && attribute(cudaDevAttrComputeCapabilityMinor, index) < kOldestMinor);
}

std::string gigabytes(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

#ifdef WEFT_CUDA_KERNELS
// Returns whether every GPU can run the kernels of kernels/cuda, which are compiled for compute
// capability 8.0 and higher. Older ones use libtorch's operations.
bool runs_kernels(int count) {
  bool runs = count > 0;
  for (int index = 0; index < count; ++index)
    runs &= attribute(cudaDevAttrComputeCapabilityMajor, index) >= 8;
  return runs;
}
#endif

// Returns "NVIDIA H200, 139.8 GiB, compute capability 9.0, 132 multiprocessors, peer access to 1, 2".
std::string describe(int index, int count) {
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  std::string text = std::string(properties.name) + ", " + gigabytes(properties.totalGlobalMem) +
                     ", compute capability " + capability(index) + ", " +
                     std::to_string(properties.multiProcessorCount) + " multiprocessors";
  std::string peers;
  for (int other = 0; other < count; ++other) {
    int can = 0;
    if (other != index && cudaDeviceCanAccessPeer(&can, index, other) == cudaSuccess && can != 0)
      peers += (peers.empty() ? "" : ", ") + std::to_string(other);
  }
  if (count > 1) text += peers.empty() ? ", no peer access" : ", peer access to " + peers;
  return text;
}

std::string why_no_gpu(cudaError_t error, int driver, int runtime) {
  if (driver < runtime / 1000 * 1000)
    return "the NVIDIA driver is for CUDA " + version_text(driver) + ", but this library needs CUDA " +
           version_text(runtime) + "; install a newer driver";
  if (error == cudaErrorNoDevice)
    return "there is a driver for CUDA " + version_text(driver) +
           ", but it shows this process no GPU; set CUDA_VISIBLE_DEVICES to GPUs that `nvidia-smi -L` lists, "
           "or "
           "unset it";
  return std::string("the NVIDIA driver for CUDA ") + version_text(driver) +
         " cannot be used: " + cudaGetErrorString(error) + " (" + cudaGetErrorName(error) +
         "); `nvidia-smi` tells more";
}

}  // namespace

std::string missing() {
  const int driver = driver_version();
  if (driver == 0)
    return "there is no NVIDIA driver on this machine (libcuda.so.1 cannot be loaded); install the driver, "
           "or "
           "start the container with its GPUs";
  int runtime = 0, count = 0;
  cudaRuntimeGetVersion(&runtime);
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();  // clears it: whoever asks CUDA next must not get this one
    return why_no_gpu(error == cudaSuccess ? cudaErrorNoDevice : error, driver, runtime);
  }
  for (int index = 0; index < count; ++index)
    if (is_too_old(index))
      return "GPU " + std::to_string(index) + " has compute capability " + capability(index) +
             ", but CUDA 13 needs " + std::to_string(kOldestMajor) + "." + std::to_string(kOldestMinor) +
             "; leave it out of CUDA_VISIBLE_DEVICES";
  return "";
}

int count() {
  const int found = c10::cuda::device_count();
  // Allocator and generators are there from now on; no GPU gets a context by this.
  if (found > 0) at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
#ifdef WEFT_CUDA_KERNELS
  if (runs_kernels(found)) register_operators();
#endif
  return found;
}

void limit_memory(c10::DeviceIndex index, int64_t bytes) {
  cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  const double fraction = static_cast<double>(bytes) / static_cast<double>(properties.totalGlobalMem);
  c10::cuda::CUDACachingAllocator::setMemoryFraction(std::min(fraction, 1.0), index);
}

std::string allow_tf32(c10::DeviceIndex index) {
  if (attribute(cudaDevAttrComputeCapabilityMajor, index) < 8)
    return "GPU " + std::to_string(index) + " has compute capability " + capability(index) +
           ", but TF32 needs 8.0";
  at::globalContext().setAllowTF32CuBLAS(true);
  return "";
}

std::vector<std::pair<std::string, std::string>> facts() {
  const int driver = driver_version();
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  const std::string module = module_version();
  std::vector<std::pair<std::string, std::string>> list = {
      {"cuda_driver",
       driver == 0 ? "none" : "CUDA " + version_text(driver) + (module.empty() ? "" : ", driver " + module)},
      {"cuda_runtime", "CUDA " + version_text(runtime)},
      {"nccl", nccl_version()}};
  if (!missing().empty()) return list;
  const int number = count();
#ifdef WEFT_CUDA_KERNELS
  list.emplace_back("cuda_kernels", runs_kernels(number) ? "Weft's and libtorch's"
                                                         : "libtorch's; Weft's need compute capability 8.0");
#else
  list.emplace_back("cuda_kernels", "libtorch's; Weft's need nvcc of CUDA 13.0 when Weft is built");
#endif
  for (int index = 0; index < number; ++index)
    list.emplace_back("gpu_" + std::to_string(index), describe(index, number));
  return list;
}

// Not by libtorch's allocator for page-locked memory: it takes the next power of two, and keeps what is
// freed.
c10::DataPtr allocate_pinned(size_t bytes) {
  void* data = nullptr;
  if (cudaHostAlloc(&data, bytes, cudaHostAllocDefault) != cudaSuccess) {
    cudaGetLastError();  // clears it: whoever asks CUDA next must not get this one
    return {};
  }
  const auto release = [](void* pages) {
    if (cudaFreeHost(pages) != cudaSuccess) cudaGetLastError();  // the process ends
  };
  return {data, data, release, c10::Device(c10::kCPU)};
}

}  // namespace weft::cuda
