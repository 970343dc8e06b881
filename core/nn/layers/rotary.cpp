#include "weft/nn/rotary.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numbers>

#include "autograd/first_order.hpp"
#include "base/text.hpp"
#include "device/tensors.hpp"
#include "dispatch/compositions.hpp"
#include "dispatch/operators.hpp"
#include "dispatch/with_type.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/key_value_cache.hpp"

namespace weft::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Computes every step in fp32, as Hugging Face does, because frequencies that differ in the last place would
// rotate late positions by other angles.
at::Tensor scaled_by_wavelength(const at::Tensor& frequencies, const RotaryConfig& config) {
  const auto old_length = static_cast<double>(config.original_positions);
  const double low = config.low_frequency_factor, high = config.high_frequency_factor;
  const at::Tensor wavelength = 2 * std::numbers::pi / frequencies;
  const at::Tensor is_low = wavelength.gt(old_length / low), is_high = wavelength.lt(old_length / high);
  const at::Tensor divided = at::where(is_low, frequencies / config.factor, frequencies);
  const at::Tensor smooth = (old_length / wavelength - low) / (high - low);
  const at::Tensor between = (1 - smooth) * divided / config.factor + smooth * divided;
  return at::where(is_low.logical_or(is_high), divided, between);
}

// Returns the number of channels as Hugging Face computes it, which may be odd.
int64_t channels_of(const RotaryConfig& config, int64_t size) {
  return static_cast<int64_t>(static_cast<double>(size) * config.part);
}

at::Tensor frequencies_of(const RotaryConfig& config, int64_t size) {
  if (config.turning(size) == 0)
    fail(WEFT_INVALID_ARGUMENT,
         "rotary positions: {} of the {} channels of a head would turn; at least 1 and an even number of "
         "channels must",
         config.part, size);
  const int64_t turning = channels_of(config, size);
  const at::Tensor exponents = at::arange(0, turning, 2, at::kFloat) / static_cast<double>(turning);
  const at::Tensor frequencies = at::pow(config.theta, exponents).reciprocal();
  switch (config.scaling) {
    case RotaryConfig::Scaling::kDefault:
      return frequencies;
    case RotaryConfig::Scaling::kLinear:
      return frequencies / config.factor;
    case RotaryConfig::Scaling::kByWavelength:
      return scaled_by_wavelength(frequencies, config);
  }
  return frequencies;
}

// Rotates `x`, backwards if `back`. cosine, sine: (1 or N, T, R / 2) in the dtype of x.
at::Tensor turned(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine, bool back) {
  if (x.is_meta()) return at::empty_like(x);
  return has_layer_kernel<operators::Rotate>(x) && has_type(x.scalar_type())
             ? call<operators::Rotate>(x, cosine, sine, back)
             : rotate_by_operations(x, cosine, sine, back);
}

// Rotates in forward and rotates the gradient back in backward, so x is not saved.
class Turn : public torch::autograd::Function<Turn> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cosine,
                            const at::Tensor& sine) {
    context->save_for_backward({cosine, sine});
    return turned(x, cosine, sine, false);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    require_first_order("rotary positions");
    const variable_list saved = context->get_saved_variables();
    return {turned(gradients[0].contiguous(), saved[0], saved[1], true), {}, {}};
  }
};

double at_least(const Config& values, std::string_view key, double least) {
  if (!values.has(key)) {
    fail(WEFT_INVALID_ARGUMENT, "{}: there is no \"{}\", which this scaling of rotary positions needs",
         values.origin(), key);
  }
  const double value = values.real(key, 0);
  if (!(value >= least)) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be at least {}", values.origin(), key, value, least);
  }
  return value;
}

// Throws INVALID_ARGUMENT for two values of one setting: `value` under `key`, and `other` in `elsewhere`.
[[noreturn]] void refuse_both(const std::string& origin, std::string_view key, const std::string& value,
                              std::string_view elsewhere, const std::string& other) {
  fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, but {} is {}; give one of them", origin, key,
       printable(value, 80), elsewhere, printable(other, 80));
}

RotaryConfig::Scaling scaling_of(const Config& values) {
  using Scaling = RotaryConfig::Scaling;
  const std::string older = values.text("type", "default"), type = values.text("rope_type", older);
  if (values.has("type") && type != older)
    refuse_both(values.origin(), "rope_type", type, "\"type\", its older name,", older);
  if (type == "default") return Scaling::kDefault;
  if (type == "linear") return Scaling::kLinear;
  if (type == "llama3") return Scaling::kByWavelength;
  const std::vector<std::string> known = {"default", "linear", "llama3"};
  const std::vector<std::string> missing = {"dynamic", "yarn", "longrope", "proportional", "axial"};
  const bool exists = std::find(missing.begin(), missing.end(), type) != missing.end();
  fail(exists ? WEFT_UNIMPLEMENTED : WEFT_INVALID_ARGUMENT,
       "{}: the scaling of rotary positions is \"{}\", {}; must be one of {}{}", values.origin(),
       printable(type, 60), exists ? "which Weft does not have" : "which is not known",
       fmt::join(known, ", "), did_you_mean(type, known));
}

// Returns a number that transformers 5 writes among the parameters, and transformers 4 beside them.
double number_of(const Config& values, const Config& config, const char* key, double otherwise) {
  const double beside = config.real(key, otherwise), among = values.real(key, beside);
  if (config.has(key) && among != beside)
    refuse_both(values.origin(), key, values.json(key), "the one at the top level", config.json(key));
  return among;
}

// Returns the object that holds the parameters, or an empty one.
Config parameters_of(const Config& config) {
  if (const std::string old = config.json("rope_scaling"), now = config.json("rope_parameters");
      config.entries("rope_scaling") > 0 && config.entries("rope_parameters") > 0 && old != now)
    refuse_both(config.origin(), "rope_parameters", now, "\"rope_scaling\", its older name,", old);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (config.entries(key) == 0) continue;
    Config values = Config::parse(config.json(key), fmt::format("{}: \"{}\"", config.origin(), key));
    for (const char* layers : {"full_attention", "sliding_attention"})
      if (values.has(layers))
        fail(WEFT_UNIMPLEMENTED,
             "{}: there are rotary positions for each type of layers (\"{}\"), which Weft "
             "does not have; give one set for all layers",
             values.origin(), layers);
    return values;
  }
  return Config::parse("{}", config.origin());
}

}  // namespace

RotaryConfig RotaryConfig::read(const Config& config, int64_t max_positions, std::optional<double> part) {
  const Config values = parameters_of(config);
  RotaryConfig rotary;
  rotary.scaling = scaling_of(values);
  rotary.theta = number_of(values, config, "rope_theta", rotary.theta);
  rotary.part = number_of(values, config, "partial_rotary_factor", part.value_or(1));
  if (!(rotary.part > 0 && rotary.part <= 1))
    fail(WEFT_INVALID_ARGUMENT, "{}: \"partial_rotary_factor\" is {}, must be more than 0 and at most 1",
         config.origin(), rotary.part);
  if (!part && rotary.part != 1)
    fail(WEFT_UNIMPLEMENTED,
         "{}: \"partial_rotary_factor\" is {}, but this family turns all channels of a head, which is 1",
         config.origin(), rotary.part);
  if (!(rotary.theta > 0)) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"rope_theta\" is {}, must be more than 0", config.origin(),
         rotary.theta);
  }
  if (rotary.scaling == Scaling::kDefault) return rotary;
  rotary.factor = at_least(values, "factor", 1);
  if (rotary.scaling == Scaling::kLinear) return rotary;
  rotary.low_frequency_factor = at_least(values, "low_freq_factor", 0);
  rotary.high_frequency_factor = at_least(values, "high_freq_factor", rotary.low_frequency_factor);
  if (!(rotary.low_frequency_factor > 0) || rotary.high_frequency_factor == rotary.low_frequency_factor) {
    fail(WEFT_INVALID_ARGUMENT,
         "{}: \"low_freq_factor\" is {} and \"high_freq_factor\" {}; the first must be more than 0, the "
         "second more than the first",
         values.origin(), rotary.low_frequency_factor, rotary.high_frequency_factor);
  }
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const Config& holder = config.has(kOriginal) ? config : values;
  if (values.has(kOriginal) && values.integer(kOriginal) != holder.integer(kOriginal))
    refuse_both(values.origin(), kOriginal, values.json(kOriginal), "the one at the top level",
                config.json(kOriginal));
  rotary.original_positions = holder.integer(kOriginal, max_positions);
  if (rotary.original_positions < 1) {
    fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is {}, must be at least 1", holder.origin(), kOriginal,
         rotary.original_positions);
  }
  return rotary;
}

int64_t RotaryConfig::turning(int64_t size) const {
  if (!(part > 0 && part <= 1)) return 0;
  const int64_t channels = channels_of(*this, size), turning = channels + channels % 2;
  return turning <= size ? turning : 0;
}

Rotary::Rotary(const RotaryConfig& config, int64_t size) : frequencies_(frequencies_of(config, size)) {}

Rotary::Table Rotary::table(int64_t positions, bool on_host) const {
  const std::lock_guard lock(mutex_);
  Table& known = on_host ? table_ : device_table_;
  const int64_t count = known.cosine.defined() ? known.cosine.size(0) : 0;
  // A rank of a split sequence may have no position.
  if (count < positions || !known.cosine.defined()) {
    // Generation asks for one position more at a time.
    const at::Tensor angles =
        at::arange(std::max(positions, 2 * count), at::kFloat).unsqueeze(1) * frequencies_;
    known = {angles.cos(), angles.sin()};
    if (!on_host) known = {device::on_device(known.cosine), device::on_device(known.sine)};
  }
  return known;
}

Rotary::Table Rotary::table_of(const at::Tensor& positions) const {
  const std::lock_guard lock(mutex_);
  if (!device_frequencies_.defined()) device_frequencies_ = device::on_device(frequencies_);
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(-1) * device_frequencies_;
  return {angles.cos(), angles.sin()};
}

Rotary::Table Rotary::rows(const at::Tensor& x, const at::Tensor& positions) const {
  const bool given = positions.defined() && !positions.is_meta();
  if (given && !device::is_on_host(positions)) {
    const Table own = table_of(positions);
    return {own.cosine.to(x.options()), own.sine.to(x.options())};
  }
  const int64_t length =
      given && positions.numel() > 0 ? device::value_of<int64_t>(positions.max()) + 1 : x.size(1);
  const Table all = table(length, given || device::is_on_host(x) || x.is_meta());
  const auto picked = [&](const at::Tensor& table) {
    return (given ? table.index({positions}) : table.slice(0, 0, x.size(1)).unsqueeze(0)).to(x.options());
  };
  return {picked(all.cosine), picked(all.sine)};
}

Rotary::Table Rotary::shared_rows(const at::Tensor& x, const at::Tensor& positions) const {
  struct Shared {
    at::Tensor positions;
    Table rows;
  };
  KeyValueCache* const cache = KeyValueCache::current();
  const RunningUnit* const running = RunningUnit::find();
  if (cache == nullptr && running == nullptr) return rows(x, positions);
  Shared& shared =
      cache != nullptr ? cache->in_forward<Shared>(this) : running->context().kept().of<Shared>(this);
  const at::Tensor& cosine = shared.rows.cosine;
  if (!cosine.defined() || !shared.positions.is_same(positions) || cosine.size(1) != x.size(1) ||
      cosine.scalar_type() != x.scalar_type() || cosine.device() != x.device())
    shared = {positions, rows(x, positions)};
  return shared.rows;
}

at::Tensor Rotary::operator()(const at::Tensor& x, const at::Tensor& positions) const {
  const Table own = shared_rows(x, positions);
  if (!at::GradMode::is_enabled()) return turned(x.contiguous(), own.cosine, own.sine, /*back=*/false);
  return Turn::apply(x.contiguous(), own.cosine, own.sine);
}

}  // namespace weft::nn
