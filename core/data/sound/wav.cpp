// Reads .wav files (Microsoft and IBM, Multimedia programming interface and data specifications 1.0, with the
// extensible format).
#include <bit>
#include <cmath>
#include <cstring>

#include "base/files.hpp"
#include "base/text.hpp"
#include "sound/sound_format.hpp"
#include "weft/data/sound.hpp"

namespace weft::data {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint16_t kPcm = 1, kFloat = 3, kExtensible = 0xFFFE;

// The bytes of a file, read in their order.
class Bytes {
 public:
  Bytes(std::string_view bytes, const std::string& path) : left_(bytes), path_(path) {}

  size_t size() const { return left_.size(); }
  std::string_view take(size_t count, std::string_view what) {
    if (count > left_.size())
      fail(WEFT_DATA_LOSS, "{}: the file is cut short: {} has {} bytes, but {} are left", path_, what, count,
           left_.size());
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  template <class Value>
  Value take(std::string_view what) {
    Value value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }

 private:
  std::string_view left_;
  const std::string& path_;
};

// What the chunk "fmt " says.
struct Format {
  uint16_t coding = 0, channels = 0, block = 0, bits = 0;
  uint32_t rate = 0;
};

Format read_format(std::string_view chunk, const std::string& path) {
  Bytes bytes(chunk, path);
  Format format;
  format.coding = bytes.take<uint16_t>("the format");
  format.channels = bytes.take<uint16_t>("the format");
  format.rate = bytes.take<uint32_t>("the format");
  bytes.take<uint32_t>("the format");  // bytes per second
  format.block = bytes.take<uint16_t>("the format");
  format.bits = bytes.take<uint16_t>("the format");
  if (format.coding == kExtensible) {
    bytes.take(8, "the extensible format");  // its size, the valid bits, the places of the loudspeakers
    format.coding = bytes.take<uint16_t>("the extensible format");
  }
  const bool is_read = format.coding == kPcm
                           ? format.bits == 8 || format.bits == 16 || format.bits == 24 || format.bits == 32
                           : format.coding == kFloat && (format.bits == 32 || format.bits == 64);
  if (!is_read)
    fail(WEFT_UNIMPLEMENTED,
         "{}: the samples have the coding {} with {} bits; Weft reads PCM of 8, 16, 24 and 32 bits (1) and "
         "floating point of 32 and 64 (3); {}",
         path, format.coding, format.bits, kConvert);
  if (format.channels == 0 || format.rate == 0 || format.rate > 768'000 ||
      format.block != format.channels * (format.bits / 8))
    fail(WEFT_DATA_LOSS, "{}: the header is damaged: {} channels of {} bits in {} bytes, {} Hz (1 to 768000)",
         path, format.channels, format.bits, format.block, format.rate);
  return format;
}

// Returns a sample of PCM from its bytes, 8 bits of which have no sign.
double pcm(const char* bytes, uint16_t bits) {
  if (bits == 8) return (static_cast<double>(static_cast<unsigned char>(*bytes)) - 128) / 128;
  uint32_t high = 0;  // the sample in the upper bits
  std::memcpy(reinterpret_cast<char*>(&high) + (4 - bits / 8), bytes, bits / 8);
  return static_cast<double>(static_cast<int32_t>(high)) / 0x1p31;
}

template <class Value>
double real(const char* bytes) {
  Value value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

double sample(const char* bytes, const Format& format) {
  if (format.coding == kPcm) return pcm(bytes, format.bits);
  return format.bits == 32 ? real<float>(bytes) : real<double>(bytes);
}

Recording decode(std::string_view data, const Format& format, const std::string& path) {
  Recording recording{format.rate, std::vector<float>(data.size() / format.block)};
  for (size_t i = 0; i < recording.samples.size(); ++i) {
    double sum = 0;
    for (uint16_t channel = 0; channel < format.channels; ++channel)
      sum += sample(data.data() + i * format.block + channel * (format.bits / 8u), format);
    recording.samples[i] = static_cast<float>(sum / format.channels);
    if (!std::isfinite(recording.samples[i]))
      fail(WEFT_DATA_LOSS, "{}: sample {} is no finite number", path, i);
  }
  return recording;
}

}  // namespace

Recording read_wav(const std::string& path, double most_seconds) {
  constexpr size_t kLargest = size_t{1} << 32;
  const std::string content = read_file(path, kLargest);
  require_format(SoundFormat::kWav, content, path);
  Bytes bytes(std::string_view(content).substr(12), path);
  std::optional<Format> format;
  while (bytes.size() > 0) {
    const std::string_view id = bytes.take(4, "the name of a chunk");
    const uint32_t size = bytes.take<uint32_t>("the size of a chunk");
    const std::string what = fmt::format("the chunk \"{}\"", printable(id));
    const std::string_view chunk = bytes.take(size, what);
    if (size % 2 == 1 && bytes.size() > 0) bytes.take(1, what);
    if (id == "fmt ") format = read_format(chunk, path);
    if (id != "data") continue;
    if (!format) fail(WEFT_DATA_LOSS, "{}: the samples come before their format", path);
    if (chunk.empty()) fail(WEFT_INVALID_ARGUMENT, "{}: the recording has no samples", path);
    if (chunk.size() % format->block != 0)
      fail(WEFT_DATA_LOSS, "{}: {} bytes of samples are no multiple of {}", path, chunk.size(),
           format->block);
    const double seconds = static_cast<double>(chunk.size() / format->block) / format->rate;
    if (most_seconds > 0 && seconds > most_seconds)
      fail(WEFT_INVALID_ARGUMENT, "{}: the recording has {:.2f} s, but the model reads {} s; cut it", path,
           seconds, most_seconds);
    return decode(chunk, *format, path);
  }
  fail(WEFT_DATA_LOSS, "{}: the file is cut short: it has no chunk of samples", path);
}

}  // namespace weft::data
