// How the ranks of a job find each other: through a store on rank 0, over a network device of this host.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/job.hpp"

namespace weft::comm {

struct Rendezvous {
  c10::intrusive_ptr<c10d::Store> store;
  std::shared_ptr<::gloo::transport::Device> device;
  std::chrono::milliseconds timeout{};

  // Checks that all callers with the same `key` pass the same `value`. Does not wait for them. Throws
  // INVALID_ARGUMENT: "<who>: this rank gives <value>, another one <value>".
  void agree(const std::string& who, const std::string& key, const std::string& value) const;
};

// Blocks until all ranks of the job have joined. Fills in local_rank and local_size if the job does not know
// them. Throws UNAVAILABLE naming the ranks that did not join, or why this one cannot reach the master.
std::shared_ptr<Rendezvous> meet(Job& job, std::chrono::milliseconds timeout);

// Throws INVALID_ARGUMENT if GLOO_SOCKET_IFNAME names no interface of this host. Call it before meet() waits.
void check_interface();
// Returns the interface by which other ranks reach this one: GLOO_SOCKET_IFNAME if it is set, loopback if all
// ranks are on one host, otherwise the one that routes to the master.
std::shared_ptr<::gloo::transport::Device> choose_device(const Job& job);

}  // namespace weft::comm
