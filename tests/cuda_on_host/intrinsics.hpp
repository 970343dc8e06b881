// CUDA's functions for kernels. Included by cuda_on_host.hpp. What is not here does not compile on the host:
// among others __activemask, __match_*, cooperative groups, inline PTX, and functions of half precision.
#pragma once

#include <atomic>
#include <bit>

namespace on_host {

template <class T>
uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T>
T from_bits(uint64_t bits) {
  T value;
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}

// The caller's own value if `source` lies outside of its segment of `width` lanes.
template <class T>
T shuffle(uint32_t mask, T value, int source, int width, Site site) {
  const int lane = lane_id(), first = lane & ~(width - 1);
  if (source < first || source >= first + width) source = lane;
  return from_bits<T>(meet_warp(Collective::kShuffle, mask, to_bits(value), source, site));
}

inline uint32_t ballot(uint32_t mask, bool predicate, Site site) {
  return static_cast<uint32_t>(meet_warp(Collective::kBallot, mask, predicate, 0, site));
}

}  // namespace on_host

// `file` and `line` are those of the call.
#define WEFT_ON_HOST_CALL const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(WEFT_ON_HOST_CALL) {
  on_host::meet_block({file, line});
}
inline void __syncwarp(uint32_t mask = ~0u, WEFT_ON_HOST_CALL) {
  on_host::meet_warp(on_host::Collective::kSyncWarp, mask, 0, 0, {file, line});
}
template <class T>
T __shfl_sync(uint32_t mask, T value, int source, int width = 32, WEFT_ON_HOST_CALL) {
  const int first = on_host::lane_id() & ~(width - 1);
  return on_host::shuffle(mask, value, first + (source & (width - 1)), width, {file, line});
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int lanes, int width = 32, WEFT_ON_HOST_CALL) {
  return on_host::shuffle(mask, value, on_host::lane_id() ^ lanes, width, {file, line});
}
template <class T>
T __shfl_down_sync(uint32_t mask, T value, unsigned delta, int width = 32, WEFT_ON_HOST_CALL) {
  return on_host::shuffle(mask, value, on_host::lane_id() + static_cast<int>(delta), width, {file, line});
}
template <class T>
T __shfl_up_sync(uint32_t mask, T value, unsigned delta, int width = 32, WEFT_ON_HOST_CALL) {
  return on_host::shuffle(mask, value, on_host::lane_id() - static_cast<int>(delta), width, {file, line});
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate, WEFT_ON_HOST_CALL) {
  return on_host::ballot(mask, predicate != 0, {file, line});
}
inline int __any_sync(uint32_t mask, int predicate, WEFT_ON_HOST_CALL) {
  return on_host::ballot(mask, predicate != 0, {file, line}) != 0;
}
inline int __all_sync(uint32_t mask, int predicate, WEFT_ON_HOST_CALL) {
  return on_host::ballot(mask, predicate == 0, {file, line}) == 0;
}
#undef WEFT_ON_HOST_CALL

// Atomic for ThreadSanitizer, which tells them from plain accesses.
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).exchange(value, std::memory_order_relaxed);
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(expected, value, std::memory_order_relaxed);
  return expected;
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  std::atomic_ref<T> target(*address);
  T old = target.load(std::memory_order_relaxed);
  while (old < value && !target.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
  }
  return old;
}

inline int __popc(uint32_t bits) {
  return std::popcount(bits);
}
inline int __ffs(int bits) {
  return __builtin_ffs(bits);
}
