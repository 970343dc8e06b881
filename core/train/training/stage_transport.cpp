#include "training/stage_transport.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "device/device.hpp"
#include "host/launch/activity.hpp"
#include "trace/trace.hpp"

namespace weft {

namespace {

using pipeline::Transfer;

// A tag has 30 bits: of the micro-batch, the content, the boundary and the field. Transfers of micro-batches
// that share a tag cannot overtake each other, because each virtual stage runs micro-batches in order.
constexpr uint32_t kFieldBits = 6, kBoundaryBits = 10, kContentBits = 1, kMicroBatchBits = 13;
static_assert(kFieldBits + kBoundaryBits + kContentBits + kMicroBatchBits == 30);

uint32_t tag_of(const Transfer& transfer, size_t field) {
  if (field >> kFieldBits != 0)
    fail(WEFT_UNIMPLEMENTED, "a pipeline stage passes on more than {} fields, the most that it can",
         1u << kFieldBits);
  uint32_t tag = transfer.micro_batch & ((1u << kMicroBatchBits) - 1);
  tag = tag << kContentBits | (transfer.content == Transfer::Content::gradients ? 1u : 0u);
  tag = tag << kBoundaryBits | transfer.boundary;
  return tag << kFieldBits | static_cast<uint32_t>(field);
}

const char* content_name(const Transfer& transfer) {
  return transfer.content == Transfer::Content::state ? "State" : "gradients";
}

// Returns what this rank waits for. `rank` is that of the other stage in the job.
std::string describe(const Transfer& transfer, bool arriving, int rank) {
  const char* const what = content_name(transfer);
  return arriving ? fmt::format("the {} of micro-batch {} from stage {} (rank {})", what,
                                transfer.micro_batch, transfer.from, rank)
                  : fmt::format("stage {} (rank {}) to take the {} of micro-batch {}", transfer.to, rank,
                                what, transfer.micro_batch);
}

}  // namespace

StageProgram::StageProgram(pipeline::Schedule made, uint32_t own_stage)
    : schedule(std::move(made)), stage(own_stage), order(schedule) {
  if (schedule.virtual_stages() > 1u << kBoundaryBits)
    fail(WEFT_UNIMPLEMENTED, "a pipeline of {} virtual stages; at most {} are possible",
         schedule.virtual_stages(), 1u << kBoundaryBits);
  for (uint32_t from = 0; from < schedule.stages; ++from)
    incoming.push_back(from == stage ? std::vector<Transfer>() : pipeline::transfers(schedule, from, stage));
}

bool StageProgram::splits_backward() const {
  return std::any_of(operations().begin(), operations().end(), [](const pipeline::Operation& operation) {
    return operation.kind == pipeline::Kind::input_gradient;
  });
}

StageTransport::StageTransport(Communicator stages, const StageProgram& program, Carried carried)
    : stages_(std::move(stages)),
      program_(program),
      carried_(std::move(carried)),
      posted_(program.incoming.size()) {}

// Whoever asks what this rank is doing meanwhile is told what it waits for, and so is whoever reads an error.
void StageTransport::wait(Moving& moving, bool arriving) const {
  const Transfer& transfer = moving.transfer;
  const uint32_t other = arriving ? transfer.from : transfer.to;
  const std::string what = describe(transfer, arriving, stages_.rank_in_job(static_cast<int>(other)));
  const trace::Span span([&] { return trace::begin("wait for " + what, "waiting", transfer.micro_batch); });
  const ActivityDetail detail("waiting for " + what);
  try {
    for (Work& work : moving.works) work.wait();
  } catch (const Error& error) {
    fail(error.status(), "waiting for {}: {}", what, error.what());
  }
}

void StageTransport::post(const Transfer& transfer) {
  Moving moving{transfer, {}, {}};
  for (const nn::FieldShape& field : carried_(transfer)) {
    const at::Tensor tensor = at::empty(field.shape, device::current().options(field.dtype));
    if (tensor.numel() > 0)  // a rank may have no position of a short sequence
      moving.works.push_back(
          stages_.recv(tensor, static_cast<int>(transfer.from), tag_of(transfer, moving.tensors.size())));
    moving.tensors.set(field.name, tensor);
  }
  incoming_.push_back(std::move(moving));
}

void StageTransport::expect(const Transfer& transfer) {
  // In the order of the sender: a network without tags needs that.
  const std::vector<Transfer>& sent = program_.incoming[transfer.from];
  size_t& posted = posted_[transfer.from];
  const size_t place = program_.order.sent_at(transfer);
  for (; posted < sent.size() && program_.order.sent_at(sent[posted]) <= place; ++posted) post(sent[posted]);
}

State StageTransport::receive(const Transfer& transfer) {
  const auto found = std::find_if(incoming_.begin(), incoming_.end(),
                                  [&](const Moving& moving) { return moving.transfer == transfer; });
  TORCH_INTERNAL_ASSERT(found != incoming_.end());
  wait(*found, /*arriving=*/true);
  State tensors = std::move(found->tensors);
  incoming_.erase(found);
  release_arrived(transfer);
  return tensors;
}

void StageTransport::send(const Transfer& transfer, State tensors) {
  const trace::Span span([&] {
    return trace::begin(fmt::format("send the {} of micro-batch {} to stage {}", content_name(transfer),
                                    transfer.micro_batch, transfer.to),
                        "transfer", transfer.micro_batch);
  });
  Moving moving{transfer, std::move(tensors), {}};
  size_t field = 0;
  for (const auto& [name, tensor] : moving.tensors) {
    const uint32_t tag = tag_of(transfer, field++);
    if (tensor.numel() > 0) moving.works.push_back(stages_.send(tensor, static_cast<int>(transfer.to), tag));
  }
  outgoing_.push_back(std::move(moving));
}

void StageTransport::release_arrived(const Transfer& received) {
  const auto first = std::stable_partition(outgoing_.begin(), outgoing_.end(), [&](const Moving& moving) {
    return !program_.order.proves(received, moving.transfer);
  });
  for (auto moving = first; moving != outgoing_.end(); ++moving)
    for (Work& work : moving->works) work.wait();
  outgoing_.erase(first, outgoing_.end());
}

void StageTransport::wait_for_all_but(size_t count) {
  while (outgoing_.size() > count) {
    wait(outgoing_.front(), /*arriving=*/false);
    outgoing_.erase(outgoing_.begin());
  }
}

}  // namespace weft
