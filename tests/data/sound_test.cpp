// Reading recordings, their spectra, and folders of them.
#include <ATen/ops/all.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "support/encoded_sound.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "support/wav.hpp"
#include "weft/data/sound.hpp"

namespace weft::data {
namespace {

using nlohmann::json;
using test::wav_bytes;
using test::wav_of;
using test::WavHeader;

class Sound : public testing::Test {
 protected:
  Recording read(const std::string& bytes, double most_seconds = 0) const {
    return read_wav(folder_.file("a.wav", bytes), most_seconds);
  }
  std::string path() const { return folder_.path() + "/"; }
  test::TemporaryFolder folder_;
};

template <class Value>
std::string bytes_of(const std::vector<Value>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
}

TEST_F(Sound, IsReadInEveryCoding) {
  const std::vector<float> expected = {0.5, -0.25, 0, -1};
  const std::string pcm24("\x00\x00\x40\x00\x00\xE0\x00\x00\x00\x00\x00\x80", 12);
  const std::vector<std::pair<WavHeader, std::string>> files = {
      {{.bits = 8}, bytes_of<uint8_t>({192, 96, 128, 0})},
      {{.bits = 16}, bytes_of<int16_t>({16384, -8192, 0, -32768})},
      {{.bits = 24}, pcm24},
      {{.bits = 32}, bytes_of<int32_t>({1 << 30, -(1 << 29), 0, std::numeric_limits<int32_t>::min()})},
      {{.coding = 3, .bits = 32}, bytes_of<float>({0.5, -0.25, 0, -1})},
      {{.coding = 3, .bits = 64}, bytes_of<double>({0.5, -0.25, 0, -1})},
      {{.bits = 16, .extensible = true}, bytes_of<int16_t>({16384, -8192, 0, -32768})},
      {{.coding = 3, .bits = 32, .extensible = true}, bytes_of<float>({0.5, -0.25, 0, -1})},
      {{.channels = 2, .bits = 16}, bytes_of<int16_t>({32767, 1, -16384, 0, 10, -10, -32768, -32768})},
  };
  for (const auto& [header, data] : files) {
    SCOPED_TRACE(testing::Message() << header.coding << " " << header.bits << " " << header.channels);
    const Recording recording = read(wav_bytes(header, data));
    EXPECT_EQ(recording.sampling_rate, 16000);
    EXPECT_EQ(recording.samples, expected);
  }
}

// Whatever is missing at the end, the file is refused, and nothing is read behind it.
TEST_F(Sound, IsRefusedIfItIsCutShort) {
  const std::string whole = wav_of({0.5, 0.25, 0.125});
  for (size_t size = 0; size < whole.size(); ++size) {
    const bool may_be_wav = size == 0 || size >= 4;
    EXPECT_ERROR(read(whole.substr(0, size)), may_be_wav ? WEFT_DATA_LOSS : WEFT_INVALID_ARGUMENT, "a.wav")
        << size;
  }
}

TEST_F(Sound, IsRefusedByNameIfItIsNotRead) {
  const std::string data = bytes_of<int16_t>({1, 2});
  EXPECT_ERROR(read("ID3 is what mp3 files begin with"), WEFT_INVALID_ARGUMENT, "a.wav: this is no WAV file",
               "ID3");
  EXPECT_ERROR(read(wav_bytes({.coding = 7, .bits = 8}, data)), WEFT_UNIMPLEMENTED,
               "the coding 7 with 8 bits");
  EXPECT_ERROR(read(wav_bytes({.bits = 12}, data)), WEFT_UNIMPLEMENTED, "12 bits");
  EXPECT_ERROR(read(wav_bytes({.channels = 0}, data)), WEFT_DATA_LOSS, "0 channels");
  EXPECT_ERROR(read(wav_bytes({.rate = 0}, data)), WEFT_DATA_LOSS, "0 Hz");
  EXPECT_ERROR(read(wav_bytes({}, "abc")), WEFT_DATA_LOSS, "3 bytes of samples");
  EXPECT_ERROR(read(wav_bytes({}, "")), WEFT_INVALID_ARGUMENT, "has no samples");
  EXPECT_ERROR(read(wav_bytes({.coding = 3, .bits = 32}, bytes_of<float>({1, NAN}))), WEFT_DATA_LOSS,
               "sample 1 is no finite number");
  EXPECT_ERROR(read(wav_of(std::vector<float>(16001)), 1), WEFT_INVALID_ARGUMENT, "1.00 s", "reads 1 s");
  EXPECT_EQ(read(wav_of(std::vector<float>(16000)), 1).samples.size(), 16000u);
}

// Any damaged byte gives a recording or an error of Weft.
TEST_F(Sound, SurvivesDamage) {
  const std::string whole = wav_bytes({.channels = 2, .extensible = true}, bytes_of<int16_t>({1, 2, 3, 4}));
  int refused = 0;
  for (size_t at = 0; at < whole.size(); ++at)
    for (const int value : {0, 1, 0x7F, 0xFF}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(value);
      try {
        EXPECT_LE(read(damaged).samples.size(), 8u);
      } catch (const Error&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, 50);
}

std::vector<float> sine(double hertz, int64_t rate, int64_t count) {
  std::vector<float> samples;
  for (int64_t i = 0; i < count; ++i)
    samples.push_back(static_cast<float>(
        0.5 * std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / static_cast<double>(rate))));
  return samples;
}

// A tone stays the same tone, and one that the lower rate cannot hold disappears.
TEST(Resampling, KeepsTonesAndLeavesOutAliases) {
  const std::vector<std::pair<int64_t, int64_t>> rates = {{44100, 16000}, {8000, 16000},  {48000, 16000},
                                                          {22050, 16000}, {16000, 11025}, {16001, 16000}};
  for (const auto& [from, to] : rates) {
    SCOPED_TRACE(testing::Message() << from << " to " << to);
    const Recording tone = resampled({from, sine(440, from, from / 2)}, to);
    EXPECT_EQ(tone.sampling_rate, to);
    ASSERT_EQ(static_cast<int64_t>(tone.samples.size()), (from / 2 * to + from - 1) / from);
    const std::vector<float> expected = sine(440, to, static_cast<int64_t>(tone.samples.size()));
    const size_t edge = 64;  // silence before and after the recording is heard there
    for (size_t i = edge; i + edge < expected.size(); ++i)
      ASSERT_NEAR(tone.samples[i], expected[i], 5e-4) << i;
    if (from < 1.1 * static_cast<double>(to)) continue;
    const double too_high = 0.49 * static_cast<double>(from);
    const Recording alias = resampled({from, sine(too_high, from, from / 2)}, to);
    for (size_t i = edge; i + edge < alias.samples.size(); ++i) ASSERT_NEAR(alias.samples[i], 0, 2e-3) << i;
  }
  const Recording same = {16000, {1, 2, 3}};
  EXPECT_EQ(resampled(same, 16000).samples, same.samples);
  EXPECT_ERROR(resampled(same, 0), WEFT_INVALID_ARGUMENT, "0 Hz");
}

// See noise() of tests/oracles/spectra/generate.py.
std::vector<float> noise(int64_t count) {
  std::vector<float> values;
  uint64_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = (1103515245 * state + 12345) % (uint64_t{1} << 31);
    values.push_back(static_cast<float>((static_cast<double>(state >> 15) - 32768) / 32768 *
                                        static_cast<double>(i % 4000) / 4000));
  }
  return values;
}

const json& oracle() {
  static const json values = json::parse(std::ifstream(WEFT_ORACLES "/spectra/spectra.json")).at("cases");
  return values;
}

TEST_F(Sound, HasTheSpectrumOfTransformers) {
  ASSERT_EQ(oracle().size(), 4u);
  for (const json& one : oracle()) {
    SCOPED_TRACE(one.at("processing").dump());
    json file = one.at("processing");
    file["feature_extractor_type"] = "WhisperFeatureExtractor";
    const auto processing =
        SpectrumProcessing::load(folder_.file("p.json", file.dump()), {"WhisperFeatureExtractor"});
    const at::Tensor spectrum =
        log_mel_spectrum({processing.sampling_rate, noise(one.at("samples").get<int64_t>())}, processing);
    const json& expected = one.at("spectrum");
    ASSERT_EQ(spectrum.sizes(), at::IntArrayRef({static_cast<int64_t>(expected.size()),
                                                 static_cast<int64_t>(expected[0].size())}));
    for (size_t bin = 0; bin < expected.size(); ++bin)
      for (size_t frame = 0; frame < expected[bin].size(); ++frame)
        ASSERT_NEAR(spectrum.data_ptr<float>()[bin * expected[bin].size() + frame],
                    expected[bin][frame].get<float>(), 1e-4)
            << bin << ", " << frame;
  }
}

TEST_F(Sound, ReadsThePreprocessorsFile) {
  const auto load = [&](const json& values) {
    return SpectrumProcessing::load(folder_.file("p.json", values.dump()), {"WhisperFeatureExtractor"});
  };
  EXPECT_EQ(load(json::object()), SpectrumProcessing());
  // As older versions of transformers write it.
  const json whisper = {{"chunk_length", 30},
                        {"feature_extractor_type", "WhisperFeatureExtractor"},
                        {"feature_size", 80},
                        {"hop_length", 160},
                        {"mel_filters", {{0, 1}}},
                        {"n_fft", 400},
                        {"n_samples", 480000},
                        {"nb_max_frames", 3000},
                        {"padding_side", "right"},
                        {"padding_value", 0.0},
                        {"processor_class", "WhisperProcessor"},
                        {"return_attention_mask", false},
                        {"sampling_rate", 16000},
                        {"dither", 0.0}};
  EXPECT_EQ(load(whisper), SpectrumProcessing());
  EXPECT_EQ(load(whisper).frames(), 3000);
  EXPECT_ERROR(load({{"feature_extractor_type", "SeamlessM4TFeatureExtractor"}}), WEFT_UNIMPLEMENTED,
               "SeamlessM4T", "WhisperFeatureExtractor");
  EXPECT_ERROR(load({{"dither", 0.1}}), WEFT_INVALID_ARGUMENT, "\"dither\" is 0.1");
  EXPECT_ERROR(load({{"do_normalize", true}}), WEFT_UNIMPLEMENTED, "\"do_normalize\"");
  EXPECT_ERROR(load({{"feature_size", 0}}), WEFT_INVALID_ARGUMENT, "from 1 to 1024");
  EXPECT_ERROR(load({{"n_fft", 65536}, {"chunk_length", 1}, {"sampling_rate", 16000}}), WEFT_INVALID_ARGUMENT,
               "half of \"n_fft\"");
}

// A folder of three recordings with transcripts, and a tokenizer of their bytes.
class SoundFolder : public Sound {
 protected:
  void SetUp() override {
    for (const char* folder : {"sounds", "tokenizer", "classes", "classes/yes", "classes/no"})
      std::filesystem::create_directory(path() + folder);
    for (const auto& [name, text] :
         {std::pair("b", "two words\n"), {"a", "one"}, {"c", " three more words "}}) {
      folder_.file(std::string("sounds/") + name + ".wav", wav_of(noise(4000 + 400 * name[0])));
      folder_.file(std::string("sounds/") + name + ".txt", text);
    }
    folder_.file("text", "one two three words more");
    train_bpe({path() + "text"}, path() + "tokenizer", {.vocabulary_size = 257});
    options_.processing.chunk_length = 4;
    options_.processing.return_attention_mask = true;
    options_.transcription = Transcription{Tokenizer::open(path() + "tokenizer"), 7, 0};
  }
  std::shared_ptr<Dataset> open() const { return sound_folder(path() + "sounds", options_); }
  SoundOptions options_;
};

TEST_F(SoundFolder, HasSpectraMasksAndTokens) {
  const std::shared_ptr<Dataset> dataset = open();
  ASSERT_EQ(dataset->size(), 3);
  const Batch batch = dataset->get({0, 2, 1});
  const at::Tensor& spectra = batch.at("input_features");
  EXPECT_EQ(spectra.sizes(), at::IntArrayRef({3, 80, 400}));
  const Recording second = read_wav(path() + "sounds/c.wav");
  EXPECT_TRUE(spectra[1].equal(log_mel_spectrum(second, options_.processing)));
  EXPECT_EQ(batch.at("attention_mask").sum(1)[1].item<int64_t>(), (second.samples.size() + 159) / 160);
  EXPECT_EQ(batch.at("attention_mask")[1][0].item<int64_t>(), 1);
  // The longest transcript decides the columns; its text is followed by the end.
  const Tokenizer& tokenizer = options_.transcription->tokenizer;
  const at::Tensor& labels = batch.at("labels");
  const int64_t end = *tokenizer.id_of(Tokenizer::Role::kEnd);
  ASSERT_EQ(labels.sizes(), at::IntArrayRef({3, 17}));
  for (const auto& [row, text] : {std::pair(0, "one"), {1, "three more words"}, {2, "two words"}}) {
    std::vector<int64_t> ids = tokenizer.encode(text);
    ids.push_back(end);
    ids.resize(17, -100);
    EXPECT_TRUE(labels[row].equal(at::tensor(ids, at::kLong))) << text;
  }
  // A part has labels of the same length.
  options_.held_out = 0.4;
  options_.part = Part::kHeldOut;
  EXPECT_EQ(open()->size(), 1);
  EXPECT_EQ(open()->get({0}).at("labels").size(1), 17);
  options_.part = Part::kTraining;
  EXPECT_EQ(open()->size(), 2);
}

TEST_F(SoundFolder, LeavesTheFirstTokenOfTheDecoderToTheModel) {
  options_.transcription->start_id = options_.transcription->tokenizer.encode("o").front();
  EXPECT_EQ(open()->get({0}).at("labels")[0][0].item<int64_t>(),
            options_.transcription->tokenizer.encode("n").front());
}

TEST_F(SoundFolder, NeedsATranscriptForEachRecording) {
  folder_.file("sounds/d.txt", "no recording");
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "sounds/d.txt", "has no recording");
  folder_.file("sounds/d.wav", wav_of({0.5}));
  folder_.file("sounds/d.txt", " \n");
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "sounds/d.txt", "empty");
  std::filesystem::remove(path() + "sounds/d.txt");
  EXPECT_ERROR(open(), WEFT_NOT_FOUND, "sounds/d.wav", "d.txt is not there");
  std::filesystem::remove(path() + "sounds/d.wav");
  options_.transcription->most_tokens = 16;
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "sounds/c.txt", "17 tokens", "16 at most");
  options_.transcription->most_tokens = 17;
  EXPECT_EQ(open()->size(), 3);
  folder_.file("sounds/e.mp3", "x");
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "sounds/e.mp3",
               "neither a recording (.wav, .flac, .ogg, .opus, .oga, .aiff, .aif) nor a transcript (.txt)");
  std::filesystem::remove(path() + "sounds/e.mp3");
  std::filesystem::create_directory(path() + "sounds/f");
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "sounds/f: this is a folder");
  options_.held_out = 1;
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "held_out is 1");
  options_.held_out = 0;
  EXPECT_ERROR(sound_folder(path() + "none", options_), WEFT_NOT_FOUND, "folder of recordings");
}

// A FLAC file in the place of a WAV file changes nothing, and needs a name of its own.
TEST_F(SoundFolder, MixesFormats) {
  const Batch expected = open()->get({0, 1, 2});
  std::vector<int32_t> samples;
  for (const float sample : noise(4000 + 400 * 'b'))
    samples.push_back(static_cast<int32_t>(static_cast<int16_t>(sample * 32767)) * 65536);
  folder_.file("sounds/b.FLAC", test::encoded_sound(test::SoundCoding{}, samples));
  EXPECT_ERROR(open(), WEFT_INVALID_ARGUMENT, "sounds: b.FLAC and b.wav", "b.txt");
  std::filesystem::remove(path() + "sounds/b.wav");
  const Batch mixed = open()->get({0, 1, 2});
  for (const char* field : {"input_features", "attention_mask", "labels"})
    EXPECT_TRUE(mixed.at(field).equal(expected.at(field))) << field;
  EXPECT_TRUE(sound_file(path() + "sounds/b.FLAC", options_.processing)
                  ->get({0})
                  .at("input_features")[0]
                  .equal(expected.at("input_features")[1]));
  // Without transcripts both are recordings.
  folder_.file("sounds/b.wav", wav_of({0.5}));
  options_.transcription.reset();
  EXPECT_EQ(open()->size(), 4);
}

TEST_F(SoundFolder, HasClasses) {
  folder_.file("classes/yes/1.wav", wav_of(noise(100)));
  folder_.file("classes/no/1.wav", wav_of(noise(200), 8000));
  folder_.file("classes/no/2.WAV", wav_of(noise(300)));
  SoundOptions options;
  options.processing.chunk_length = 1;
  options.classes = true;
  const auto dataset = sound_folder(path() + "classes", options);
  const Batch batch = dataset->get({0, 1, 2});
  EXPECT_FALSE(batch.has("attention_mask"));
  EXPECT_TRUE(batch.at("labels").equal(at::tensor({0, 0, 1}, at::kLong)));
  // Of another rate.
  EXPECT_TRUE(batch.at("input_features")[0].equal(
      log_mel_spectrum(resampled(read_wav(path() + "classes/no/1.wav"), 16000), options.processing)));
  options.transcription = options_.transcription;
  EXPECT_ERROR(sound_folder(path() + "classes", options), WEFT_INVALID_ARGUMENT, "not both");
  options.transcription.reset();
  options.label_of = {{"yes", 1}};
  EXPECT_ERROR(sound_folder(path() + "classes", options), WEFT_INVALID_ARGUMENT, "\"no\"");
}

TEST_F(SoundFolder, NamesTheFileThatIsDamaged) {
  folder_.file("sounds/b.wav", wav_of(noise(400)).substr(0, 300));
  const auto dataset = open();
  EXPECT_EQ(dataset->get({0}).at("labels").size(0), 1);
  EXPECT_ERROR(dataset->get({1}), WEFT_DATA_LOSS, "sounds/b.wav", "cut short");
  folder_.file("sounds/b.wav", wav_of(std::vector<float>(16000 * 5)));
  EXPECT_ERROR(dataset->get({1}), WEFT_INVALID_ARGUMENT, "sounds/b.wav", "5.00 s");
}

TEST_F(SoundFolder, OpensOneFile) {
  const auto dataset = sound_file(path() + "sounds/a.wav", options_.processing);
  EXPECT_EQ(dataset->size(), 1);
  EXPECT_TRUE(dataset->get({0}).at("input_features").equal(open()->get({0}).at("input_features")));
  EXPECT_FALSE(dataset->get({0}).has("labels"));
}

}  // namespace
}  // namespace weft::data
