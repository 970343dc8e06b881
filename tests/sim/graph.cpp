// Graphs: work that was captured, and is done again at the same addresses.
#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/ScopeExit.h>

#include <cstring>
#include <optional>
#include <utility>

#include "sim/device_work.hpp"
#include "sim/state.hpp"

namespace weft::sim {

namespace {

struct Capture {
  c10::Stream stream;
  std::vector<std::function<void()>> works;
};
std::optional<Capture> capturing;  // guarded by the mutex of the state

// The bytes of all devices and the generator of one. Restored, nothing that was done meanwhile has happened;
// memory that was taken meanwhile is NaN.
class Snapshot {
 public:
  explicit Snapshot(c10::DeviceIndex index)
      : generator_(default_host_generator(index)), random_(generator_.get_state()) {
    const Lock lock(state().mutex);
    bytes_.assign(state().backing, state().backing + state().used);
  }
  void restore() {
    const Lock lock(state().mutex);
    std::memcpy(state().backing, bytes_.data(), bytes_.size());
    std::memset(state().backing + bytes_.size(), 0xFF, state().used - bytes_.size());
    generator_.set_state(random_);
  }

 private:
  at::Generator generator_;
  const at::Tensor random_;
  std::vector<char> bytes_;
};

// Waits for the threads of collectives, whose results a snapshot must not take back.
void settle_collectives() {
  std::vector<std::shared_future<void>> works;
  {
    const Lock lock(state().mutex);
    for (const auto& [address, block] : state().blocks)
      for (const Unfinished& work : block->unfinished) works.push_back(work.done);
  }
  for (const auto& work : works) work.wait();
}

}  // namespace

bool is_capturing() {
  const Lock lock(state().mutex);
  return capturing.has_value();
}

void add_to_graph(std::function<void()> work) {
  const Lock lock(state().mutex);
  if (capturing) capturing->works.push_back(std::move(work));
}

void check_capture(const std::string& name, std::optional<c10::Stream> stream) {
  const Lock lock(state().mutex);
  if (!capturing) return;
  TORCH_CHECK(stream.has_value(), "sim: ", name, " while a graph is captured");
  TORCH_CHECK(*stream == capturing->stream, "sim: ", name, " is given to stream ", stream->id(),
              " while a graph of stream ", capturing->stream.id(), " is captured");
}

std::function<void()> capture(const std::function<void()>& give) {
  const c10::DeviceIndex index = current_device();
  const c10::Stream stream = current_stream(index);
  TORCH_CHECK(stream.id() != 0, "sim: a graph cannot be captured on the default stream");
  settle_collectives();
  Snapshot before(index);
  {
    const Lock lock(state().mutex);
    TORCH_CHECK(!capturing, "sim: a graph is being captured");
    capturing.emplace(Capture{stream, {}});
  }
  const auto end = [] {
    const Lock lock(state().mutex);
    return std::exchange(capturing, std::nullopt);
  };
  try {
    give();
  } catch (...) {
    end();
    before.restore();
    throw;
  }
  auto works = std::make_shared<std::vector<std::function<void()>>>(std::move(end()->works));
  before.restore();
  return [works, index] {
    launch("graph", current_stream(index), {});
    const Counters counted = counters(index);
    for (const auto& work : *works) work();
    const Lock lock(state().mutex);
    Counters& count = state_of(index).count;
    count.launches = counted.launches;
    count.launches_after_wait = counted.launches_after_wait;
  };
}

}  // namespace weft::sim
