// The memory of the simulated devices, and pinned memory of the host.
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "sim/state.hpp"

namespace weft::sim {

namespace {

constexpr size_t kGranularity = 512;
constexpr auto kAllocated = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

Block* find(const std::map<const char*, Block*>& blocks, const void* address) {
  auto after = blocks.upper_bound(static_cast<const char*>(address));
  if (after == blocks.begin()) return nullptr;
  Block* const block = std::prev(after)->second;
  return address < block->data + block->bytes ? block : nullptr;
}

void wait_for(std::vector<Unfinished> works) {
  for (const Unfinished& work : works) work.done.wait();
}

// Gives the pages of the system that hold nothing but this block back to it.
void give_back_pages(const Block& block) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto data = reinterpret_cast<uintptr_t>(backing_of(block.data));
  const uintptr_t begin = (data + page - 1) / page * page, end = (data + block.bytes) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

void free_block(void* context) {
  Block* const block = static_cast<Block*>(context);
  State& all = state();
  std::vector<Unfinished> works;
  {
    const Lock lock(all.mutex);
    works = std::exchange(block->unfinished, {});
  }
  wait_for(std::move(works));  // a real device would not: it only protects this process
  const Lock lock(all.mutex);
  check_free(*block);
  block->in_use = false;
  if (block->bytes >= size_t{1} << 20) give_back_pages(*block);
  DeviceState& device = state_of(block->device);
  if (block->recorded.empty()) return make_free(block);
  block->release = device.streams[block->home].seen;
  for (const int stream : block->recorded) block->release.join(device.streams[stream].seen);
  block->recorded.clear();
  device.deferred.push_back(block);
}

// Frees what record_stream keeps, as a real allocator does: by waiting for its streams.
void take_back_deferred(c10::DeviceIndex index) {
  DeviceState& device = state_of(index);
  Timeline done;
  for (const Block* block : device.deferred) done.seen.join(block->release);
  count_wait(device.count);
  host_reached(index, done);
}

Block* new_block(c10::DeviceIndex index, int home, size_t bytes) {
  State& all = state();
  TORCH_CHECK_WITH(OutOfMemoryError, all.used + bytes <= kSpan, "sim: the ", kSpan,
                   " bytes of addresses are used up");
  auto* const block = new Block;
  block->data = all.addresses + all.used;
  block->bytes = bytes;
  block->device = index;
  block->home = home;
  all.used += bytes;
  all.blocks.emplace(block->data, block);
  return block;
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    const c10::DeviceIndex index = place().device;
    if (size == 0) return {nullptr, device(index)};
    const size_t bytes = (size + kGranularity - 1) / kGranularity * kGranularity;
    const Lock lock(state().mutex);
    DeviceState& here = state_of(index);
    Counters& count = here.count;
    const auto fits = [&] { return count.bytes_in_use + static_cast<int64_t>(bytes) <= here.capacity; };
    if (!fits() && !here.deferred.empty()) take_back_deferred(index);
    TORCH_CHECK_WITH(OutOfMemoryError, fits(), "sim: out of memory: ", bytes,
                     " bytes asked of sim:", static_cast<int>(index), ", which has ", count.bytes_in_use,
                     " of ", here.capacity, " in use");
    const int home = static_cast<int>(place().streams[index]);
    std::vector<Block*>& free = here.free[{home, bytes}];
    Block* block = nullptr;
    if (free.empty()) {
      block = new_block(index, home, bytes);
    } else {
      block = free.back();
      free.pop_back();
    }
    block->in_use = true;
    // Other streams must wait for this one: with other sizes, the memory might have been in use on it.
    block->log = {{0, size, true, index, home, here.streams[home].seen.ticks[home], "its allocation"}};
    std::memset(backing_of(block->data), 0xFF, bytes);  // NaN: nobody may rely on fresh memory
    count.bytes_in_use += static_cast<int64_t>(bytes);
    count.peak_bytes = std::max(count.peak_bytes, count.bytes_in_use);
    return {block->data, block, &free_block, device(index)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(backing_of(to), backing_of(from), bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    const Lock lock(state().mutex);
    Block* const block = find(state().blocks, pointer.get());
    if (block != nullptr && number_of(stream) != block->home) block->recorded.insert(number_of(stream));
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const Counters count = counters(index);
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[kAllocated].current = count.bytes_in_use;
    stats.allocated_bytes[kAllocated].peak = count.peak_bytes;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex index) override {
    const Lock lock(state().mutex);
    Counters& count = state_of(index).count;
    count.peak_bytes = count.bytes_in_use;
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const Lock lock(state().mutex);
    const DeviceState& here = state_of(index);
    return {static_cast<size_t>(here.capacity - here.count.bytes_in_use), static_cast<size_t>(here.capacity)};
  }
};

// Pinned memory. Copies to and from it are logged like accesses of the device.
class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    auto* const block = new Block;
    block->bytes = std::max<size_t>(size, 1);
    block->data = static_cast<char*>(std::malloc(block->bytes));
    const Lock lock(state().mutex);
    state().pinned.emplace(block->data, block);
    return {block->data, block, &release, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  static void release(void* context) {
    Block* const block = static_cast<Block*>(context);
    const Lock lock(state().mutex);
    state().pinned.erase(block->data);
    std::free(block->data);
    delete block;
  }
};

}  // namespace

c10::Allocator* pinned_allocator() {
  static auto* const allocator = new PinnedAllocator;
  return allocator;
}

void make_free(Block* block) {
  DeviceState& device = state_of(block->device);
  device.count.bytes_in_use -= static_cast<int64_t>(block->bytes);
  device.free[{block->home, block->bytes}].push_back(block);
}

Block* block_of(const at::Tensor& tensor) {
  const void* const address = tensor.storage().data_ptr().get();
  return address == nullptr ? nullptr : find(is_on_device(tensor) ? state().blocks : state().pinned, address);
}

bool is_pinned(const void* pointer) {
  const Lock lock(state().mutex);
  return find(state().pinned, pointer) != nullptr;
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
  const c10::DeviceGuard guard(storage.device());
  c10::Allocator* const allocator = c10::GetAllocator(c10::kPrivateUse1);
  c10::DataPtr made = allocator->allocate(bytes);
  if (const size_t kept = std::min(bytes, impl->nbytes()); kept > 0)
    allocator->copy_data(made.get(), impl->data_ptr().get(), kept);
  impl->set_data_ptr_noswap(std::move(made));
  impl->set_nbytes(bytes);
}

Counters counters(c10::DeviceIndex index) {
  const Lock lock(state().mutex);
  return state_of(index).count;
}

void reset_counters(c10::DeviceIndex index) {
  const Lock lock(state().mutex);
  Counters& count = state_of(index).count;
  const int64_t in_use = count.bytes_in_use;
  count = {};
  count.bytes_in_use = count.peak_bytes = in_use;
}

void set_capacity(c10::DeviceIndex index, int64_t bytes) {
  TORCH_CHECK(bytes >= 0, "sim: the capacity is ", bytes, " bytes, must be at least 0");
  const Lock lock(state().mutex);
  state_of(index).capacity = bytes;
}

void register_memory() {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const addresses = mmap(nullptr, kSpan, PROT_NONE, kFlags, -1, 0);
  void* const backing = mmap(nullptr, kSpan, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  TORCH_CHECK(addresses != MAP_FAILED && backing != MAP_FAILED, "sim: cannot reserve ", kSpan,
              " bytes of addresses: ", std::strerror(errno));
  state().addresses = static_cast<char*>(addresses);
  state().backing = static_cast<char*>(backing);
  c10::SetAllocator(c10::kPrivateUse1, new Allocator);
}

}  // namespace weft::sim
