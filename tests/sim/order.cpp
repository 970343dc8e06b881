// The order of work: vector clocks of streams and of the host, and what they prove about accesses.
#include <chrono>
#include <cstring>

#include "sim/state.hpp"

namespace weft::sim {

namespace {

BeforeWork before_work = nullptr;

// A host that has waited for an access cannot overtake it either.
bool is_ordered(const Entry& old, const DeviceState& device, int stream) {
  return old.tick <= device.streams[stream].seen.ticks[old.stream] ||
         old.tick <= device.host.seen.ticks[old.stream];
}

void check_order(Block& block, const Entry& now, std::set<std::string>& reported) {
  const DeviceState& device = state_of(now.device);
  for (const Entry& old : block.log) {
    if (old.device != now.device || !old.meets(now) || is_ordered(old, device, now.stream)) continue;
    const std::string earlier = old.what + " on " + name_of(old.device, old.stream);
    if (!reported.insert(earlier).second) continue;  // one line for what is read and written
    report(now.what + (now.write ? " writes on " : " reads on ") + name_of(now.device, now.stream) +
           " without waiting for " + earlier + (old.write ? ", which writes it" : ", which reads it"));
  }
  std::erase_if(block.log, [&](const Entry& old) {
    return now.begin <= old.begin && old.end <= now.end && (now.write || !old.write) &&
           old.device == now.device && is_ordered(old, device, now.stream);
  });
  block.log.push_back(now);
}

// Does what the end of the copy does: the host's memory has the values, or must still have had them.
void end_copy(const Copy& copy) {
  char* const host = static_cast<char*>(copy.pinned.data_ptr());
  const void* const data = copy.data.const_data_ptr();
  if (copy.to_host)
    std::memcpy(host, data, copy.data.nbytes());
  else if (std::memcmp(host, data, copy.data.nbytes()) != 0)
    report("the host changed pinned memory while a copy to the device could still read it");
}

bool share_bytes(const at::Tensor& a, const at::Tensor& b) {
  const auto* const first = static_cast<const char*>(a.const_data_ptr());
  const auto* const second = static_cast<const char*>(b.const_data_ptr());
  return first < second + b.nbytes() && second < first + a.nbytes();
}

// Ends the copies that meet `pinned`: work of the device that comes after them sees what they did.
void end_copies_of(const at::Tensor& pinned, DeviceState& device) {
  for (const Copy& copy : device.copies)
    if (share_bytes(copy.pinned, pinned)) end_copy(copy);
  std::erase_if(device.copies, [&](const Copy& copy) { return share_bytes(copy.pinned, pinned); });
}

Entry entry_of(const Access& access, const Block& block, const std::string& what, c10::Stream stream,
               uint64_t tick) {
  const auto [begin, end] = extent(access.tensor);
  const size_t offset = static_cast<const char*>(access.tensor.storage().data_ptr().get()) - block.data;
  return {offset + begin, offset + end, access.write, stream.device_index(), number_of(stream), tick, what};
}

}  // namespace

State& state() {
  static State* const all = new State;  // kept: tensors may outlive static objects
  return *all;
}

DeviceState& state_of(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < kDevices, "sim: there is no device ", static_cast<int>(index), " of ",
              kDevices);
  return state().devices[index];
}

void report(const std::string& line) {
  auto& reports = state().reports;
  if (std::find(reports.begin(), reports.end(), line) == reports.end()) reports.push_back(line);
}

void fail_silently() {
  const Lock lock(state().mutex);
  state().fails_silently = true;
}

std::string failure() {
  const Lock lock(state().mutex);
  return state().failure;
}

void keep_failure(const std::string& text) {
  const Lock lock(state().mutex);
  if (state().failure.empty()) state().failure = text;
}

std::vector<std::string> take_reports() {
  const Lock lock(state().mutex);
  return std::exchange(state().reports, {});
}

std::pair<size_t, size_t> extent(const at::Tensor& tensor) {
  const size_t begin = tensor.storage_offset() * tensor.itemsize();
  if (tensor.numel() == 0) return {begin, begin};
  size_t last = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) last += (tensor.size(dim) - 1) * tensor.stride(dim);
  return {begin, begin + (last + 1) * tensor.itemsize()};
}

void host_reached(c10::DeviceIndex index, const Timeline& timeline) {
  DeviceState& device = state_of(index);
  device.host.join(timeline);
  const Clock& seen = device.host.seen;
  const auto is_done = [&](const Copy& copy) { return copy.tick <= seen.ticks[copy.stream]; };
  for (const Copy& copy : device.copies)
    if (is_done(copy)) end_copy(copy);
  std::erase_if(device.copies, is_done);
  std::erase_if(device.deferred, [&](Block* block) {
    if (!seen.covers(block->release)) return false;
    make_free(block);
    return true;
  });
}

void check_free(Block& block) {
  const DeviceState& device = state_of(block.device);
  for (const Entry& old : block.log) {
    if (old.stream == block.home || block.recorded.count(old.stream) > 0 ||
        is_ordered(old, device, block.home))
      continue;
    report("memory of " + std::to_string(block.bytes) + " bytes is freed on " +
           name_of(block.device, block.home) + " while " + old.what + " on " +
           name_of(old.device, old.stream) + " may still use it");
  }
  block.log.clear();
}

std::vector<std::shared_future<void>> unfinished(const std::vector<Access>& accesses) {
  const Lock lock(state().mutex);
  std::vector<std::shared_future<void>> works;
  for (const Access& access : accesses) {
    Block* const block = block_of(access.tensor);
    if (block == nullptr) continue;
    const Entry now = entry_of(access, *block, "", stream_of(block->device, 0), 0);
    for (const Unfinished& work : block->unfinished)
      if (work.access.meets(now)) works.push_back(work.done);
  }
  return works;
}

void set_before_work(BeforeWork hook) {
  before_work = hook;
}

void settle(const std::vector<Access>& accesses) {
  if (before_work != nullptr) before_work(current_stream(current_device()));
  const std::vector<std::shared_future<void>> works = unfinished(accesses);
  if (works.empty()) return;
  for (const auto& work : works) work.wait();
  {
    const Lock lock(state().mutex);
    for (const Access& access : accesses)
      if (Block* const block = block_of(access.tensor))
        std::erase_if(block->unfinished, [](const Unfinished& work) {
          return work.done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
        });
  }
  if (state().fails_silently) return;
  for (const auto& work : works) work.get();
}

void set_unfinished(const std::vector<Access>& accesses, const std::shared_future<void>& done) {
  const Lock lock(state().mutex);
  for (const Access& access : accesses)
    if (Block* const block = block_of(access.tensor))
      block->unfinished.push_back({entry_of(access, *block, "", stream_of(block->device, 0), 0), done});
}

void launch(const std::string& name, c10::Stream stream, const std::vector<Access>& accesses, Path path) {
  check_capture(name, path == Path::kBus ? std::nullopt : std::optional(stream));
  State& all = state();
  const Lock lock(all.mutex);
  DeviceState& device = state_of(stream.device_index());
  Timeline& timeline = device.streams[number_of(stream)];
  device.host.time += all.costs.launch;
  timeline.join(device.host);
  ++device.count.launches;
  ++device.count.launches_after_wait;
  const uint64_t tick = ++timeline.seen.ticks[number_of(stream)];
  size_t bytes = 0;
  std::set<std::string> reported;
  for (const Access& access : accesses) {
    Block* const block = block_of(access.tensor);
    if (block == nullptr) continue;
    const Entry now = entry_of(access, *block, name, stream, tick);
    check_order(*block, now, reported);
    if (is_on_device(access.tensor))
      bytes += now.end - now.begin;
    else
      end_copies_of(access.tensor, device);
  }
  timeline.time +=
      all.costs.kernel +
      static_cast<double>(bytes) / (path == Path::kBus ? all.costs.bus_bytes_per_us : all.costs.bytes_per_us);
}

void begin_copy(const at::Tensor& pinned, const at::Tensor& data, c10::Stream stream, bool to_host) {
  if (to_host) std::memset(pinned.data_ptr(), 0xFF, pinned.nbytes());
  const Lock lock(state().mutex);
  DeviceState& device = state_of(stream.device_index());
  const int number = number_of(stream);
  device.copies.push_back({pinned, data, to_host, number, device.streams[number].seen.ticks[number]});
}

void count_host_wait(c10::Stream stream) {
  const Lock lock(state().mutex);
  DeviceState& device = state_of(stream.device_index());
  count_wait(device.count);
  host_reached(stream.device_index(), device.streams[number_of(stream)]);
}

void count_copy(c10::Stream stream, int64_t to_device, int64_t to_host) {
  const Lock lock(state().mutex);
  Counters& count = state_of(stream.device_index()).count;
  count.bytes_to_device += to_device;
  count.bytes_to_host += to_host;
}

void count_collective(c10::Stream stream) {
  const Lock lock(state().mutex);
  ++state_of(stream.device_index()).count.collectives;
}

void set_costs(const Costs& costs) {
  const Lock lock(state().mutex);
  state().costs = costs;
}

double host_time(c10::DeviceIndex index) {
  const Lock lock(state().mutex);
  return state_of(index).host.time;
}

}  // namespace weft::sim
