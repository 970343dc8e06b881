// One block of threads as fibers: who waits where, and who may go on.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cuda_on_host.hpp"
#include "fiber.hpp"
#include "guarded_memory.hpp"

namespace on_host {

constexpr int kLanes = 32, kMaxThreads = 1024;

enum class State : uint8_t { kReady, kAtBarrier, kInWarp, kReturned };

struct Thread {
  uint3 index{};
  int number = 0;  // in its block
  State state = State::kReady;
  // What it waits for.
  Collective kind = Collective::kBarrier;
  Site site{};
  uint32_t mask = 0;
  int source = 0;
  uint64_t value = 0, received = 0;
  void* edge = nullptr;  // to acquire on waking
  std::unique_ptr<Fiber> fiber;
};

struct Warp {
  uint32_t alive = 0, ready = 0, waiting = 0;
  int meetings = 0;
  char arrived = 0, departs[2] = {};  // edges
};

class Block {
 public:
  void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& kernel);
  void meet_block(Site site);
  uint64_t meet_warp(Collective kind, uint32_t mask, uint64_t value, int source, Site site);
  int lane() const { return current_->number % kLanes; }
  void* shared() { return shared_->data(); }
  [[noreturn]] void fail(const std::string& what, Site site) const;
  // "block (0, 0, 0): thread 3 ", of the running thread.
  std::string running_thread() const;

 private:
  void prepare(dim3 grid, dim3 block, size_t shared_bytes);
  void add_thread();
  void run_thread(Thread& self);
  void enter(Thread& thread);
  void wait();
  void run_block();
  void run_warp(Warp& warp, Thread* lanes);
  void release_barrier();
  void complete(Warp& warp, Thread* lanes, uint32_t mask);
  void hand_over(const Thread& first, Thread* lanes, uint32_t mask, uint32_t votes, void* edge);
  void finish(Thread& self);
  void finish_broken(Thread& self, const char* why);
  void abandon();
  void poison_shared();
  void check_shared() const;
  std::vector<uint32_t> order_of(uint32_t count);
  int pick(uint32_t ready);
  std::string where() const;
  std::string states() const;

  Warp& warp_of(const Thread& thread) { return warps_[static_cast<size_t>(thread.number / kLanes)]; }
  Thread* lanes_of(const Thread& thread) { return threads_.data() + thread.number / kLanes * kLanes; }

  std::vector<Thread> threads_;  // reserved once: fibers keep their addresses
  std::vector<Warp> warps_;
  int size_ = 0, returned_ = 0;
  Thread* current_ = nullptr;
  const std::function<void()>* kernel_ = nullptr;
  std::unique_ptr<GuardedMemory> shared_;
  std::string failure_;
  bool abandoning_ = false;
  std::mt19937 random_;
  char begin_ = 0, end_ = 0, arrived_ = 0, departs_[2] = {};  // edges
  int meetings_ = 0;
};

}  // namespace on_host
