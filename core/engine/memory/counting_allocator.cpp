#include "memory/counting_allocator.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>

namespace weft {

namespace {

std::atomic<int64_t> current{0}, peak{0};

struct Allocation {
  void* data;
  int64_t bytes;
};

void release(void* context) {
  auto* const allocation = static_cast<Allocation*>(context);
  current -= allocation->bytes;
  c10::free_cpu(allocation->data);
  delete allocation;
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const data = c10::alloc_cpu(bytes);
    const int64_t now = current += static_cast<int64_t>(bytes);
    int64_t seen = peak;
    while (now > seen && !peak.compare_exchange_weak(seen, now)) {
    }
    return {data, new Allocation{data, static_cast<int64_t>(bytes)}, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

void count_memory() {
  static CountingAllocator* const allocator = [] {
    auto* const made = new CountingAllocator;  // never destroyed: tensors outlive main
    c10::SetCPUAllocator(made, 100);
    return made;
  }();
  (void)allocator;
}

int64_t allocated_bytes() { return current; }
int64_t peak_allocated_bytes() { return peak; }
void reset_peak_allocated_bytes() { peak = current.load(); }

}  // namespace weft
