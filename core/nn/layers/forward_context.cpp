#include "weft/nn/forward_context.hpp"

#include <ATen/core/Generator.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "device/graph.hpp"
#include "device/random.hpp"
#include "device/tensors.hpp"
#include "layers/graph_seeds.hpp"
#include "weft/error.hpp"

namespace weft::nn {

namespace {

thread_local RunningUnit* running = nullptr;

// The mixing function of SplitMix64 (Steele et al., Fast splittable pseudorandom number generators, 2014).
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;
uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

ForwardContext& ForwardContext::current() {
  return RunningUnit::current().context();
}

const Sequence& ForwardContext::sequence(std::string_view name) const {
  for (const Sequence& sequence : sequences_)
    if (sequence.name == name) return sequence;
  std::vector<std::string> names;
  for (const Sequence& sequence : sequences_) names.push_back("\"" + sequence.name + "\"");
  fail(WEFT_NOT_FOUND,
       "this forward has no sequence \"{}\", but [{}]; weft::nn::Model::lengths must name every sequence "
       "that a "
       "plan splits or a layer adds a loss of",
       name, fmt::join(names, ", "));
}

std::optional<double> ForwardContext::gradient_of_loss(std::string_view name) const {
  for (const auto& [term, gradient] : gradients_of_loss_)
    if (term == name) return gradient;
  return std::nullopt;
}

void ForwardContext::add_loss(AuxiliaryLoss loss) {
  sequence(loss.sequence);
  if (!loss.sum.defined() || loss.sum.numel() != 1)
    fail(WEFT_INVALID_ARGUMENT,
         "auxiliary loss \"{}\": the sum has {} elements, must have one; reduce it first", loss.name,
         loss.sum.defined() ? loss.sum.numel() : 0);
  if (running != nullptr && running->runs_again()) return;
  losses_.push_back(std::move(loss));
}

RunningUnit::RunningUnit(ForwardContext& context, uint64_t index, Run run,
                         std::shared_ptr<DeferredGradients> deferred)
    : context_(context),
      index_(index),
      run_(run),
      deferred_(std::move(deferred)),
      outer_(std::exchange(running, this)) {}

RunningUnit::~RunningUnit() {
  running = outer_;
}

RunningUnit* RunningUnit::find() {
  return running;
}

RunningUnit& RunningUnit::current() {
  if (running == nullptr)
    fail(WEFT_FAILED_PRECONDITION,
         "a layer asked for the context of its forward, but runs outside of a unit; run units through a "
         "Booster "
         "or a ShardedModel, or let a weft::nn::RunningUnit live around the call");
  return *running;
}

uint64_t RunningUnit::Draw::value(uint64_t seed) const {
  return mixed(mixed(seed + mixed(unit + 1)) + kGolden * count);
}

uint64_t drawn_seed(uint64_t stream) {
  device::refuse_in_graph("the host draws random numbers while it runs");
  const std::optional<uint64_t> seed = running != nullptr ? running->context().seed() : std::nullopt;
  return (seed ? running->draw().value(*seed) : device::draw_random()) + kGolden * stream;
}

MaskSeed drawn_mask_seed(uint64_t stream) {
  GraphSeeds* const graph = running != nullptr ? running->context().graph_seeds() : nullptr;
  if (graph == nullptr) return {static_cast<int64_t>(drawn_seed(stream)), {}};
  return {0, graph->tensor_of(running->draw(), kGolden * stream)};
}

at::Generator drawn_generator(uint64_t stream) {
  return device::host_generator(drawn_seed(stream));
}

at::Tensor on_device_of(const at::Tensor& like, const at::Tensor& values) {
  return device::copy_to(values, like.device());
}

std::shared_ptr<void>& Kept::place_of(const void* owner) {
  for (auto& [known, kept] : kept_)
    if (known == owner) return kept;
  return kept_.emplace_back(owner, nullptr).second;
}

}  // namespace weft::nn
