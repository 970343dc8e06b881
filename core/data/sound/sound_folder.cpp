#include "sound/sound_folder.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/files.hpp"
#include "base/text.hpp"
#include "loader/class_folder.hpp"
#include "loader/shared_checks.hpp"
#include "sound/sound_format.hpp"
#include "sound/sound_library.hpp"
#include "weft/nn/field_names.hpp"
#include "weft/nn/token_fields.hpp"

namespace weft::data {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kNoLabel = -100;
constexpr const char* kFlatLayout = "recordings must be in the folder itself: FOLDER/FILE.wav";

// A recording and its labels.
struct Sample {
  std::string file;  // relative to the folder
  std::vector<int64_t> labels;
};

enum class LabelKind { kNone, kClass, kTokens };

class SoundFolder final : public Dataset {
 public:
  SoundFolder(std::string path, const SpectrumProcessing& processing, LabelKind kind,
              std::vector<Sample> samples, size_t most_labels)
      : path_(std::move(path)),
        processing_(processing),
        kind_(kind),
        samples_(std::move(samples)),
        most_labels_(static_cast<int64_t>(most_labels)) {}

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  std::string name() const override { return path_; }

  Batch get(const std::vector<int64_t>& indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    const at::Tensor spectra = at::empty({count, processing_.feature_size, processing_.frames()}, at::kFloat);
    const at::Tensor mask = at::zeros({count, processing_.frames()}, at::kLong);
    const at::Tensor labels = at::full({count, most_labels_}, kNoLabel, at::kLong);
    for (int64_t row = 0; row < count; ++row) {
      const int64_t index = indices[static_cast<size_t>(row)];
      if (index < 0 || index >= size())
        fail(WEFT_OUT_OF_RANGE, "{}: no sample {}, there are {}", path_, index, size());
      const Sample& sample = samples_[static_cast<size_t>(index)];
      const int64_t heard = read(sample.file, spectra[row]);
      mask[row].narrow(0, 0, heard).fill_(1);
      std::copy(sample.labels.begin(), sample.labels.end(),
                labels.mutable_data_ptr<int64_t>() + row * most_labels_);
    }
    Batch batch;
    batch.set(nn::kSpectra, spectra);
    if (processing_.return_attention_mask) batch.set(nn::kAttentionMask, mask);
    if (kind_ == LabelKind::kTokens) batch.set(nn::kLabels, labels);
    if (kind_ == LabelKind::kClass) batch.set(nn::kLabels, labels.squeeze(1));
    return batch;
  }

 private:
  // Writes the spectrum of a recording. Returns the number of its frames that have sound.
  int64_t read(const std::string& file, const at::Tensor& spectrum) const {
    const std::string path = file.empty() ? path_ : path_ + "/" + file;
    Recording recording = resampled(read_recording(path, static_cast<double>(processing_.chunk_length)),
                                    processing_.sampling_rate);
    // Rounding of the rate can add a sample to a recording of a whole chunk.
    recording.samples.resize(std::min(recording.samples.size(), static_cast<size_t>(processing_.samples())));
    spectrum.copy_(log_mel_spectrum(recording, processing_));
    const auto count = static_cast<int64_t>(recording.samples.size());
    return std::min((count + processing_.hop_length - 1) / processing_.hop_length, processing_.frames());
  }

  const std::string path_;
  const SpectrumProcessing processing_;
  const LabelKind kind_;
  const std::vector<Sample> samples_;
  const int64_t most_labels_;
};

// Returns the tokens of a transcript, as the decoder of a model learns them.
std::vector<int64_t> labels_of_transcript(const std::string& path, const Transcription& transcription) {
  constexpr size_t kLargest = size_t{1} << 20;
  const std::string content = read_file(path, kLargest);
  const std::string_view text = trim(content);
  if (text.empty()) fail(WEFT_INVALID_ARGUMENT, "{}: the transcript is empty", path);
  const Tokenizer& tokenizer = transcription.tokenizer;
  std::vector<int64_t> ids = tokenizer.encode(text);
  if (transcription.start_id && !ids.empty() && ids.front() == *transcription.start_id)
    ids.erase(ids.begin());
  const std::optional<int64_t> end = tokenizer.id_of(Tokenizer::Role::kEnd);
  if (end && (ids.empty() || ids.back() != *end)) ids.push_back(*end);
  if (transcription.most_tokens > 0 && static_cast<int64_t>(ids.size()) > transcription.most_tokens)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the transcript has {} tokens, but the model takes {} at most; cut the recording", path,
         ids.size(), transcription.most_tokens);
  return ids;
}

// Throws for a recording that cannot be read whatever is in it, before the work on others begins.
void require_readable(const std::string& path) {
  if (format_of_name(path) != SoundFormat::kWav) require_sound_library(path);
}

// Returns the names of the recordings of a folder without classes, sorted.
std::vector<std::string> find_recordings(const std::string& path, bool has_transcripts) {
  require_folder(path, sound_files(), kFlatLayout);
  const std::string extensions = fmt::format("{}", fmt::join(sound_files().extensions, ", "));
  std::vector<std::string> files;
  std::set<std::string> transcripts;
  each_visible_entry(path, [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (entry.is_directory(ignored))
      fail(WEFT_INVALID_ARGUMENT, "{}: this is a folder; {}", entry.path().string(), kFlatLayout);
    if (sound_files().has_name_of(name))
      files.push_back(name);
    else if (entry.path().extension() == ".txt")
      transcripts.insert(name);
    else
      fail(WEFT_INVALID_ARGUMENT,
           "{}: this is neither a recording ({}) nor a transcript (.txt) by its name; convert or remove it",
           entry.path().string(), extensions);
  });
  if (files.empty()) fail(WEFT_INVALID_ARGUMENT, "{}: the folder has no recordings ({})", path, extensions);
  std::sort(files.begin(), files.end());
  if (!has_transcripts) return files;
  std::map<std::string, std::string> wanted;  // the recordings by their transcripts
  for (const std::string& file : files) {
    const std::string transcript = fs::path(file).replace_extension(".txt").string();
    if (const auto [other, is_new] = wanted.try_emplace(transcript, file); !is_new)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: {} and {} would both have the transcript {}; remove one, or give it another name and a "
           "transcript of its own",
           path, other->second, file, transcript);
    if (!transcripts.contains(transcript))
      fail(WEFT_NOT_FOUND, "{}/{}: this recording has no transcript: {} is not there", path, file,
           transcript);
  }
  for (const std::string& transcript : transcripts)
    if (!wanted.contains(transcript))
      fail(WEFT_INVALID_ARGUMENT, "{}/{}: this transcript has no recording; remove it", path, transcript);
  return files;
}

}  // namespace

std::shared_ptr<Dataset> sound_folder(const std::string& path, const SoundOptions& options) {
  return sound_folder(path, options, own_name);
}

std::shared_ptr<Dataset> sound_folder(const std::string& path, const SoundOptions& options,
                                      const SettingName& called) {
  if (options.classes && options.transcription)
    fail(WEFT_INVALID_ARGUMENT, "recordings have classes or transcripts as labels, not both");
  check_held_out(options.held_out, options.part, "recordings", called);
  const auto of_part = [&](const FileClass& whole) {
    return files_of_part(whole, options.part, options.held_out, options.seed);
  };
  std::vector<Sample> samples;
  size_t most_labels = 1;
  if (options.classes) {
    const std::vector<FileClass> classes = find_classes(path, sound_files());
    const std::vector<int64_t> labels = labels_of(path, classes, options.label_of, options.num_labels);
    for (size_t i = 0; i < classes.size(); ++i)
      for (const std::string& file : of_part(classes[i]))
        samples.push_back({classes[i].name + "/" + file, {labels[i]}});
  } else {
    const std::vector<std::string> files = find_recordings(path, options.transcription.has_value());
    std::map<std::string, std::vector<int64_t>> labels;
    if (options.transcription)
      for (const std::string& file : files) {
        const std::string transcript = fs::path(path + "/" + file).replace_extension(".txt").string();
        labels[file] = labels_of_transcript(transcript, *options.transcription);
        most_labels = std::max(most_labels, labels[file].size());
      }
    for (const std::string& file : of_part({"", files})) samples.push_back({file, labels[file]});
  }
  if (samples.empty())
    fail(WEFT_INVALID_ARGUMENT, "{}: no recording is held out by {} {}: there are too few; give more", path,
         called("held_out"), options.held_out);
  for (const Sample& sample : samples) require_readable(path + "/" + sample.file);
  const LabelKind kind = options.classes         ? LabelKind::kClass
                         : options.transcription ? LabelKind::kTokens
                                                 : LabelKind::kNone;
  return std::make_shared<SoundFolder>(path, options.processing, kind, std::move(samples), most_labels);
}

std::shared_ptr<Dataset> sound_file(const std::string& path, const SpectrumProcessing& processing) {
  require_readable(path);
  return std::make_shared<SoundFolder>(path, processing, LabelKind::kNone, std::vector<Sample>{{"", {}}}, 1);
}

}  // namespace weft::data
