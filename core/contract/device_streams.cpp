// Rules of devices: streams, events, waits of the host, page-locked memory.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <thread>

#include "base/text.hpp"
#include "contract/device_rules.hpp"
#include "device/stream.hpp"
#include "device/tensors.hpp"
#include "memory/pools.hpp"
#include "memory/transfers.hpp"

namespace weft::contract {

namespace {

// Work that takes a GPU longer than the host needs to give it: what does not wait for its end reads zeros.
constexpr int64_t kElements = 1 << 21;
constexpr int kSteps = 24;

class LongWork {
 public:
  LongWork() : x_(at::full({kElements}, 1.0, on_it())), result_(at::zeros({kElements}, on_it())) {
    device::synchronise();
  }
  // Gives it to the current stream. The last of it fills result().
  void give() {
    for (int step = 0; step < kSteps; ++step) x_.add_(1);
    result_.copy_(x_);
  }
  const at::Tensor& result() const { return result_; }

 private:
  at::Tensor x_, result_;
};

// Returns what is wrong with a tensor that must have the number of finished works, plus `more`.
std::string wrong(const at::Tensor& found, double more = 0) {
  return exact_difference(found, at::full({kElements}, 1.0 + kSteps + more));
}

void check_order_of_a_stream(Findings& findings) {
  const device::OnStream side(device::Stream::make());
  const at::Tensor first = host_values({1000}), second = host_values({1000}, at::kFloat, 2);
  at::Tensor a = there(first), b = there(second);
  const at::Tensor kept = at::empty_like(a);
  at::Tensor x = first.clone(), y = second.clone(), z = at::empty_like(x);
  for (int round = 0; round < 20; ++round) {
    kept.copy_(a);
    a.copy_(b).mul_(0.5);
    b.copy_(kept).add_(1);
    z.copy_(x);
    x.copy_(y).mul_(0.5);
    y.copy_(z).add_(1);
  }
  constexpr const char* kRule = "the work of a stream is done in its order";
  findings.look(kRule, exact_difference(a, x));
  findings.look(kRule, exact_difference(b, y));
}

void check_events(Findings& findings) {
  const device::Stream other = device::Stream::make();
  {
    LongWork work;
    device::Event done;
    {
      const device::OnStream side(other);
      work.give();
      done.record();
    }
    done.wait();
    findings.look("a stream that waits for an event sees the work before it", wrong(work.result() + 1, 1));
  }
  {
    LongWork work;
    work.give();
    at::Tensor seen;
    {
      const device::OnStream side(other);
      seen = work.result() + 2;
      device::Stream::of_thread().synchronise();
    }
    findings.look("work of another stream comes behind that of the thread's stream", wrong(seen, 2));
  }
  LongWork work;
  device::Event first, second;
  at::Tensor seen;
  {
    const device::OnStream side(other);
    work.give();
    first.record();
  }
  {
    const device::OnStream third(device::Stream::make());
    first.wait();
    seen = work.result() + 3;
    second.record();
  }
  second.wait();
  findings.look("an event orders what its stream has waited for, too", wrong(seen + 1, 4));
  device::synchronise();
}

// Starts a copy to page-locked memory behind long work, and expects the values when `wait` has returned.
template <class Wait>
void check_wait(const char* rule, Findings& findings, const Wait& wait) {
  LongWork work;
  const at::Tensor host = memory::allocate(memory::Pool::kPinned, kElements, at::kFloat).zero_();
  device::Event done;
  const device::Stream stream = device::Stream::make();
  {
    const device::OnStream side(stream);
    work.give();
    host.copy_(work.result(), /*non_blocking=*/true);
    done.record();
  }
  const std::string problem = wait(stream, done);
  const std::string values = wrong(host.clone());
  findings.look(rule, values.empty() ? problem : values);
  device::synchronise();
}

void check_waits(Findings& findings) {
  using device::Event, device::Stream;
  check_wait("the host that waits for an event sees the work before it", findings,
             [](const Stream&, const Event& done) {
               done.synchronise();
               return std::string(done.is_done() ? "" : "the event is not done then");
             });
  check_wait("the host that waits for a stream sees its work", findings,
             [](const Stream& stream, const Event&) {
               stream.synchronise();
               return std::string();
             });
  check_wait("the host that waits for the device sees all work", findings, [](const Stream&, const Event&) {
    device::synchronise();
    return std::string();
  });
  check_wait("an event that says that it is done is done", findings, [](const Stream&, const Event& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!done.is_done()) {
      if (std::chrono::steady_clock::now() > end) return std::string("it says within 5 s that it is not");
      std::this_thread::yield();
    }
    return std::string();
  });
  LongWork work;
  work.give();
  findings.look("the host that reads a tensor waits for its values", wrong(work.result()));
}

void check_page_locked(Findings& findings) {
  constexpr const char* kRule = "page-locked memory holds what is copied to it";
  for (const int64_t elements : {1, 1000, 100'003}) {
    const at::Tensor host = host_values({elements});
    const at::Tensor locked = memory::allocate(memory::Pool::kPinned, elements, at::kFloat);
    locked.copy_(host);
    findings.look(kRule, within("on the host", exact_difference(locked, host)));
    const at::Tensor far = at::empty({elements}, on_it());
    far.copy_(locked, /*non_blocking=*/true);
    device::synchronise();
    findings.look(kRule, within("to the device", exact_difference(far, host)));
    locked.zero_();
    locked.copy_(far + 1, /*non_blocking=*/true);
    device::synchronise();
    findings.look(kRule, within("to the host", exact_difference(locked.clone(), host + 1)));
    findings.look("page-locked memory is known as such",
                  locked.is_pinned() ? "" : "libtorch says that a tensor in it is not pinned");
  }
}

// As strategies that offload do: a stream for each direction.
void check_transfers(Findings& findings) {
  using memory::Direction, memory::Pool;
  const at::Tensor host = memory::allocate(Pool::kPinned, kElements, at::kFloat);
  const at::Tensor back = memory::allocate(Pool::kPinned, kElements, at::kFloat).zero_();
  const at::Tensor far = memory::allocate(Pool::kAccelerator, kElements, at::kFloat);
  for (int round = 0; round < 4; ++round) {
    host.fill_(round);
    memory::begin_transfer(Direction::kToAccelerator);
    memory::copy(far, host);
    memory::end_transfer()->wait();
    const at::Tensor sum = far + 1;
    memory::begin_transfer(Direction::kToHost);
    memory::copy(back, sum);
    memory::end_transfer();
    memory::finish_transfers();
    findings.look("copies on streams of their own have the values of the work before them",
                  exact_difference(back.clone(), at::full({kElements}, round + 1.0)));
  }
}

}  // namespace

void check_streams(const World&, Findings& findings) {
  check_order_of_a_stream(findings);
  check_events(findings);
  check_waits(findings);
  check_page_locked(findings);
  check_transfers(findings);
}

}  // namespace weft::contract
