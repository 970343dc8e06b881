// Recordings that libsndfile reads, and what it would not notice by itself.
#include "sound/sound_library.hpp"

#include <gmock/gmock.h>

#include <boost/crc.hpp>
#include <cmath>
#include <cstring>
#include <numbers>
#include <thread>

#include "support/encoded_sound.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "support/wav.hpp"

namespace weft::data {
namespace {

using test::encoded_sound;
using test::SoundCoding;
using test::wav_bytes;

constexpr int kVorbis = SF_FORMAT_OGG | SF_FORMAT_VORBIS, kOpus = SF_FORMAT_OGG | SF_FORMAT_OPUS;

class SoundLibrary : public testing::Test {
 protected:
  Recording read(const std::string& name, const std::string& bytes, double most_seconds = 0) const {
    // A file system may write a file at once that takes the place of another one.
    std::filesystem::remove(folder_.path() + "/" + name);
    return read_recording(folder_.file(name, bytes), most_seconds);
  }
  test::TemporaryFolder folder_;
};

// Samples in the upper bits, among them the extreme ones.
std::vector<int32_t> samples_of(int bits, size_t count) {
  std::vector<int32_t> samples = {INT32_MIN, 0, INT32_MAX};
  uint32_t state = 1;
  for (size_t i = samples.size(); i < count; ++i)
    samples.push_back(static_cast<int32_t>(state = 1664525 * state + 1013904223));
  for (int32_t& sample : samples) sample &= static_cast<int32_t>(~uint32_t{0} << (32 - bits));
  return samples;
}

std::string wav_of(const SoundCoding& coding, int bits, const std::vector<int32_t>& samples) {
  std::string data;
  for (const int32_t sample : samples) {
    const int32_t value = bits == 8 ? (sample ^ INT32_MIN) : sample;  // which has no sign
    data.append(reinterpret_cast<const char*>(&value) + 4 - bits / 8, static_cast<size_t>(bits / 8));
  }
  return wav_bytes({.channels = static_cast<uint16_t>(coding.channels),
                    .rate = static_cast<uint32_t>(coding.rate),
                    .bits = static_cast<uint16_t>(bits)},
                   data);
}

std::vector<double> sine(int rate, int64_t count, int channels = 1) {
  std::vector<double> samples;
  for (int64_t i = 0; i < count; ++i)
    for (int channel = 0; channel < channels; ++channel)
      samples.push_back(0.5 * std::sin(2 * std::numbers::pi * 440 * static_cast<double>(i) / rate));
  return samples;
}

std::string flac_of(size_t count) {
  return encoded_sound(SoundCoding{}, samples_of(16, count));
}

// The place of the first frame behind the blocks of metadata.
size_t frames_of_flac(const std::string& bytes) {
  size_t at = 4;
  for (bool is_last = false; !is_last;) {
    is_last = (bytes[at] & 0x80) != 0;
    for (size_t i = 1, size = 0; i < 4; ++i) {
      size = size << 8 | static_cast<unsigned char>(bytes[at + i]);
      if (i == 3) at += 4 + size;
    }
  }
  return at;
}

void put(std::string& bytes, size_t at, std::string_view value) {
  bytes.replace(at, value.size(), value);
}

// The places where the pages of an Ogg file begin.
std::vector<size_t> pages_of(const std::string& bytes) {
  std::vector<size_t> pages;
  for (size_t at = 0; at < bytes.size();) {
    pages.push_back(at);
    size_t size = 27 + static_cast<unsigned char>(bytes[at + 26]);
    for (size_t i = 27, end = size; i < end; ++i) size += static_cast<unsigned char>(bytes[at + i]);
    at += size;
  }
  return pages;
}

// Makes the check sum of a page right again.
std::string with_sum(std::string bytes, size_t page) {
  std::vector<size_t> pages = pages_of(bytes);
  pages.push_back(bytes.size());
  const size_t end = *std::upper_bound(pages.begin(), pages.end(), page);
  put(bytes, page + 22, std::string(4, '\0'));
  boost::crc_optimal<32, 0x04C11DB7, 0, 0, false, false> sum;
  sum.process_bytes(bytes.data() + page, end - page);
  const uint32_t value = sum.checksum();
  put(bytes, page + 22, std::string(reinterpret_cast<const char*>(&value), 4));
  return bytes;
}

TEST_F(SoundLibrary, ReadsTheBitsThatWavHas) {
  struct Case {
    const char* name;
    SoundCoding coding;
    int bits;
  };
  const std::vector<Case> cases = {
      {"a.flac", {SF_FORMAT_FLAC | SF_FORMAT_PCM_S8}, 8},
      {"a.flac", {SF_FORMAT_FLAC | SF_FORMAT_PCM_16}, 16},
      {"a.FLAC", {SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 3, 44100}, 24},
      {"a.flac", {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 2, 8000}, 16},
      {"a.aiff", {SF_FORMAT_AIFF | SF_FORMAT_PCM_S8}, 8},
      {"a.aif", {SF_FORMAT_AIFF | SF_FORMAT_PCM_16, 2, 22050}, 16},
      {"a.AIF", {SF_FORMAT_AIFF | SF_FORMAT_PCM_24}, 24},
      {"a.aiff", {SF_FORMAT_AIFF | SF_FORMAT_PCM_32, 1, 96000}, 32},
      {"a.aiff", {SF_FORMAT_AIFF | SF_FORMAT_PCM_16 | SF_ENDIAN_LITTLE}, 16},
  };
  for (const auto& [name, coding, bits] : cases) {
    SCOPED_TRACE(testing::Message() << name << " " << bits << " " << coding.channels);
    const std::vector<int32_t> samples = samples_of(bits, 30000);  // more than one block of reading
    const Recording expected = read("a.wav", wav_of(coding, bits, samples));
    const Recording recording = read(name, encoded_sound(coding, samples));
    EXPECT_EQ(recording.sampling_rate, coding.rate);
    EXPECT_EQ(recording.samples, expected.samples);
  }
  for (const int format : {SF_FORMAT_FLOAT, SF_FORMAT_DOUBLE}) {
    const Recording recording =
        read("a.aiff", encoded_sound<double>({SF_FORMAT_AIFF | format}, {0.5, -1.25, 0}));
    EXPECT_EQ(recording.samples, (std::vector<float>{0.5, -1.25, 0}));
  }
}

// Opus is read at 48 kHz, whatever rate the recording had before.
TEST_F(SoundLibrary, ReadsOggWithinItsLoss) {
  for (const auto& [name, coding] : {std::pair<const char*, SoundCoding>("a.ogg", {kVorbis, 2, 44100}),
                                     {"a.oga", {kVorbis, 1, 16000}},
                                     {"a.opus", {kOpus, 2, 16000}},
                                     {"a.ogg", {kOpus, 1, 48000}}}) {
    SCOPED_TRACE(testing::Message() << name << " " << coding.rate);
    const std::string bytes = encoded_sound(coding, sine(coding.rate, coding.rate, coding.channels));
    const Recording recording = read(name, bytes);
    const int rate = coding.format == kOpus ? 48000 : coding.rate;
    EXPECT_EQ(recording.sampling_rate, rate);
    const std::vector<double> expected = sine(rate, rate);
    ASSERT_EQ(recording.samples.size(), expected.size());
    double error = 0;
    for (size_t i = 0; i < expected.size(); ++i) error += std::pow(recording.samples[i] - expected[i], 2);
    EXPECT_LT(std::sqrt(error / rate), 0.05);
  }
  std::string bytes = encoded_sound({kOpus, 1, 16000}, sine(16000, 4000));
  const Recording expected = read("a.opus", bytes);
  put(bytes, 40, std::string(4, '\0'));  // RFC 7845: a rate that is not known
  EXPECT_EQ(read("a.opus", with_sum(bytes, 0)).samples, expected.samples);
}

// libsndfile would return what is left of most of these.
TEST_F(SoundLibrary, RefusesEveryBeginningOfAFile) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a.flac", flac_of(600)},
      {"a.aiff", encoded_sound({SF_FORMAT_AIFF | SF_FORMAT_PCM_16}, samples_of(16, 600))}};
  for (const auto& file : files)
    for (size_t size = 0; size < file.second.size(); ++size) {
      const bool may_be_one = size == 0 || size >= 4;
      EXPECT_ERROR(read(file.first, file.second.substr(0, size)),
                   may_be_one ? WEFT_DATA_LOSS : WEFT_INVALID_ARGUMENT, file.first)
          << size;
    }
  for (const int format : {kVorbis, kOpus}) {
    const std::string whole = encoded_sound({format}, samples_of(16, 40000));
    ASSERT_GT(pages_of(whole).size(), 3u);
    for (const size_t page : pages_of(whole))
      EXPECT_ERROR(read("a.ogg", whole.substr(0, page)), WEFT_DATA_LOSS, "a.ogg", "cut short") << page;
    for (size_t size = 0; size < whole.size(); size += 97)
      EXPECT_THROW(read("a.ogg", whole.substr(0, size)), Error) << size;
    EXPECT_ERROR(read("a.ogg", whole.substr(0, whole.size() - 1)), WEFT_DATA_LOSS, "cut short");
  }
  const std::string flac = flac_of(9000);
  const Recording all = read("a.flac", flac);
  for (size_t size = 0; size < flac.size(); size += 97)
    EXPECT_THROW(read("a.flac", flac.substr(0, size)), Error) << size;
}

// Check sums cover the frames of FLAC and the pages of Ogg. Other damage gives a recording or an error of
// Weft.
TEST_F(SoundLibrary, SurvivesDamage) {
  const std::string flac = flac_of(200), vorbis = encoded_sound({kVorbis}, sine(16000, 400)),
                    opus = encoded_sound({kOpus}, sine(16000, 400)),
                    aiff = encoded_sound({SF_FORMAT_AIFF | SF_FORMAT_PCM_16}, samples_of(16, 20));
  const size_t frames = frames_of_flac(flac);
  for (const auto& [name, whole, covered] : {std::tuple("a.flac", flac, frames),
                                             {"a.ogg", vorbis, size_t{0}},
                                             {"a.opus", opus, size_t{0}},
                                             {"a.aiff", aiff, aiff.size()}}) {
    ASSERT_FALSE(read(name, whole).samples.empty());
    for (size_t at = 0; at<whole.size(); at += whole.size()> 1000 ? 5 : 1)
      for (const int change : {0x01, 0x80, 0xFF}) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ change);
        try {
          EXPECT_LE(read(name, damaged).samples.size(), 400u * 3);
          EXPECT_LT(at, covered) << name << " " << change;
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr(name));
        }
      }
  }
}

TEST_F(SoundLibrary, RefusesFlacThatStatesSomethingElse) {
  const std::string whole = flac_of(9000);
  const auto with = [&](size_t at, std::string_view value) {
    std::string bytes = whole;
    put(bytes, at, value);
    return bytes;
  };
  // 16000 Hz, 1 channel, 16 bits, 9000 samples: 20, 3, 5 and 36 bits.
  const std::string_view facts("\x03\xE8\x00\xF0\x00\x00\x23\x28", 8);
  ASSERT_EQ(whole.substr(18, 8), facts);
  EXPECT_ERROR(read("a.flac", with(21, "\xFF\xFF\xFF\xFF\xFF")), WEFT_DATA_LOSS, "a.flac", "cut short",
               "68719476735 samples", "has 9000");
  EXPECT_ERROR(read("a.flac", with(21, "\xFF\xFF\xFF\xFF\xFF"), 30), WEFT_DATA_LOSS, "cut short");
  EXPECT_ERROR(read("a.flac", with(24, std::string_view("\x00\x01", 2))), WEFT_DATA_LOSS, "damaged",
               "has 1 samples", "has 9000");
  const std::string unknown = with(24, std::string_view("\x00\x00", 2));
  EXPECT_ERROR(read("a.flac", unknown), WEFT_INVALID_ARGUMENT, "many samples");
  EXPECT_ERROR(read("a.flac", unknown.substr(0, frames_of_flac(whole))), WEFT_INVALID_ARGUMENT, "no samples");
  EXPECT_ERROR(read("a.flac", with(18, std::string_view("\x00\x00\x00", 3))), WEFT_DATA_LOSS, "0 Hz");
  EXPECT_ERROR(read("a.flac", with(18, std::string_view("\xFF\xFF\xF0", 3))), WEFT_DATA_LOSS, "1048575 Hz");
  EXPECT_ERROR(read("a.flac", with(20, std::string_view("\x01\x30", 2))), WEFT_UNIMPLEMENTED, "20 bits");
  EXPECT_ERROR(read("a.flac", with(4, "\x04")), WEFT_DATA_LOSS, "STREAMINFO");
}

TEST_F(SoundLibrary, RefusesAiffThatStatesSomethingElse) {
  const std::string whole = encoded_sound({SF_FORMAT_AIFF | SF_FORMAT_PCM_16}, samples_of(16, 100));
  ASSERT_EQ(whole.substr(12, 4), "COMM");
  const auto with = [&](size_t at, std::string_view value) {
    std::string bytes = whole;
    put(bytes, at, value);
    return bytes;
  };
  const std::string_view none("\0\0\0\0\0\0\0\0\0\0", 10);
  EXPECT_ERROR(read("a.aiff", with(20, none.substr(0, 2))), WEFT_DATA_LOSS, "a.aiff");  // channels
  EXPECT_ERROR(read("a.aiff", with(20, "\xFF\xFF")), WEFT_DATA_LOSS, "a.aiff");
  EXPECT_ERROR(read("a.aiff", with(22, none.substr(0, 4))), WEFT_DATA_LOSS, "it has 0 samples");
  EXPECT_ERROR(read("a.aiff", with(22, "\xFF\xFF\xFF\xFF"), 30), WEFT_DATA_LOSS, "cut short", "4294967295");
  EXPECT_ERROR(read("a.aiff", with(28, none)), WEFT_DATA_LOSS, "0 Hz");
  EXPECT_ERROR(read("a.aiff", with(28, "\x40\x20")), WEFT_DATA_LOSS, "16777216000 Hz");
  EXPECT_ERROR(read("a.aiff", with(38, "xxxx")), WEFT_DATA_LOSS, "chunk \"SSND\"");
  EXPECT_ERROR(read("a.aiff", with(12, "xxxx")), WEFT_DATA_LOSS, "chunk \"COMM\"");
  EXPECT_ERROR(read("a.aiff", encoded_sound<int32_t>({SF_FORMAT_AIFF | SF_FORMAT_PCM_16}, {})),
               WEFT_INVALID_ARGUMENT, "no samples");
  EXPECT_ERROR(read("a.aiff", encoded_sound<double>({SF_FORMAT_AIFF | SF_FORMAT_FLOAT}, {1, NAN})),
               WEFT_DATA_LOSS, "sample 1", "finite number");
  EXPECT_ERROR(read("a.aiff", encoded_sound<double>({SF_FORMAT_AIFF | SF_FORMAT_ULAW}, {1, 0})),
               WEFT_UNIMPLEMENTED, "\"ulaw\"", "ffmpeg");
}

TEST_F(SoundLibrary, RefusesOggThatIsNotOneWholeStream) {
  const std::string whole = encoded_sound({kVorbis}, samples_of(16, 40000));
  const std::vector<size_t> pages = pages_of(whole);
  ASSERT_GT(pages.size(), 4u);
  EXPECT_ERROR(read("a.ogg", encoded_sound<double>({kVorbis}, {})), WEFT_INVALID_ARGUMENT, "no samples");
  EXPECT_ERROR(read("a.ogg", whole + whole), WEFT_UNIMPLEMENTED, "several streams");
  EXPECT_ERROR(read("a.ogg", whole + "TAG"), WEFT_DATA_LOSS, "a.ogg");
  EXPECT_ERROR(read("a.ogg", whole.substr(0, pages[2]) + whole.substr(pages[3])), WEFT_DATA_LOSS,
               "page 2 is missing");
  std::string changed = whole;
  put(changed, 28, "\x80theora");
  EXPECT_ERROR(read("a.ogg", with_sum(changed, 0)), WEFT_UNIMPLEMENTED, "theora", "Vorbis and Opus");
  const std::vector<std::string> positions = {
      {"\0\0\0\0\0\1\0\0", 8}, {"\1\0\0\0\0\0\0\0", 8}, std::string(8, '\xFF')};
  for (const std::string& position : positions) {
    changed = whole;
    put(changed, pages.back() + 6, position);
    EXPECT_ERROR(read("a.ogg", with_sum(changed, pages.back()), 30), WEFT_DATA_LOSS, "a.ogg");
  }
  changed = whole;
  changed[pages.back() + 5] = 0;
  EXPECT_ERROR(read("a.ogg", with_sum(changed, pages.back())), WEFT_DATA_LOSS, "not marked");
}

TEST_F(SoundLibrary, RefusesANameThatLies) {
  const std::string flac = flac_of(100), wav = test::wav_of({0.5}),
                    ogg = encoded_sound({kVorbis}, sine(16000, 99));
  EXPECT_ERROR(read("a.flac", wav), WEFT_INVALID_ARGUMENT, "a.flac", "no FLAC file", "but WAV", ".wav");
  EXPECT_ERROR(read("a.wav", flac), WEFT_INVALID_ARGUMENT, "a.wav", "no WAV file", "but FLAC", ".flac");
  EXPECT_ERROR(read("a.aif", ogg), WEFT_INVALID_ARGUMENT, "no AIFF file", "but Ogg");
  EXPECT_ERROR(read("a.ogg", "ID3 is what mp3 files begin with"), WEFT_INVALID_ARGUMENT, "no Ogg file",
               "\"ID3", "ffmpeg");
  EXPECT_ERROR(read("a.mp3", "ID3"), WEFT_INVALID_ARGUMENT, "a.mp3", "no WAV", "ID3");
  EXPECT_ERROR(read_recording(folder_.path() + "/none.flac"), WEFT_NOT_FOUND, "none.flac");
}

// An hour of silence in a file of a few kilobytes is not made into samples.
TEST_F(SoundLibrary, StopsBehindWhatTheModelReads) {
  const std::string hour = encoded_sound(SoundCoding{.rate = 1000}, std::vector<int32_t>(3'600'000));
  ASSERT_LT(hour.size(), 100'000u);
  EXPECT_ERROR(read("a.flac", hour, 30), WEFT_INVALID_ARGUMENT, "3600.00 s", "reads 30 s; cut it");
  EXPECT_ERROR(read("a.flac", flac_of(16001), 1), WEFT_INVALID_ARGUMENT, "1.00 s");
  EXPECT_EQ(read("a.flac", flac_of(16000), 1).samples.size(), 16000u);
}

TEST_F(SoundLibrary, NamesTheLibraryThatIsMissing) {
  const std::string path = folder_.file("a.flac", flac_of(100));
  const auto read_with = [&](const char* library) { return read_with_library(path, 0, library); };
  EXPECT_ERROR(read_with("libweft_none.so.1"), WEFT_FAILED_PRECONDITION, path, "libweft_none.so.1",
               "apt-get install libsndfile1", "ffmpeg");
  EXPECT_ERROR(require_sound_library(path, "libweft_none.so.1"), WEFT_FAILED_PRECONDITION, "FLAC files");
  EXPECT_ERROR(read_with("libm.so.6"), WEFT_FAILED_PRECONDITION, "libm.so.6", "function sf_open_virtual");
  EXPECT_EQ(read_with(kSoundLibrary).samples.size(), 100u);
}

TEST_F(SoundLibrary, IsReadByThreadsAtOnce) {
  const std::string flac = folder_.file("a.flac", flac_of(20000)),
                    ogg = folder_.file("a.ogg", encoded_sound({kVorbis}, sine(16000, 20000))),
                    damaged = folder_.file("b.flac", flac_of(3).substr(0, 60));
  const Recording whole_flac = read_recording(flac), whole_ogg = read_recording(ogg);
  const auto work = [&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(read_recording(flac).samples, whole_flac.samples);
      EXPECT_ERROR(read_recording(damaged), WEFT_DATA_LOSS, "b.flac");
      EXPECT_EQ(read_recording(ogg).samples, whole_ogg.samples);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace weft::data
