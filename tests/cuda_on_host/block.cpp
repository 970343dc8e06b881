// The scheduler. Compiled without -fsanitize=thread: its data is shared by all fibers on purpose.
#include "block.hpp"

#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

// The bounds of the section of __shared__ variables; absent if there are none.
extern "C" {
extern char __start_cuda_shared[] __attribute__((weak));
extern char __stop_cuda_shared[] __attribute__((weak));
}

namespace on_host {

namespace {

// Unwinds threads that will never be released.
struct Abandoned {};

Block& block() {
  static Block* const instance = new Block;  // outlives every fiber
  return *instance;
}

const char* name(Collective kind) {
  switch (kind) {
    case Collective::kBarrier:
      return "__syncthreads";
    case Collective::kSyncWarp:
      return "__syncwarp";
    case Collective::kShuffle:
      return "a shuffle";
    case Collective::kBallot:
      return "a ballot";
  }
  return "";
}

std::string text(Site site) {
  const char* slash = std::strrchr(site.file, '/');
  return std::string(slash != nullptr ? slash + 1 : site.file) + ":" + std::to_string(site.line);
}

std::string hexadecimal(uint32_t mask) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "0x%08x", mask);
  return digits;
}

std::string text(const Thread& thread) {
  return std::string(name(thread.kind)) + " at " + text(thread.site) +
         (thread.kind == Collective::kBarrier ? "" : " with mask " + hexadecimal(thread.mask));
}

}  // namespace

void Block::add_thread() {
  Thread& thread = threads_.emplace_back();
  thread.number = static_cast<int>(threads_.size()) - 1;
  thread.fiber = std::make_unique<Fiber>(thread.number, [this, &thread] { run_thread(thread); });
}

// One thread of one block.
void Block::run_thread(Thread& self) {
  acquire(&begin_);
  try {
    (*kernel_)();
    finish(self);
  } catch (const Error& error) {
    finish_broken(self, error.what());
  } catch (const Abandoned&) {
    finish_broken(self, "");
  }
  release(&end_);
  self.fiber->leave();
}

void Block::finish(Thread& self) {
  Warp& warp = warp_of(self);
  self.state = State::kReturned;
  ++returned_;
  warp.alive &= ~(1u << (self.number % kLanes));
  // Lanes may have waited for this one only.
  for (uint32_t left = warp.waiting; left != 0; left &= left - 1) {
    const uint32_t mask = lanes_of(self)[std::countr_zero(left)].mask & warp.alive;
    if ((warp.waiting & mask) == mask) return complete(warp, lanes_of(self), mask);
  }
}

void Block::finish_broken(Thread& self, const char* why) {
  if (self.state != State::kReturned) ++returned_;
  self.state = State::kReturned;
  if (failure_.empty()) failure_ = why;
}

void Block::enter(Thread& thread) {
  current_ = &thread;
  threadIdx = thread.index;
  thread.fiber->enter();
}

void Block::wait() {
  Thread& self = *current_;
  self.fiber->leave();
  if (abandoning_) throw Abandoned{};
  if (self.edge != nullptr) acquire(self.edge);
}

void Block::meet_block(Site site) {
  Thread& self = *current_;
  self.state = State::kAtBarrier;
  self.kind = Collective::kBarrier;
  self.site = site;
  release(&arrived_);
  wait();
}

uint64_t Block::meet_warp(Collective kind, uint32_t mask, uint64_t value, int source, Site site) {
  Thread& self = *current_;
  Warp& warp = warp_of(self);
  const uint32_t bit = 1u << (self.number % kLanes);
  if ((mask & bit) == 0)
    fail(std::string(name(kind)) + " with mask " + hexadecimal(mask) + ", which leaves out the caller's lane",
         site);
  self.state = State::kInWarp;
  self.kind = kind;
  self.mask = mask;
  self.value = value;
  self.source = source;
  self.site = site;
  self.edge = nullptr;
  warp.waiting |= bit;
  if (kind == Collective::kSyncWarp) release(&warp.arrived);
  const uint32_t needed = mask & warp.alive;
  if ((warp.waiting & needed) == needed) complete(warp, lanes_of(self), needed);
  wait();
  return self.received;
}

// All lanes of `mask` wait. Runs on the last of them.
void Block::complete(Warp& warp, Thread* lanes, uint32_t mask) {
  const Thread& first = lanes[std::countr_zero(mask)];
  uint32_t votes = 0;
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const Thread& lane = lanes[std::countr_zero(left)];
    if (lane.kind != first.kind || lane.mask != first.mask || lane.site.line != first.site.line)
      throw Error(where() + "one warp meets in different calls: thread " + std::to_string(first.number) +
                  " in " + text(first) + ", thread " + std::to_string(lane.number) + " in " + text(lane));
    if (lane.value != 0) votes |= 1u << (lane.number % kLanes);
  }
  void* edge = nullptr;
  if (first.kind == Collective::kSyncWarp) {
    acquire(&warp.arrived);
    release(edge = &warp.departs[warp.meetings++ & 1]);
  }
  hand_over(first, lanes, mask, votes, edge);
  warp.waiting &= ~mask;
  warp.ready |= mask;
}

void Block::hand_over(const Thread& first, Thread* lanes, uint32_t mask, uint32_t votes, void* edge) {
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    Thread& lane = lanes[std::countr_zero(left)];
    if (first.kind == Collective::kShuffle && (mask >> lane.source & 1) == 0)
      throw Error(where() + "thread " + std::to_string(lane.number) + " at " + text(lane.site) +
                  ": reads lane " + std::to_string(lane.source) + ", which takes no part (mask " +
                  hexadecimal(lane.mask) + ")");
    lane.received = first.kind == Collective::kShuffle ? lanes[lane.source].value : votes;
    lane.edge = edge;
    lane.state = State::kReady;
  }
}

int Block::pick(uint32_t ready) {
  switch (settings().order) {
    case Order::kForward:
      return std::countr_zero(ready);
    case Order::kReverse:
      return 31 - std::countl_zero(ready);
    case Order::kShuffled:
      break;
  }
  const int turn = static_cast<int>(random_() % kLanes);
  return (std::countr_zero(std::rotr(ready, turn)) + turn) % kLanes;
}

std::vector<uint32_t> Block::order_of(uint32_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (settings().order == Order::kReverse) std::reverse(order.begin(), order.end());
  if (settings().order == Order::kShuffled) std::shuffle(order.begin(), order.end(), random_);
  return order;
}

void Block::run_warp(Warp& warp, Thread* lanes) {
  while (warp.ready != 0 && failure_.empty()) {
    const int lane = pick(warp.ready);
    warp.ready &= ~(1u << lane);
    enter(lanes[lane]);
  }
}

void Block::release_barrier() {
  const Thread& first = threads_[0];
  bool together = returned_ == 0;
  for (int i = 0; i < size_ && together; ++i)
    together = threads_[i].state == State::kAtBarrier && threads_[i].site.line == first.site.line;
  if (!together) {
    failure_ = where() + "its threads do not meet: " + states();
    return;
  }
  acquire(&arrived_);
  char* const edge = &departs_[meetings_++ & 1];
  release(edge);
  for (int i = 0; i < size_; ++i) {
    threads_[i].state = State::kReady;
    threads_[i].edge = edge;
  }
  for (Warp& warp : warps_) warp.ready = warp.alive;
}

void Block::run_block() {
  warps_.assign(static_cast<size_t>((size_ + kLanes - 1) / kLanes), Warp{});
  for (int i = 0; i < size_; ++i) {
    threads_[i].state = State::kReady;
    warp_of(threads_[i]).alive |= 1u << (i % kLanes);
  }
  for (Warp& warp : warps_) warp.ready = warp.alive;
  returned_ = 0;
  poison_shared();
  release(&begin_);
  while (returned_ < size_) {
    for (const uint32_t warp : order_of(static_cast<uint32_t>(warps_.size())))
      run_warp(warps_[warp], threads_.data() + warp * kLanes);
    if (failure_.empty() && returned_ < size_) release_barrier();
    if (!failure_.empty()) abandon();
  }
  acquire(&end_);
  check_shared();
}

// Unwinds the threads that have begun or never will, then throws.
void Block::abandon() {
  abandoning_ = true;
  static const std::function<void()> nothing = [] {};
  kernel_ = &nothing;
  for (int i = 0; i < size_; ++i)
    if (threads_[i].state != State::kReturned) enter(threads_[i]);
  abandoning_ = false;
  acquire(&end_);
  throw Error(std::exchange(failure_, {}));
}

void Block::poison_shared() {
  constexpr int kPoison = 0xFF;
  if (__start_cuda_shared != nullptr)
    std::memset(__start_cuda_shared, kPoison, static_cast<size_t>(__stop_cuda_shared - __start_cuda_shared));
  std::memset(shared_->data(), kPoison, shared_->size());
}

void Block::check_shared() const {
  const std::string damage = shared_->damage();
  if (!damage.empty()) throw Error(where() + "writes its dynamic shared memory " + damage);
}

std::string Block::where() const {
  return "block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
         std::to_string(blockIdx.z) + "): ";
}

std::string Block::running_thread() const {
  return where() + "thread " + std::to_string(current_->number) + " ";
}

void Block::fail(const std::string& what, Site site) const {
  throw Error(running_thread() + "at " + text(site) + ": " + what);
}

// "threads 0-31 wait in __syncthreads at a.cu:7; threads 32-63 returned".
std::string Block::states() const {
  const auto state = [&](const Thread& thread) {
    return thread.state == State::kReturned ? std::string("returned") : "wait in " + text(thread);
  };
  std::string all;
  for (int first = 0, next = 0; first < size_; first = next) {
    const std::string what = state(threads_[first]);
    while (next < size_ && state(threads_[next]) == what) ++next;
    const std::string last = next - first > 1 ? "-" + std::to_string(next - 1) : "";
    all += (all.empty() ? "" : "; ") + std::string("threads ") + std::to_string(first) + last + " " + what;
  }
  return all;
}

void Block::prepare(dim3 grid, dim3 block, size_t shared_bytes) {
  if (current_ != nullptr) throw Error("a kernel launches a kernel");
  const size_t threads = size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads || block.z > 64)
    throw Error("a block of " + std::to_string(threads) + " threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535)
    throw Error("no such grid");
  if (shared_bytes > settings().shared_bytes_per_block)
    throw Error("a block has " + std::to_string(settings().shared_bytes_per_block) +
                " bytes of shared memory, not " + std::to_string(shared_bytes));
  threads_.reserve(kMaxThreads);
  while (threads_.size() < threads) add_thread();
  size_ = static_cast<int>(threads);
  for (unsigned i = 0; i < threads; ++i)
    threads_[i].index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
  blockDim = block;
  gridDim = grid;
  random_.seed(settings().seed);
  shared_ = std::make_unique<GuardedMemory>(shared_bytes, 0);
}

void Block::run_grid(dim3 grid, dim3 size, size_t shared_bytes, const std::function<void()>& kernel) {
  prepare(grid, size, shared_bytes);
  const AccessReports reports([] { return block().running_thread(); });
  struct Reset {
    Thread*& current;
    ~Reset() { current = nullptr; }
  } reset{current_};
  for (const uint32_t index : order_of(grid.x * grid.y * grid.z)) {
    kernel_ = &kernel;
    blockIdx = {index % grid.x, index / grid.x % grid.y, index / grid.x / grid.y};
    run_block();
  }
}

Settings& settings() {
  static Settings instance;
  return instance;
}

void meet_block(Site site) {
  block().meet_block(site);
}
uint64_t meet_warp(Collective kind, uint32_t mask, uint64_t value, int source, Site site) {
  return block().meet_warp(kind, mask, value, source, site);
}
int lane_id() {
  return block().lane();
}
void* dynamic_shared() {
  return block().shared();
}
void fail(const std::string& what, Site site) {
  block().fail(what, site);
}
void run_grid(dim3 grid, dim3 block_size, size_t shared_bytes, const std::function<void()>& kernel) {
  block().run_grid(grid, block_size, shared_bytes, kernel);
}

}  // namespace on_host
