#include "device/counting_allocator.hpp"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>

#include "device/device.hpp"

namespace weft {

namespace {

struct Meter {
  std::atomic<int64_t> current{0}, peak{0};

  void add(int64_t bytes) {
    const int64_t now = current += bytes;
    int64_t seen = peak;
    while (now > seen && !peak.compare_exchange_weak(seen, now)) {
    }
  }
  void reset_peak() { peak = current.load(); }
};
Meter allocated, unpooled;

// Stands before the data. It is found by the address of the data, because callers of raw_allocate need data
// and context to be one pointer.
struct Header {
  int64_t bytes;
};
constexpr size_t kHeaderBytes = 64;  // so that the data stays aligned to 64 bytes
static_assert(sizeof(Header) <= kHeaderBytes);

void release(void* data) {
  if (data == nullptr) return;
  char* const begin = static_cast<char*>(data) - kHeaderBytes;
  const int64_t bytes = reinterpret_cast<const Header*>(begin)->bytes;
  allocated.add(-bytes);
  unpooled.add(-bytes);
  c10::free_cpu(begin);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(device::kHost)};
    char* const begin = static_cast<char*>(c10::alloc_cpu(bytes + kHeaderBytes));
    *reinterpret_cast<Header*>(begin) = {static_cast<int64_t>(bytes)};
    allocated.add(static_cast<int64_t>(bytes));
    unpooled.add(static_cast<int64_t>(bytes));
    char* const data = begin + kHeaderBytes;
    return {data, data, &release, c10::Device(device::kHost)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void count_memory() {
  static CountingAllocator* const allocator = [] {
    auto* const made = new CountingAllocator;  // never destroyed, because tensors may outlive main
    c10::SetCPUAllocator(made, 100);
    return made;
  }();
  (void)allocator;
}

int64_t allocated_bytes() {
  return allocated.current;
}
int64_t peak_allocated_bytes() {
  return allocated.peak;
}
void reset_peak_allocated_bytes() {
  allocated.reset_peak();
}

int64_t unpooled_bytes() {
  return unpooled.current;
}
int64_t peak_unpooled_bytes() {
  return unpooled.peak;
}
void reset_peak_unpooled_bytes() {
  unpooled.reset_peak();
}

void count_pooled(int64_t bytes) {
  allocated.add(bytes);
}

}  // namespace weft
