#include "training/stage_chain.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "device/tensors.hpp"
#include "host/launch/activity.hpp"
#include "trace/trace.hpp"
#include "training/stages.hpp"

namespace weft {

namespace {

// A message is the size of the description (0: that of the message before), the description, and the fields.
enum Part : uint32_t { kSize, kDescription, kFields };
constexpr uint32_t kPartBits = 2;

uint32_t tag_of(uint32_t boundary, Part part) {
  return boundary << kPartBits | part;
}

at::Tensor bytes_of(const std::string& text) {
  return device::on_device(at::tensor(std::vector<uint8_t>(text.begin(), text.end()), at::kByte));
}

uint32_t version_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter().current_version();
}

std::string text_of(const at::Tensor& bytes) {
  const std::vector<uint8_t> values = device::values_of<uint8_t>(bytes);
  return {values.begin(), values.end()};
}

}  // namespace

StageChain::StageChain(Bindings& bindings)
    : bindings_(bindings),
      stages_(bindings.comm(Mesh::stages())->communicator),
      placement_(placement_of(bindings.options().host.pipeline)) {}

State StageChain::forward(bool continues, const Units& units) {
  if (!continues) passed_.clear();
  const pipeline::StageDivision& division = bindings_.stages();
  const auto own = static_cast<uint32_t>(stages_.rank());
  const uint32_t last = division.virtual_stages() - 1;
  State state;
  for (uint32_t v = 0; v <= last; ++v) {
    if (placement_.stage_of(v) != own) continue;
    if (v == 0)
      state = units.input();
    else if (const uint32_t before = placement_.stage_of(v - 1); before != own)
      state = receive(v - 1, before);
    units.run(division.begin(v), division.end(v), state);
    if (v == last) continue;
    if (const uint32_t next = placement_.stage_of(v + 1); next != own) send(v, next, state);
  }
  const uint32_t end = placement_.stage_of(last);
  if (own == end) state = units.result(state);
  if (end == 0) return own == 0 ? state : State();
  if (own == end) send(last, 0, state);
  return own == 0 ? receive(last, end) : State();
}

void StageChain::send(uint32_t boundary, uint32_t to, const State& state) {
  const trace::Span span([&] { return trace::begin(fmt::format("send to stage {}", to), "transfer"); });
  Passed& passed = passed_[boundary];
  const auto was_sent = [&](const std::string& name, const at::Tensor& tensor) {
    size_t place = 0;
    for (const auto& [before, held] : passed.fields) {
      if (before == name) return held.is_same(tensor) && passed.versions[place] == version_of(tensor);
      ++place;
    }
    return false;
  };
  nlohmann::json fields = nlohmann::json::array();
  std::vector<at::Tensor> sent;
  std::vector<uint32_t> versions;
  for (const auto& [name, tensor] : state) {
    const bool same = was_sent(name, tensor);
    versions.push_back(version_of(tensor));
    if (same)
      fields.push_back({name});
    else
      fields.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
    if (!same && tensor.numel() > 0) sent.push_back(tensor.contiguous());
  }
  const std::string description = fields.dump();
  const bool known = description == passed.description;
  std::vector<Work> works;
  const auto begin = [&](const at::Tensor& tensor, Part part) {
    works.push_back(stages_.send(tensor, static_cast<int>(to), tag_of(boundary, part)));
  };
  const int64_t size = known ? 0 : static_cast<int64_t>(description.size());
  const at::Tensor sizes = device::on_device(at::tensor({size}, at::kLong));
  const at::Tensor words = known ? at::Tensor() : bytes_of(description);
  begin(sizes, kSize);
  if (!known) begin(words, kDescription);
  for (const at::Tensor& tensor : sent) begin(tensor, kFields);
  const ActivityDetail detail(fmt::format("waiting for stage {} (rank {}) to take its part", to,
                                          stages_.rank_in_job(static_cast<int>(to))));
  for (Work& started : works) started.wait();
  passed = {description, state, std::move(versions)};
}

State StageChain::receive(uint32_t boundary, uint32_t from) {
  const std::string what =
      fmt::format("stage {} (rank {})", from, stages_.rank_in_job(static_cast<int>(from)));
  const trace::Span span([&] { return trace::begin("wait for " + what, "waiting"); });
  const ActivityDetail detail("waiting for " + what);
  Passed& passed = passed_[boundary];
  const auto take = [&](const at::Tensor& tensor, Part part) {
    try {
      stages_.recv(tensor, static_cast<int>(from), tag_of(boundary, part)).wait();
    } catch (const Error& error) {
      fail(error.status(), "waiting for {}: {}", what, error.what());
    }
    return tensor;
  };
  const device::Device& here = device::current();
  if (const auto size = device::value_of<int64_t>(take(at::empty({1}, here.options(at::kLong)), kSize)))
    passed.description = text_of(take(at::empty({size}, here.options(at::kByte)), kDescription));
  State state;
  for (const nlohmann::json& field : nlohmann::json::parse(passed.description)) {
    const std::string name = field.at(0);
    if (field.size() == 1) {
      state.set(name, passed.fields.at(name));
      continue;
    }
    const at::Tensor tensor = at::empty(field.at(2).get<std::vector<int64_t>>(),
                                        here.options(static_cast<at::ScalarType>(field.at(1).get<int>())));
    state.set(name, tensor.numel() > 0 ? take(tensor, kFields) : tensor);
  }
  passed.fields = state;
  return state;
}

}  // namespace weft
