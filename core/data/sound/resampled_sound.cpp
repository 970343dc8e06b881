// Changes the rate of a recording.
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/text.hpp"
#include "weft/data/sound.hpp"

namespace weft::data {

namespace {

// The weights of the input for one of the places that an output has between two inputs.
struct Phase {
  int64_t first = 0;  // the input of weights[0], from the one at or before the output
  std::vector<float> weights;
};

constexpr double kZeros = 16;      // of the sinc to each side
constexpr double kRolloff = 0.95;  // of the highest frequency of the lower rate that passes

// The output lies `place` inputs after an input; `band` is the share of the input's frequencies that passes.
Phase phase_at(double place, double band) {
  const double reach = kZeros / band;
  Phase phase;
  phase.first = static_cast<int64_t>(std::ceil(place - reach));
  double sum = 0;
  std::vector<double> weights;
  for (int64_t i = phase.first; static_cast<double>(i) <= place + reach; ++i) {
    const double distance = (static_cast<double>(i) - place) * band, angle = std::numbers::pi * distance;
    const double window = std::cos(angle / (2 * kZeros));
    weights.push_back((angle == 0 ? 1 : std::sin(angle) / angle) * window * window);
    sum += weights.back();
  }
  for (const double weight : weights) phase.weights.push_back(static_cast<float>(weight / sum));
  return phase;
}

}  // namespace

Recording resampled(const Recording& recording, int64_t sampling_rate) {
  if (recording.sampling_rate < 1 || sampling_rate < 1)
    fail(WEFT_INVALID_ARGUMENT, "a recording of {} Hz cannot become one of {} Hz: both must be at least 1",
         recording.sampling_rate, sampling_rate);
  if (recording.sampling_rate == sampling_rate) return recording;
  const int64_t common = std::gcd(recording.sampling_rate, sampling_rate);
  const int64_t from = recording.sampling_rate / common, to = sampling_rate / common;
  const double band = kRolloff * std::min(1.0, static_cast<double>(to) / static_cast<double>(from));
  std::vector<Phase> phases;
  for (int64_t i = 0; i < to; ++i)
    phases.push_back(phase_at(static_cast<double>(i * from % to) / static_cast<double>(to), band));
  const auto count = static_cast<int64_t>(recording.samples.size());
  Recording result{sampling_rate, std::vector<float>(static_cast<size_t>((count * to + from - 1) / from))};
  for (size_t i = 0; i < result.samples.size(); ++i) {
    const int64_t position = static_cast<int64_t>(i) * from;
    const Phase& phase = phases[i % static_cast<size_t>(to)];
    const int64_t first = position / to + phase.first;
    float sum = 0;
    for (size_t k = 0; k < phase.weights.size(); ++k) {
      const int64_t index = first + static_cast<int64_t>(k);
      if (index >= 0 && index < count)
        sum += phase.weights[k] * recording.samples[static_cast<size_t>(index)];
    }
    result.samples[i] = sum;
  }
  return result;
}

}  // namespace weft::data
