// Data sets of recordings, and how a recording becomes the spectrum that a model reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/data/dataset.hpp"
#include "weft/data/part.hpp"
#include "weft/tokenizer.hpp"

namespace weft::data {

// How samples of sound become a log-mel spectrum. The names are those of Hugging Face's feature extractor for
// speech recognition, and the results its own but for rounding in fp32.
struct SpectrumProcessing {
  int64_t feature_size = 80;           // mel bins
  int64_t sampling_rate = 16000;       // in Hz; recordings with another rate are resampled
  int64_t hop_length = 160;            // samples from one frame to the next
  int64_t chunk_length = 30;           // seconds of every spectrum
  int64_t n_fft = 400;                 // samples of the window of a frame
  double padding_value = 0;            // fills shorter recordings
  bool return_attention_mask = false;  // whether samples have "attention_mask", 1 for frames with sound

  bool operator==(const SpectrumProcessing&) const = default;

  // Reads a preprocessor_config.json; a key that it lacks has the default of this structure. `extractors` are
  // the names that it may have as "feature_extractor_type"; if empty, any. Throws NOT_FOUND; INVALID_ARGUMENT
  // for a value that is not allowed; UNIMPLEMENTED for another extractor, and naming a key that this
  // structure does not have and that may change spectra.
  static SpectrumProcessing load(const std::string& path, const std::vector<std::string>& extractors = {});

  // Return the samples of a chunk and the frames of its spectrum.
  int64_t samples() const { return chunk_length * sampling_rate; }
  int64_t frames() const { return samples() / hop_length; }
};

// A recording with one channel.
struct Recording {
  int64_t sampling_rate = 0;   // in Hz
  std::vector<float> samples;  // from -1 to 1
};

// Reads a .wav file: PCM of 8, 16, 24 or 32 bits, or floating point of 32 or 64. Several channels become
// their mean. Throws NOT_FOUND; DATA_LOSS for a file that is truncated or damaged; INVALID_ARGUMENT for one
// that is no wav file, has no samples, or has more than `most_seconds` of them (0: no limit); UNIMPLEMENTED
// for another coding, such as mu-law.
Recording read_wav(const std::string& path, double most_seconds = 0);

// Reads a recording by the extension of its name, in upper or lower case: as read_wav() does, and with
// libsndfile, which is opened for the first of them, .flac (8, 16 or 24 bits), .ogg, .oga and .opus
// (Vorbis or Opus, which has 48 kHz), .aiff and .aif (PCM or floating point). Throws like read_wav(),
// DATA_LOSS also for a file whose length is not the one that it states; and FAILED_PRECONDITION if the
// library does not open. Several threads can read at once.
Recording read_recording(const std::string& path, double most_seconds = 0);

// Returns the recording with another rate, by interpolation with a windowed sinc that leaves out what the
// lower of both rates cannot hold.
Recording resampled(const Recording& recording, int64_t sampling_rate);

// Returns the spectrum (feature_size, frames) in fp32. Throws INVALID_ARGUMENT for a recording with another
// rate, or longer than a chunk.
at::Tensor log_mel_spectrum(const Recording& recording, const SpectrumProcessing& processing);

// Turns transcripts into labels: the tokenizer's ids, its special ones among them, and its end at the end.
struct Transcription {
  Tokenizer tokenizer;
  std::optional<int64_t> start_id;  // with which the decoder begins; labels do not have it
  int64_t most_tokens = 0;          // of the labels of a recording; 0: no limit
};

// Which recordings of a folder are read, and how.
struct SoundOptions {
  SpectrumProcessing processing;
  // What samples have as "labels": the tokens of their transcripts, the class of each, or, without these,
  // none.
  std::optional<Transcription> transcription;
  bool classes = false;
  // Of classes: as in ImageOptions.
  std::map<std::string, int64_t> label_of;
  int64_t num_labels = 0;

  // The share of the recordings (with classes, of each class) that is held out, rounded, at least 0 and less
  // than 1; one recording is always left to train on. The seed and the names of the files decide which.
  // `part` is the part to read.
  double held_out = 0;
  Part part = Part::kAll;
  int64_t seed = 42;
};

// Opens a folder of recordings, which read_recording() reads: with classes FOLDER/CLASS/FILE.wav, otherwise
// FOLDER/FILE.wav, and with a transcription the text of each in FOLDER/FILE.txt (UTF-8; white space around it
// is not a part of it); two recordings cannot share one. A sample has "input_features" (feature_size, frames)
// in fp32, "attention_mask" (frames) if the processing says so, and "labels": the class (int64), or the
// tokens of the transcript, padded with -100 to the most tokens of any recording of the folder. The order is
// that of the names. Names that begin with a dot are ignored. Files are read when their sample is wanted,
// transcripts at once; several threads can read samples at once.
//
// Throws NOT_FOUND without the folder; INVALID_ARGUMENT for a folder without recordings, files that are none
// by their names, a recording without a transcript or with an empty one, a transcript without a recording,
// too many tokens, two recordings with one transcript, and options that do not fit together;
// FAILED_PRECONDITION if recordings need libsndfile and it does not open. Reading a sample throws like
// read_recording(). Errors name the file.
std::shared_ptr<Dataset> sound_folder(const std::string& path, const SoundOptions& options);

// Opens one recording as a data set of one sample without labels.
std::shared_ptr<Dataset> sound_file(const std::string& path, const SpectrumProcessing& processing);

}  // namespace weft::data
