// NCCL's communicators, by libtorch's ProcessGroupNCCL.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace weft::cuda {

// Returns the version of the NCCL that is loaded: "2.28.9".
std::string nccl_version();

// Makes the backend of a group: what it does joins the streams of the device, and the host goes on. Work that
// is not done after `timeout` is aborted, and failure() says so. (device::MakeBackend)
c10::intrusive_ptr<c10d::Backend> make_nccl(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            std::chrono::milliseconds timeout,
                                            const c10::intrusive_ptr<c10d::Backend>& host);

// Returns which work of a group of this process was aborted and why, naming group, rank and collective; empty
// if none was. Not every failure reaches the thread that started the work, because that thread does not wait
// for it. (device::Kind::failure)
std::string failure();

}  // namespace weft::cuda
