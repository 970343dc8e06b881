// Communicator: point-to-point messages, texts and subsets.
#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "comm/byte_count.hpp"
#include "comm/checks.hpp"
#include "comm/group.hpp"
#include "comm/message_group.hpp"
#include "device/tensors.hpp"

namespace weft {
namespace {

using comm::require;
using Group = Communicator::Group;

constexpr uint32_t kMaxTag = (1u << 30) - 1;  // Group::next_tag() uses those above

void check_message(const Group& group, const std::string& who, const at::Tensor& tensor, int peer,
                   uint32_t tag) {
  comm::check_tensor(who, "the tensor", tensor);
  comm::check_rank(who, "the other rank", peer, group.size());
  if (peer == group.rank)
    fail(WEFT_INVALID_ARGUMENT, "{}: the other rank is {}, which is this one", who, peer);
  if (tag > kMaxTag) fail(WEFT_INVALID_ARGUMENT, "{}: tag is {}, must be at most {}", who, tag, kMaxTag);
}

at::Tensor as_tensor(const std::string& text) {
  const at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), static_cast<char*>(bytes.data_ptr()));
  return bytes;
}

std::string as_text(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
}

}  // namespace

Work Communicator::send(const at::Tensor& tensor, int to, uint32_t tag) const {
  Group& group = require(group_);
  if (group.absent) return Work();
  const std::string who = fmt::format("{}: send to {}", group.who(), to);
  check_message(group, who, tensor, to, tag);
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  const auto start = [&](Work::Pending& pending) {
    std::vector<at::Tensor> tensors{tensor};
    pending.messages = true;
    pending.parts.push_back(group.backend_of(tensor).send(tensors, to, static_cast<int>(tag)));
  };
  Work work = group.issue(fmt::format("send to rank {} with tag {}", to, tag), bytes, start, group_, true);
  comm::count_bytes(comm::Traffic::kSend, bytes);
  return work;
}

Work Communicator::recv(const at::Tensor& tensor, int from, uint32_t tag) const {
  Group& group = require(group_);
  if (group.absent) return Work();
  const std::string who = fmt::format("{}: recv from {}", group.who(), from);
  check_message(group, who, tensor, from, tag);
  const auto start = [&](Work::Pending& pending) {
    std::vector<at::Tensor> tensors{tensor};
    pending.messages = true;
    pending.parts.push_back(group.backend_of(tensor).recv(tensors, from, static_cast<int>(tag)));
  };
  return group.issue(fmt::format("recv from rank {} with tag {}", from, tag),
                     static_cast<int64_t>(tensor.nbytes()), start, group_, true);
}

// A device does the messages of a lane in order and connects a lane when its first message comes, so ranks
// that all begin with a send around a circle would wait for each other. Its backend takes both as one piece
// of work.
Work Communicator::exchange(const at::Tensor& sent, int to, const at::Tensor& received, int from,
                            uint32_t tag) const {
  Group& group = require(group_);
  if (group.absent) return Work();
  const std::string who = fmt::format("{}: exchange: to {} and from {}", group.who(), to, from);
  if (sent.numel() > 0) check_message(group, who, sent, to, tag);
  if (received.numel() > 0) check_message(group, who, received, from, tag);
  const auto bytes = static_cast<int64_t>(sent.nbytes());
  const auto start = [&](Work::Pending& pending) {
    c10d::Backend& backend = group.backend_of(sent);
    const bool together = backend.supportsCoalescing();
    pending.messages = true;
    const auto add = [&](c10::intrusive_ptr<c10d::Work> work) {
      if (!together) pending.parts.push_back(std::move(work));
    };
    comm::MessageGroup messages(together ? &backend : nullptr);
    std::vector<at::Tensor> one{received};
    if (received.numel() > 0) add(backend.recv(one, from, static_cast<int>(tag)));
    one = {sent};
    if (sent.numel() > 0) add(backend.send(one, to, static_cast<int>(tag)));
    if (auto work = messages.end()) pending.parts.push_back(std::move(work));
  };
  Work work = group.issue(fmt::format("exchange with ranks {} and {} with tag {}", to, from, tag), bytes,
                          start, group_, true);
  comm::count_bytes(comm::Traffic::kSend, bytes);
  return work;
}

void Communicator::barrier() const {
  Group& group = require(group_);
  if (group.size() == 1) return;
  c10d::BarrierOptions options;
  options.timeout = group.rendezvous->timeout;
  const auto start = [&](Work::Pending& pending) {
    pending.parts.push_back(group.of_host->barrier(options));
  };
  group.issue("barrier", 0, start, group_).wait();
}

Communicator Communicator::subset(const std::vector<uint32_t>& members) const {
  Group& group = require(group_);
  const std::string who = group.who() + ": subset";
  if (members.empty()) fail(WEFT_INVALID_ARGUMENT, "{}: no members are given", who);
  std::vector<uint32_t> ordered = members;
  std::sort(ordered.begin(), ordered.end());
  for (size_t i = 0; i < ordered.size(); ++i) {
    comm::check_rank(who, "a member", ordered[i], group.size());
    if (i > 0 && ordered[i] == ordered[i - 1])
      fail(WEFT_INVALID_ARGUMENT, "{}: rank {} is given twice", who, ordered[i]);
  }
  if (group.absent)
    return members.front() == 0 ? comm::absent_ranks(static_cast<uint32_t>(members.size())) : Communicator();
  const std::string list = fmt::format("{}", fmt::join(members, ","));
  uint32_t number = 0;
  {
    const std::lock_guard lock(group.issuing);
    number = group.subsets++;
  }
  const std::string name = fmt::format("{}/{}[{}]", group.name, number, list);
  if (group.size() > 1)
    group.rendezvous->agree(who, fmt::format("{}/subset/{}", group.name, number), "[" + list + "]");
  const auto place = std::find(members.begin(), members.end(), static_cast<uint32_t>(group.rank));
  if (place == members.end()) return {};
  std::vector<uint32_t> ranks;
  for (const uint32_t member : members) ranks.push_back(group.members[member]);
  return Communicator(
      comm::make_group(group.rendezvous, name, std::move(ranks), static_cast<int>(place - members.begin())));
}

std::vector<std::string> Communicator::gather_text(const std::string& text) const {
  const int count = size();
  const at::Tensor sizes = at::empty({count}, at::kLong);
  all_gather(sizes, at::full({1}, static_cast<int64_t>(text.size()), at::kLong), true).wait();
  const std::vector<int64_t> lengths = device::values_of<int64_t>(sizes);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const at::Tensor padded = at::zeros({longest}, at::kByte);
  padded.narrow(0, 0, static_cast<int64_t>(text.size())).copy_(as_tensor(text));
  const at::Tensor all = at::empty({count, longest}, at::kByte);
  all_gather(all, padded, true).wait();
  std::vector<std::string> texts;
  for (int rank = 0; rank < count; ++rank)
    texts.push_back(as_text(all[rank].narrow(0, 0, lengths[static_cast<size_t>(rank)])));
  return texts;
}

std::string Communicator::broadcast_text(const std::string& text, int root) const {
  const at::Tensor size = at::full({1}, static_cast<int64_t>(text.size()), at::kLong);
  broadcast(size, root, true).wait();
  const at::Tensor bytes =
      rank() == root ? as_tensor(text) : at::empty({device::value_of<int64_t>(size)}, at::kByte);
  broadcast(bytes, root, true).wait();
  return as_text(bytes);
}

}  // namespace weft
