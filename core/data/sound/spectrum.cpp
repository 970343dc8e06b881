// Log-mel spectra, as Hugging Face's feature extractor for speech recognition computes them.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/hann_window.h>
#include <ATen/ops/stft.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "images/preprocessor_file.hpp"
#include "weft/data/sound.hpp"

namespace weft::data {

namespace {

// Slaney's scale (Auditory Toolbox, 1998): linear below 1 kHz, logarithmic above.
constexpr double kBorder = 1000, kBorderMel = 15, kMelOfHertz = 3.0 / 200;
const double kLogStep = std::log(6.4) / 27;

double mel_of(double hertz) {
  return hertz < kBorder ? hertz * kMelOfHertz : kBorderMel + std::log(hertz / kBorder) / kLogStep;
}
double hertz_of(double mel) {
  return mel < kBorderMel ? mel / kMelOfHertz : kBorder * std::exp(kLogStep * (mel - kBorderMel));
}

// Returns triangles over the frequencies of a spectrum, each with an area of 1: (bins, frequencies).
at::Tensor mel_filters(const SpectrumProcessing& processing) {
  constexpr double kHighest = 8000;  // in Hz, whatever the rate, as Hugging Face has it
  const int64_t frequencies = 1 + processing.n_fft / 2, bins = processing.feature_size;
  std::vector<double> border(static_cast<size_t>(bins) + 2);
  for (size_t i = 0; i < border.size(); ++i)
    border[i] = hertz_of(mel_of(kHighest) * static_cast<double>(i) / static_cast<double>(bins + 1));
  const at::Tensor filters = at::zeros({bins, frequencies});
  const double step =
      static_cast<double>(processing.sampling_rate / 2) / static_cast<double>(frequencies - 1);
  for (int64_t bin = 0; bin < bins; ++bin) {
    const double low = border[static_cast<size_t>(bin)], middle = border[static_cast<size_t>(bin) + 1],
                 high = border[static_cast<size_t>(bin) + 2];
    float* const row = filters.mutable_data_ptr<float>() + bin * frequencies;
    for (int64_t i = 0; i < frequencies; ++i) {
      const double hertz = step * static_cast<double>(i);
      const double height = std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
      row[i] = static_cast<float>(std::max(0.0, height) * 2 / (high - low));
    }
  }
  return filters;
}

}  // namespace

at::Tensor log_mel_spectrum(const Recording& recording, const SpectrumProcessing& processing) {
  if (recording.sampling_rate != processing.sampling_rate)
    fail(WEFT_INVALID_ARGUMENT, "the recording has {} Hz, but spectra are made from {} Hz; resample it first",
         recording.sampling_rate, processing.sampling_rate);
  const auto count = static_cast<int64_t>(recording.samples.size());
  if (count > processing.samples())
    fail(WEFT_INVALID_ARGUMENT, "the recording has {} samples, but a chunk has {} ({} s)", count,
         processing.samples(), processing.chunk_length);
  const at::Tensor wave = at::full({processing.samples()}, processing.padding_value, at::kFloat);
  std::copy(recording.samples.begin(), recording.samples.end(), wave.mutable_data_ptr<float>());
  const at::Tensor spectrum =
      at::stft(wave, processing.n_fft, processing.hop_length, processing.n_fft,
               at::hann_window(processing.n_fft, at::kFloat), /*center=*/true, "reflect",
               /*normalized=*/false, /*onesided=*/true, /*return_complex=*/true);
  const at::Tensor power = spectrum.narrow(1, 0, processing.frames()).abs().square_();
  const at::Tensor logarithm = mel_filters(processing).matmul(power).clamp_min_(1e-10).log10_();
  constexpr double kRange = 8;  // what is quieter than the loudest value by so many powers of ten is cut
  return at::maximum(logarithm, logarithm.max() - kRange).add_(4.0).div_(4.0);
}

SpectrumProcessing SpectrumProcessing::load(const std::string& path,
                                            const std::vector<std::string>& extractors) {
  PreprocessorFile file(path);
  file.check_type({"feature_extractor_type"}, extractors, {},
                  "give spectra (input_features) in a .safetensors file");
  SpectrumProcessing processing;
  file.read("feature_size", processing.feature_size, 1, 1024);
  file.read("sampling_rate", processing.sampling_rate, 1000, 768'000);
  file.read("n_fft", processing.n_fft, 2, 1 << 16);
  file.read("hop_length", processing.hop_length, 1, 1 << 16);
  file.read("chunk_length", processing.chunk_length, 1, 3600);
  file.read("padding_value", processing.padding_value);
  file.read("return_attention_mask", processing.return_attention_mask);
  if (double dither = 0; file.read("dither", dither), dither != 0)
    file.refuse("dither", "must be 0: Weft adds no noise to recordings");
  if (const auto* side = file.find("padding_side"); side != nullptr && *side != "right")
    file.refuse("padding_side", "must be \"right\"");
  if (processing.samples() <= processing.n_fft / 2)
    fail(WEFT_INVALID_ARGUMENT, "{}: a chunk has {} samples, must be more than half of \"n_fft\", {}", path,
         processing.samples(), processing.n_fft);
  file.check_rest({"mel_filters", "n_samples", "nb_max_frames", "processor_class", "return_tensors"},
                  "recordings",
                  "remove the key if it does not change spectra, or give spectra (input_features) in a "
                  ".safetensors file");
  return processing;
}

}  // namespace weft::data
