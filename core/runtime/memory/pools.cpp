#include "memory/pools.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "device/counting_allocator.hpp"
#include "device/tensors.hpp"
#include "memory/transfers.hpp"
#include "weft/error.hpp"

namespace weft::memory {

namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// Page-locked memory of a process without another device.
c10::DataPtr locked_pages(size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    fail(WEFT_RESOURCE_EXHAUSTED, "no memory for {} of pinned pages: {}",
         format_bytes(static_cast<int64_t>(bytes)), std::strerror(errno));
  struct Pages {
    void* data;
    size_t bytes;
  };
  const auto unmap = [](void* context) {
    const auto* const pages = static_cast<Pages*>(context);
    munmap(pages->data, pages->bytes);
    delete pages;
  };
  c10::DataPtr pages(data, new Pages{data, bytes}, unmap, c10::Device(device::kHost));
  if (mlock(data, bytes) == 0) return pages;
  fail(WEFT_RESOURCE_EXHAUSTED,
       "the system does not lock {} of memory: {}; raise the limit (`ulimit -l`) or do without pinned "
       "memory",
       format_bytes(static_cast<int64_t>(bytes)), std::strerror(errno));
}

// Allocates the memory of one pool. The header of a block is allocated apart from its data, because locked
// data begins on a page.
class PoolAllocator final : public c10::Allocator {
 public:
  explicit PoolAllocator(Pool pool, int64_t capacity = kNoLimit) : pool(pool), capacity(capacity) {}

  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, place()};
    const auto wanted = static_cast<int64_t>(bytes);
    take(wanted);
    c10::DataPtr memory;
    try {
      memory = memory_of(bytes);
    } catch (...) {
      used -= wanted;
      throw;
    }
    count(memory, wanted);
    void* const data = memory.get();
    return {data, new Block{this, std::move(memory), wanted}, &release, place()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    if (place().type() == device::kHost) return default_copy_data(to, from, bytes);
    c10::GetAllocator(place().type())->copy_data(to, from, bytes);
  }

  // Where its memory is.
  c10::Device place() const {
    return pool == Pool::kAccelerator ? device::current().place() : c10::Device(device::kHost);
  }

  const Pool pool;
  std::atomic<int64_t> capacity, used{0}, peak{0}, received{0};

 private:
  struct Block {
    PoolAllocator* allocator;
    c10::DataPtr memory;
    int64_t bytes;
  };

  static void count(const c10::DataPtr& memory, int64_t bytes) {
    if (memory.device().type() == device::kHost) count_pooled(bytes);
  }

  c10::DataPtr memory_of(size_t bytes) const {
    if (pool == Pool::kAccelerator) return device::allocate(bytes);
    if (pool == Pool::kHost) return device::allocate_on_host(bytes);
    return device::current().is_host() ? locked_pages(bytes) : device::allocate_pinned(bytes);
  }

  // Reserves bytes before they are allocated, so that several threads together never exceed the limit.
  void take(int64_t wanted) {
    int64_t now = used;
    do {
      if (wanted > capacity - now)
        fail(WEFT_RESOURCE_EXHAUSTED,
             "out of accelerator memory: {} wanted, but {} of {} are in use; offload more, use smaller "
             "chunks, buckets or units, or raise WEFT_ACCELERATOR_MEMORY",
             format_bytes(wanted), format_bytes(now), format_bytes(capacity));
    } while (!used.compare_exchange_weak(now, now + wanted));
    now += wanted;
    int64_t seen = peak;
    while (now > seen && !peak.compare_exchange_weak(seen, now)) {
    }
  }

  static void release(void* context) {
    if (context == nullptr) return;
    const auto* const block = static_cast<Block*>(context);
    block->allocator->used -= block->bytes;
    count(block->memory, -block->bytes);
    delete block;
  }
};

PoolAllocator& allocator_of(Pool pool) {
  // Never destroyed, because tensors may outlive main.
  static const std::array pools = [] {
    const int64_t capacity = device::memory_use().capacity.value_or(kNoLimit);
    return std::array{new PoolAllocator(Pool::kHost),
                      new PoolAllocator(Pool::kAccelerator, device::memory_limit().value_or(capacity)),
                      new PoolAllocator(Pool::kPinned)};
  }();
  return *pools.at(static_cast<size_t>(pool));
}

PoolAllocator* allocator_of(const at::Tensor& tensor) {
  return dynamic_cast<PoolAllocator*>(tensor.storage().allocator());
}

}  // namespace

PoolUse pool_use(Pool pool) {
  const PoolAllocator& allocator = allocator_of(pool);
  return {allocator.capacity, allocator.used, allocator.peak, allocator.received};
}

void reset_peak(Pool pool) {
  PoolAllocator& allocator = allocator_of(pool);
  allocator.peak = allocator.used.load();
}

void limit_accelerator(int64_t bytes) {
  PoolAllocator& accelerator = allocator_of(Pool::kAccelerator);
  const int64_t capacity = bytes > 0 ? bytes : kNoLimit;
  if (accelerator.used > capacity)
    fail(WEFT_RESOURCE_EXHAUSTED, "the accelerator's memory cannot be limited to {}: {} are in use",
         format_bytes(capacity), format_bytes(accelerator.used));
  accelerator.capacity = capacity;
}

at::Tensor allocate(Pool pool, int64_t elements, at::ScalarType dtype) {
  PoolAllocator& allocator = allocator_of(pool);
  const c10::DispatchKeySet keys(c10::computeDispatchKey(dtype, c10::Layout::Strided, allocator.place()));
  return at::detail::empty_generic({elements}, &allocator, keys, dtype, std::nullopt);
}

Pool pool_of(const at::Tensor& tensor) {
  const PoolAllocator* const allocator = allocator_of(tensor);
  return allocator != nullptr ? allocator->pool : Pool::kHost;
}

at::Tensor empty_like(const at::Tensor& like, at::ScalarType dtype) {
  if (allocator_of(like) == nullptr) return at::empty(like.sizes(), like.options().dtype(dtype));
  const Pool pool = pool_of(like) == Pool::kPinned ? Pool::kHost : pool_of(like);
  return allocate(pool, like.numel(), dtype).view(like.sizes());
}

void copy(const at::Tensor& to, const at::Tensor& from) {
  const Pool into = pool_of(to), out_of = pool_of(from);
  const bool up = into == Pool::kAccelerator, down = out_of == Pool::kAccelerator;
  const bool locked = into == Pool::kPinned || out_of == Pool::kPinned;
  if (up != down && locked && in_transfer())
    copy_beside(to, from);
  else
    at::Tensor(to).copy_(from);
  // Counted in the dtype of `to`: values are converted first. Only a blocking copy to the host converts
  // after.
  if (up != down) allocator_of(up ? Pool::kAccelerator : Pool::kHost).received += to.nbytes();
}

}  // namespace weft::memory
