#include "memory/transfers.hpp"

#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "trace/phases.hpp"
#include "weft/error.hpp"

namespace weft::memory {

namespace {

struct Transfer {
  std::vector<at::Tensor> sources;  // on the device
  TransferEnd end;
};

// The transfers of one direction that the host has not seen to be done. Of those to the accelerator only the
// last: the others end before it, and they keep nothing.
struct Lane {
  c10::Device place = c10::Device(device::kHost);  // whose stream it is
  device::Stream stream;
  std::deque<Transfer> under_way;
};

std::mutex mutex;  // guards the lanes

Lane& lane_of(Direction direction) {
  static auto* const lanes = new Lane[2];  // kept: tensors may outlive static objects
  Lane& lane = lanes[static_cast<size_t>(direction)];
  if (const c10::Device place = device::current().place(); lane.place != place) {
    lane.place = place;
    lane.stream = device::Stream::make();
    lane.under_way.clear();
  }
  return lane;
}

// What this thread is doing.
struct Open {
  Open(Direction direction, const device::Stream& stream) : direction(direction), on(stream) {}
  const Direction direction;
  const device::OnStream on;
  bool copies = false;  // it has begun to
  std::vector<at::Tensor> sources;
};
thread_local std::optional<Open> open;

// Puts this thread's stream behind all transfers but the last one, and lets their tensors go.
void release_earlier(Lane& lane) {
  for (; lane.under_way.size() > 1; lane.under_way.pop_front()) lane.under_way.front().end->wait();
}

}  // namespace

void begin_transfer(Direction direction) {
  if (device::current().is_host()) return;
  if (open) fail(WEFT_FAILED_PRECONDITION, "this thread has begun a transfer already: end it first");
  const std::lock_guard lock(mutex);
  Lane& lane = lane_of(direction);
  if (direction == Direction::kToHost) release_earlier(lane);
  open.emplace(direction, lane.stream);
}

TransferEnd end_transfer() {
  if (device::current().is_host()) return nullptr;
  if (!open) fail(WEFT_FAILED_PRECONDITION, "this thread has begun no transfer that it could end");
  const auto end = std::make_shared<device::Event>();
  end->record();
  if (open->copies) {
    const std::lock_guard lock(mutex);
    auto& under_way = lane_of(open->direction).under_way;
    if (open->direction == Direction::kToAccelerator) under_way.clear();
    under_way.push_back({std::move(open->sources), end});
  }
  open.reset();
  return end;
}

bool in_transfer() {
  return open.has_value();
}

void copy_beside(const at::Tensor& to, const at::Tensor& from) {
  at::Tensor(to).copy_(from, /*non_blocking=*/true);
  open->copies = true;
  if (open->direction == Direction::kToHost) open->sources.push_back(from);
}

void finish_transfers() {
  if (device::current().is_host()) return;
  device::Event done;
  std::vector<Transfer> over;
  {
    const std::lock_guard lock(mutex);
    Lane &up = lane_of(Direction::kToAccelerator), &down = lane_of(Direction::kToHost);
    if (up.under_way.empty() && down.under_way.empty()) return;
    if (!up.under_way.empty()) up.under_way.back().end->wait(down.stream);
    done.record(down.stream);
    for (Lane* const lane : {&up, &down}) {
      over.insert(over.end(), std::make_move_iterator(lane->under_way.begin()),
                  std::make_move_iterator(lane->under_way.end()));
      lane->under_way.clear();
    }
  }
  const trace::InPhase waiting(trace::Phase::kDevice);
  done.synchronise();
}

}  // namespace weft::memory
