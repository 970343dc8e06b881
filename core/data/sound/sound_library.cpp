#include "sound/sound_library.hpp"

#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <type_traits>

#include "base/dynamic_library.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "sound/whole_file.hpp"

namespace weft::data {

namespace {

// The functions of libsndfile.
struct Functions {
  explicit Functions(const std::string& library) {
    const DynamicLibrary opened(library);
    const auto find = [&](auto*& function, const char* name) {
      void* const found = opened.find(name);
      if (found == nullptr) throw std::runtime_error(fmt::format("{} has no function {}", library, name));
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    find(open, "sf_open_virtual");
    find(read, "sf_readf_double");
    find(error, "sf_error");
    find(text, "sf_strerror");
    find(close, "sf_close");
  }

  decltype(&sf_open_virtual) open;
  decltype(&sf_readf_double) read;
  decltype(&sf_error) error;
  decltype(&sf_strerror) text;
  decltype(&sf_close) close;
};

std::mutex library_mutex;

const Functions& functions_of(const std::string& library, const std::string& path) {
  static auto& opened = *new std::map<std::string, Functions>;
  const std::lock_guard lock(library_mutex);
  const auto found = opened.find(library);
  if (found != opened.end()) return found->second;
  try {
    return opened.emplace(library, Functions(library)).first->second;
  } catch (const std::exception& error) {
    fail(WEFT_FAILED_PRECONDITION,
         "{}: {} files are read with libsndfile, which does not open: {}; install it (on Debian: apt-get "
         "install libsndfile1), or convert the recordings to WAV: {}",
         path, name_of(format_of_name(path)), error.what(), kConvert);
  }
}

// The bytes of a file, as libsndfile wants to read them.
class Memory {
 public:
  explicit Memory(const std::string& bytes) : bytes_(bytes) {}

  static SF_VIRTUAL_IO functions() {
    SF_VIRTUAL_IO io = {};
    io.get_filelen = [](void* memory) { return of(memory).size(); };
    io.seek = [](sf_count_t offset, int whence, void* memory) { return of(memory).seek(offset, whence); };
    io.read = [](void* target, sf_count_t count, void* memory) { return of(memory).read(target, count); };
    io.write = [](const void*, sf_count_t, void*) -> sf_count_t { return 0; };
    io.tell = [](void* memory) { return of(memory).position_; };
    return io;
  }

 private:
  static Memory& of(void* memory) { return *static_cast<Memory*>(memory); }
  sf_count_t size() const { return static_cast<sf_count_t>(bytes_.size()); }
  sf_count_t seek(sf_count_t offset, int whence) {
    const sf_count_t base = whence == SEEK_CUR ? position_ : whence == SEEK_END ? size() : 0;
    sf_count_t target = 0;
    if (!__builtin_add_overflow(base, offset, &target)) position_ = std::clamp<sf_count_t>(target, 0, size());
    return position_;
  }
  sf_count_t read(void* target, sf_count_t count) {
    count = std::clamp<sf_count_t>(count, 0, size() - position_);
    std::memcpy(target, bytes_.data() + position_, static_cast<size_t>(count));
    position_ += count;
    return count;
  }

  const std::string& bytes_;
  sf_count_t position_ = 0;
};

// A file that libsndfile has opened.
class OpenSound {
 public:
  OpenSound(const Functions& functions, const std::string& bytes, const std::string& path)
      : functions_(functions), memory_(bytes) {
    SF_VIRTUAL_IO io = Memory::functions();
    // A failure is kept in static memory of the library.
    const std::lock_guard lock(library_mutex);
    file_ = functions_.open(&io, SFM_READ, &info_, &memory_);
    if (file_ == nullptr)
      fail(WEFT_DATA_LOSS, "{}: the file is damaged: libsndfile does not open it: {}", path,
           functions_.text(nullptr));
  }
  ~OpenSound() { functions_.close(file_); }
  OpenSound(const OpenSound&) = delete;
  OpenSound& operator=(const OpenSound&) = delete;

  const SF_INFO& info() const { return info_; }
  // Reads up to so many samples of each channel, side by side. Returns their number, 0 at the end.
  sf_count_t read(std::vector<double>& target, sf_count_t count) {
    return functions_.read(file_, target.data(), count);
  }
  // Returns what is wrong with what was read last, or null.
  const char* error() const { return functions_.error(file_) == 0 ? nullptr : functions_.text(file_); }

 private:
  const Functions& functions_;
  Memory memory_;
  SF_INFO info_ = {};
  SNDFILE* file_ = nullptr;
};

constexpr size_t kLargest = size_t{1} << 32;  // bytes of a file, and samples of all channels

// Reads to the end, wherever the header says that it is, but not far behind the most that is wanted.
Recording decode(OpenSound& sound, int64_t length, double most_seconds, const std::string& path) {
  constexpr int64_t kBlock = 1 << 16;
  const int64_t channels = sound.info().channels, rate = sound.info().samplerate;
  const int64_t frames = std::max<int64_t>(kBlock / channels, 1);
  std::vector<double> block(static_cast<size_t>(frames * channels));
  Recording recording{rate, {}};
  std::vector<float>& samples = recording.samples;
  while (true) {
    const int64_t count = std::min<int64_t>(sound.read(block, frames), frames);
    if (const char* error = sound.error())
      fail(WEFT_DATA_LOSS, "{}: the file is truncated or damaged behind sample {} of {}: {}", path,
           samples.size(), length, error);
    if (count <= 0) return recording;
    for (int64_t i = 0; i < count; ++i) {
      double sum = 0;
      for (int64_t channel = 0; channel < channels; ++channel)
        sum += block[static_cast<size_t>(i * channels + channel)];
      samples.push_back(static_cast<float>(sum / static_cast<double>(channels)));
      if (!std::isfinite(samples.back()))
        fail(WEFT_DATA_LOSS, "{}: sample {} is no finite number", path, samples.size() - 1);
    }
    const auto seconds = [&](int64_t of) { return static_cast<double>(of) / static_cast<double>(rate); };
    const auto read = static_cast<int64_t>(samples.size());
    if (most_seconds > 0 && seconds(read) > most_seconds)
      fail(WEFT_INVALID_ARGUMENT, "{}: the recording has {:.2f} s, but the model reads {} s; cut it", path,
           seconds(std::max(read, length)), most_seconds);
    if (samples.size() > kLargest / static_cast<size_t>(channels))
      fail(WEFT_INVALID_ARGUMENT, "{}: the recording has more than {} samples of {} channels; cut it", path,
           kLargest / static_cast<size_t>(channels), channels);
  }
}

}  // namespace

void require_sound_library(const std::string& path, const std::string& library) {
  functions_of(library, path);
}

Recording read_with_library(const std::string& path, double most_seconds, const std::string& library) {
  const SoundFormat format = format_of_name(path);
  std::string content = read_file(path, kLargest);
  require_format(format, content, path);
  const Functions& functions = functions_of(library, path);
  const std::optional<int64_t> stated = require_whole(format, content, path);
  remove_limits(format, content);
  OpenSound sound(functions, content, path);
  const SF_INFO& info = sound.info();
  if (info.channels < 1 || info.samplerate < 1 || info.samplerate > 768'000)
    fail(WEFT_DATA_LOSS, "{}: the header is damaged: {} channels, {} Hz (1 to 768000)", path, info.channels,
         info.samplerate);
  if (!stated && info.frames == SF_COUNT_MAX)
    fail(WEFT_DATA_LOSS, "{}: the file is damaged: its last page does not say where the recording ends",
         path);
  const int64_t length = stated.value_or(info.frames);
  Recording recording = decode(sound, length, most_seconds, path);
  const auto read = static_cast<int64_t>(recording.samples.size());
  if (read == 0 && stated == 0) fail(WEFT_INVALID_ARGUMENT, "{}: the recording has no samples", path);
  if (format == SoundFormat::kFlac && length == 0)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: the header does not say how many samples there are, so a missing end would not be noticed; if "
         "nothing is missing, ffmpeg -i FILE OUT.flac writes a file that says it",
         path);
  if (read == 0) fail(WEFT_DATA_LOSS, "{}: the file is damaged: no sample of it can be read", path);
  if (read != length)
    fail(WEFT_DATA_LOSS, "{}: the file is {}: it says that it has {} samples, but it has {}", path,
         read < length ? "cut short" : "damaged", length, read);
  return recording;
}

}  // namespace weft::data
