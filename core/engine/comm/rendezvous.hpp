// How the ranks of a job find each other: a store on rank 0, and the network device of this host.
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

  // All that call it with the same `key` must give the same `value`. Does not wait for the others. Throws
  // INVALID_ARGUMENT: "<who>: this rank gives <value>, another one <value>".
  void agree(const std::string& who, const std::string& key, const std::string& value) const;
};

// Blocks until all ranks of the job are here. Fills in the place on this host where the job does not know it.
// Throws UNAVAILABLE that names the ranks that did not come, or what kept this one from the master.
std::shared_ptr<Rendezvous> meet(Job& job, std::chrono::milliseconds timeout);

// Throws INVALID_ARGUMENT if GLOO_SOCKET_IFNAME is set to what is no interface of this host. Asked before the
// others come.
void check_interface();
// The address or interface that other ranks reach this one by; on one host always loopback.
// GLOO_SOCKET_IFNAME wins.
std::shared_ptr<::gloo::transport::Device> choose_device(const Job& job);

}  // namespace weft::comm
