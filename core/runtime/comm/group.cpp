#include "comm/group.hpp"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <numeric>
#include <utility>

#include "base/duration.hpp"
#include "base/environment.hpp"
#include "base/signals.hpp"
#include "base/text.hpp"
#include "comm/staged_backend.hpp"
#include "device/tensors.hpp"
#include "trace/phases.hpp"

namespace weft {
namespace comm {
namespace {

// Errors of c10d begin with a source position and end with a stack.
std::string essence(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  const size_t stack = line.find("Exception raised from");
  if (stack != std::string::npos) line.resize(stack);
  if (!line.empty() && line.front() == '[') {
    const size_t end = line.find("] ");
    if (end != std::string::npos) line.erase(0, end + 2);
  }
  return printable(trim(line));
}

c10::intrusive_ptr<c10d::Store> store_of(const Communicator::Group& group) {
  return c10::make_intrusive<c10d::PrefixStore>("group/" + group.name, group.rendezvous->store);
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// Leaves libtorch's flight recorder off unless the user wants it. It adds a new group to a map of the process
// without a lock, so two groups that begin on two threads at once (a background save beside training) could
// crash.
void leave_recorder_off() {
  static const bool once = [] {
    if (!environment("TORCH_NCCL_TRACE_BUFFER_SIZE")) set_environment_default("TORCH_FR_BUFFER_SIZE", "0");
    return true;
  }();
  (void)once;
}

}  // namespace

Communicator::Group& require(const std::shared_ptr<Communicator::Group>& group) {
  if (!group)
    fail(WEFT_FAILED_PRECONDITION,
         "communicator: there is none: this rank is not in the group, or launch() was not called");
  return *group;
}

std::string what_happened(const std::string& text, std::chrono::milliseconds timeout) {
  const std::string what = essence(text);  // the stack names functions of any word
  if (contains(what, "imed out") || contains(what, "timeout"))
    return "timed out after " + seconds_text(timeout);
  if (contains(what, "closed by peer") || contains(what, "reset by peer") || contains(what, "Broken pipe") ||
      contains(what, "got 0 bytes"))
    return "a peer closed the connection (" + what + ")";
  return what;
}

std::shared_ptr<Communicator::Group> make_group(std::shared_ptr<Rendezvous> rendezvous, std::string name,
                                                std::vector<uint32_t> members, int rank) {
  auto group = std::make_shared<Communicator::Group>();
  group->name = std::move(name);
  group->members = std::move(members);
  group->rank = rank;
  group->rendezvous = std::move(rendezvous);
  name_collectives_at_the_end();
  if (group->size() == 1) return group;
  const Rendezvous& meeting = *group->rendezvous;
  const BlockSignals in_new_threads;
  leave_recorder_off();
  try {
    auto options = c10d::ProcessGroupGloo::Options::create(meeting.timeout);
    options->devices.push_back(meeting.device);
    group->of_host =
        c10::make_intrusive<c10d::ProcessGroupGloo>(store_of(*group), rank, group->size(), options);
    // Otherwise a member could leave while others still connect.
    group->of_host->barrier()->wait();
  } catch (const std::exception& error) {
    fail(WEFT_UNAVAILABLE, "{}: the members could not connect: {}", group->who(),
         what_happened(error.what(), meeting.timeout));
  }
  return group;
}

Communicator absent_ranks(uint32_t size) {
  auto group = std::make_shared<Communicator::Group>();
  group->name = "estimate";
  group->members.resize(size);
  std::iota(group->members.begin(), group->members.end(), 0u);
  group->absent = true;
  return Communicator(std::move(group));
}

}  // namespace comm

std::string Communicator::Group::who() const {
  return fmt::format("communicator \"{}\": rank {} of {}", name, rank, size());
}

// Returns tags of the upper half, so that they never equal tags of send and recv.
uint32_t Communicator::Group::next_tag() {
  return (1u << 30) | (sequence++ & ((1u << 30) - 1));
}

c10d::Backend& Communicator::Group::backend_of(const at::Tensor& tensor) {
  if (device::is_on_host(tensor)) return *of_host;
  if (of_device == nullptr) {
    const device::MakeBackend make = device::current().make_backend();
    const auto store = c10::make_intrusive<c10d::PrefixStore>("device", comm::store_of(*this));
    if (make == nullptr)
      of_device = c10::make_intrusive<comm::StagedBackend>(of_host);
    else
      of_device = make(store, rank, size(), rendezvous->timeout, of_host);
    of_device->setGroupDesc(name);
  }
  return *of_device;
}

std::string Communicator::Group::failed(const std::string& operation, int64_t bytes,
                                        const std::string& text) {
  std::string what =
      fmt::format("{} of {} bytes: {}", operation, bytes, comm::what_happened(text, rendezvous->timeout));
  const std::lock_guard lock(failing);
  if (failure.empty()) failure = what;
  return fmt::format("{}: {}", who(), what);
}

Work Communicator::Group::issue(const std::string& operation, int64_t bytes,
                                const std::function<void(Work::Pending& pending)>& start,
                                const std::shared_ptr<Group>& self, bool is_message) {
  {
    const std::lock_guard lock(failing);
    if (!failure.empty()) {
      fail(WEFT_UNAVAILABLE, "{}: {} of {} bytes: not started, the group has failed before: {}", who(),
           operation, bytes, failure);
    }
  }
  auto pending = std::make_shared<Work::Pending>();
  pending->group = self;
  pending->operation = operation;
  pending->bytes = bytes;
  if (trace::on()) {
    pending->traced = trace::begin(fmt::format("{} in \"{}\"", operation, name), "communication", -1, bytes);
    pending->traced->in_background = true;
  }
  pending->in_progress.emplace(*self, pending->operation, bytes);
  const std::lock_guard lock(issuing);
  if (!is_message) comm::compare_collective(*this, begun++, operation, bytes);
  const BlockSignals in_new_threads;  // and so that a write to a peer that has ended fails without SIGPIPE
  try {
    start(*pending);
  } catch (const std::exception& error) {
    throw Error(WEFT_UNAVAILABLE, failed(operation, bytes, error.what()));
  }
  return Work(std::move(pending));
}

at::Tensor Work::Pending::lend(const at::Tensor& memory) {
  lent = std::make_shared<at::Tensor>(memory);
  if (!device::is_on_host(memory)) return memory;  // freed in the order of the stream that waits
  return at::from_blob(
      memory.data_ptr(), memory.sizes(), [keep = lent](void*) {}, memory.options());
}

void Work::Pending::wait() {
  const std::lock_guard lock(mutex);
  if (!failure.empty()) throw Error(WEFT_UNAVAILABLE, failure);
  if (done) return;
  const trace::InPhase waiting(trace::Phase::kCommunication);
  const trace::Span span([&] { return trace::begin("wait for " + operation, "waiting", -1, bytes); });
  try {
    for (const auto& part : parts) part->wait();
  } catch (const std::exception& error) {
    failure = group->failed(operation, bytes, error.what());
    throw Error(WEFT_UNAVAILABLE, failure);
  }
  if (finish) finish();
  done = true;
  in_progress.reset();
  if (traced) trace::finish(*std::exchange(traced, std::nullopt));
  parts.clear();
  finish = nullptr;
  if (lent) *lent = at::Tensor();
}

Work::Pending::~Pending() {
  if (done || !messages) return;
  for (auto& part : parts) group->dropped.add(std::move(part));
}

void Work::wait() {
  if (pending_) pending_->wait();
}

}  // namespace weft
