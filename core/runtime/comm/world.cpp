#include "weft/world.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <thread>

#include "base/environment.hpp"
#include "base/rank_failure.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "comm/group.hpp"
#include "comm/job.hpp"
#include "host/loading.h"
#include "memory/heap.hpp"

namespace weft {

struct World::Ranks {
  Communicator all;
  int local_rank = 0;
  int local_size = 1;
  std::mutex making;  // held while a group is made, because groups are made one after the other
  std::map<std::vector<uint32_t>, Communicator> groups;
};

namespace {

World::Ranks& require(const std::shared_ptr<World::Ranks>& ranks) {
  if (!ranks) fail(WEFT_FAILED_PRECONDITION, "world: used before launch()");
  return *ranks;
}

void check_mesh(const std::vector<int>& sizes, int size) {
  int64_t product = 1;
  for (const int axis : sizes) {
    if (axis < 1) fail(WEFT_INVALID_ARGUMENT, "mesh: an axis of [{}] is less than 1", fmt::join(sizes, ", "));
    product *= axis;
  }
  if (product != size) {
    fail(WEFT_INVALID_ARGUMENT, "mesh: [{}] has {} places, must have one for each of {} ranks",
         fmt::join(sizes, ", "), product, size);
  }
}

std::vector<int> coordinate_of(int rank, const std::vector<int>& sizes) {
  std::vector<int> coordinate(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0;) {
    coordinate[axis] = rank % sizes[axis];
    rank /= sizes[axis];
  }
  return coordinate;
}

std::vector<bool> chosen_axes(const std::vector<int>& axes, size_t count) {
  std::vector<bool> chosen(count, false);
  for (const int axis : axes) {
    if (axis < 0 || axis >= static_cast<int>(count)) {
      fail(WEFT_INVALID_ARGUMENT, "mesh: there is no axis {} among {}", axis, count);
    }
    chosen[axis] = true;
  }
  return chosen;
}

// Divides the cores among the ranks of a host, unless OMP_NUM_THREADS is set.
void set_threads(int local_size) {
  if (environment("OMP_NUM_THREADS")) return;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  at::set_num_threads(std::max(1, cores / local_size));
}

World join(comm::Job job, std::chrono::milliseconds timeout) {
  if (timeout <= std::chrono::milliseconds::zero()) {
    fail(WEFT_INVALID_ARGUMENT, "launch: the timeout is {} ms, must be more than 0", timeout.count());
  }
  weft_limit_loading(timeout.count());
  memory::keep_freed_memory();
  const BlockSignals in_new_threads;
  std::shared_ptr<comm::Rendezvous> rendezvous;
  if (job.size > 1) rendezvous = comm::meet(job, timeout);
  std::vector<uint32_t> members(job.size);
  std::iota(members.begin(), members.end(), 0);
  comm::join_as(job.rank);
  auto ranks = std::make_shared<World::Ranks>();
  ranks->all = Communicator(comm::make_group(std::move(rendezvous), "all", std::move(members), job.rank));
  if (job.size > 1) {
    ranks->local_rank = job.local_rank;
    ranks->local_size = job.local_size;
    set_threads(job.local_size);
  }
  return World(std::move(ranks));
}

}  // namespace

int World::rank() const {
  return communicator().rank();
}
int World::size() const {
  return communicator().size();
}
int World::local_rank() const {
  return require(ranks_).local_rank;
}
int World::local_size() const {
  return require(ranks_).local_size;
}
const Communicator& World::communicator() const {
  return require(ranks_).all;
}

std::vector<int> World::coordinate(const std::vector<int>& sizes) const {
  check_mesh(sizes, size());
  return coordinate_of(rank(), sizes);
}

Communicator World::along(const std::vector<int>& sizes, const std::vector<int>& axes) const {
  Ranks& ranks = require(ranks_);
  const std::vector<int> own = coordinate(sizes);
  const std::vector<bool> chosen = chosen_axes(axes, sizes.size());
  std::vector<uint32_t> members;
  for (int rank = 0; rank < size(); ++rank) {
    const std::vector<int> other = coordinate_of(rank, sizes);
    bool same = true;
    for (size_t axis = 0; axis < sizes.size(); ++axis)
      same = same && (chosen[axis] || other[axis] == own[axis]);
    if (same) members.push_back(static_cast<uint32_t>(rank));
  }
  if (static_cast<int>(members.size()) == size()) return ranks.all;
  const std::lock_guard lock(ranks.making);
  Communicator& group = ranks.groups[members];
  if (!group) {
    const auto place =
        std::find(members.begin(), members.end(), static_cast<uint32_t>(rank())) - members.begin();
    const std::string name = fmt::format("{}", fmt::join(members, ","));
    group =
        Communicator(comm::make_group(ranks.all.group_->rendezvous, name, members, static_cast<int>(place)));
  }
  return group;
}

void World::priority_execution(const std::function<void()>& action, int executor) const {
  if (executor < 0 || executor >= size()) {
    fail(WEFT_INVALID_ARGUMENT, "priority_execution: executor is {}, must be 0 to {}", executor, size() - 1);
  }
  try {
    on_every_rank(communicator(), [&] {
      if (rank() == executor) action();
    });
  } catch (const Error& error) {
    // A rank was lost, which says nothing about the action.
    if (rank() == executor || !culprit_of(error.what())) throw;
    throw Error(WEFT_ABORTED, error.what());
  }
  if (rank() != executor) action();
  block_all();
}

void World::print_on_master(const std::string& line) const {
  // fmt::print throws where nobody reads.
  if (is_master()) std::fputs((line + "\n").c_str(), stderr);
}

World launch(std::chrono::milliseconds timeout) {
  return join(comm::job_from_environment(), timeout);
}

World launch(int rank, int world_size, const std::string& host, int port, std::chrono::milliseconds timeout) {
  return join(comm::explicit_job(rank, world_size, host, port), timeout);
}

}  // namespace weft
