// FLAC: RFC 9639. Ogg: RFC 3533, with Vorbis (Vorbis I specification, 4.2.2) or Opus (RFC 7845). AIFF:
// Apple's Audio Interchange File Format 1.3 and AIFF-C (draft of 1991).
#include "sound/whole_file.hpp"

#include <algorithm>
#include <boost/crc.hpp>
#include <cmath>
#include <iterator>

#include "base/text.hpp"

namespace weft::data {

namespace {

uint64_t big_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}
uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

// Throws unless so many bytes are left behind the first `at`.
void require_bytes(std::string_view content, size_t at, size_t count, std::string_view what,
                   const std::string& path) {
  if (count > content.size() - at)
    fail(WEFT_DATA_LOSS, "{}: the file is cut short: {} at byte {} has {} bytes, but {} are left", path, what,
         at, count, content.size() - at);
}

// The block STREAMINFO, which is the first, and the places of its facts in the file.
constexpr size_t kFlacBlock = 4, kFlacBlockSize = 38, kFlacRate = 18, kFlacBits = 20, kFlacLength = 21;

int64_t flac_length(std::string_view content, const std::string& path) {
  require_bytes(content, kFlacBlock, kFlacBlockSize, "the block STREAMINFO", path);
  if ((content[kFlacBlock] & 0x7F) != 0 || big_endian(content.substr(kFlacBlock + 1, 3)) != 34)
    fail(WEFT_DATA_LOSS, "{}: the file is damaged: it does not begin with the block STREAMINFO", path);
  if (big_endian(content.substr(kFlacRate, 3)) >> 4 == 0)
    fail(WEFT_DATA_LOSS, "{}: the header is damaged: 0 Hz (1 to 768000)", path);
  const uint64_t bits = (big_endian(content.substr(kFlacBits, 2)) >> 4 & 0x1F) + 1;
  if (bits != 8 && bits != 16 && bits != 24)
    fail(WEFT_UNIMPLEMENTED, "{}: the samples have {} bits; Weft reads FLAC of 8, 16 and 24 bits; {}", path,
         bits, kConvert);
  return static_cast<int64_t>(big_endian(content.substr(kFlacLength, 5)) & 0xF'FFFF'FFFF);
}

// Returns a number of 80 bits: sign, 15 bits of the exponent, 64 of the mantissa.
double extended(std::string_view bytes) {
  const auto upper = static_cast<int>(big_endian(bytes.substr(0, 2)));
  const double magnitude =
      std::ldexp(static_cast<double>(big_endian(bytes.substr(2, 8))), (upper & 0x7FFF) - 16383 - 63);
  return (upper & 0x8000) == 0 ? magnitude : -magnitude;
}

// AIFF-C's names of PCM and of floating point.
constexpr std::string_view kAiffCodings[] = {"NONE", "twos", "sowt", "raw ", "in24",
                                             "in32", "fl32", "FL32", "fl64", "FL64"};

int64_t aiff_length(std::string_view content, const std::string& path) {
  std::optional<int64_t> length;
  bool has_samples = false;
  for (size_t at = 12; at < content.size() && !(length && has_samples);) {
    require_bytes(content, at, 8, "the header of a chunk", path);
    const std::string_view id = content.substr(at, 4);
    const size_t size = big_endian(content.substr(at + 4, 4));
    at += 8;
    require_bytes(content, at, size, fmt::format("the chunk \"{}\"", printable(id)), path);
    const std::string_view chunk = content.substr(at, size);
    const bool has_coding = content.substr(8, 4) == "AIFC";
    if (id == "COMM") {
      if (size < (has_coding ? 22 : 18))
        fail(WEFT_DATA_LOSS, "{}: the file is damaged: the chunk \"COMM\" has {} bytes", path, size);
      length = static_cast<int64_t>(big_endian(chunk.substr(2, 4)));
      // libsndfile takes what is less than 1 Hz as 1 Hz.
      if (const double rate = extended(chunk.substr(8, 10)); !(rate >= 1 && rate <= 768'000))
        fail(WEFT_DATA_LOSS, "{}: the header is damaged: {} Hz (1 to 768000)", path, rate);
      const std::string_view coding = has_coding ? chunk.substr(18, 4) : "NONE";
      if (std::find(std::begin(kAiffCodings), std::end(kAiffCodings), coding) == std::end(kAiffCodings))
        fail(WEFT_UNIMPLEMENTED,
             "{}: the samples have the coding \"{}\"; Weft reads PCM and floating point; {}", path,
             printable(coding), kConvert);
    }
    has_samples = has_samples || id == "SSND";
    at = std::min(at + size + size % 2, content.size());
  }
  if (!length) fail(WEFT_DATA_LOSS, "{}: the file is cut short: it has no chunk \"COMM\"", path);
  if (!has_samples && *length > 0)
    fail(WEFT_DATA_LOSS, "{}: the file is cut short: it has no chunk \"SSND\" with its {} samples", path,
         *length);
  return *length;
}

// The places of the facts in the header of an Ogg page; behind it are the sizes of the segments.
constexpr size_t kPageFlags = 5, kPagePosition = 6, kPageStream = 14, kPageNumber = 18, kPageSum = 22,
                 kPageSegments = 26, kPageHeader = 27;
constexpr int kFirstPage = 2, kLastPage = 4;

uint32_t check_sum(std::string_view page) {
  boost::crc_optimal<32, 0x04C11DB7, 0, 0, false, false> sum;
  sum.process_bytes(page.data(), kPageSum);
  sum.process_bytes("\0\0\0\0", 4);
  sum.process_bytes(page.data() + kPageSum + 4, page.size() - kPageSum - 4);
  return sum.checksum();
}

// Returns the page that begins at a byte.
std::string_view page_at(std::string_view content, size_t at, const std::string& path) {
  require_bytes(content, at, kPageHeader, "the header of a page", path);
  if (content.substr(at, 4) != "OggS")
    fail(WEFT_DATA_LOSS, "{}: the file is damaged: at byte {} there is no page of Ogg", path, at);
  const auto segments = static_cast<unsigned char>(content[at + kPageSegments]);
  size_t size = kPageHeader + segments;
  require_bytes(content, at, size, "the header of a page", path);
  for (const char segment : content.substr(at + kPageHeader, segments))
    size += static_cast<unsigned char>(segment);
  require_bytes(content, at, size, "the page", path);
  const std::string_view page = content.substr(at, size);
  if (check_sum(page) != little_endian(page.substr(kPageSum, 4)))
    fail(WEFT_DATA_LOSS, "{}: the file is damaged: the page at byte {} has another check sum", path, at);
  return page;
}

// The first packet has a page of its own.
constexpr size_t kFirstPacket = kPageHeader + 1, kOpusRate = kFirstPacket + 12;
constexpr std::string_view kOpusHead = "OpusHead", kVorbisHead = "\1vorbis";

// Returns whether packets end at any sample.
bool require_whole_ogg(std::string_view content, const std::string& path) {
  std::string_view page;
  uint64_t number = 0;
  std::string_view stream;
  int64_t position = 0,
          end = 0;  // how many samples the packets up to this page and the last one have; -1: none ends
  for (size_t at = 0; at < content.size(); at += page.size(), ++number) {
    const bool has_ended = number > 0 && (page[kPageFlags] & kLastPage) != 0;
    page = page_at(content, at, path);
    if (number == 0) stream = page.substr(kPageStream, 4);
    if (number > 0 &&
        (has_ended || (page[kPageFlags] & kFirstPage) != 0 || page.substr(kPageStream, 4) != stream))
      fail(WEFT_UNIMPLEMENTED, "{}: the file has several streams, the second one at byte {}; {}", path, at,
           kConvert);
    if (little_endian(page.substr(kPageNumber, 4)) != number)
      fail(WEFT_DATA_LOSS, "{}: the file is damaged: at byte {} is page {}, but page {} is missing", path, at,
           little_endian(page.substr(kPageNumber, 4)), number);
    position = static_cast<int64_t>(little_endian(page.substr(kPagePosition, 8)));
    if (position != -1 && position < end)
      fail(WEFT_DATA_LOSS, "{}: the file is damaged: the page at byte {} ends at sample {}, before {}", path,
           at, position, end);
    if (position != -1) end = position;
    if (const std::string_view packet = page.substr(std::min(kFirstPacket, page.size()));
        number == 0 && !packet.starts_with(kVorbisHead) && !packet.starts_with(kOpusHead))
      fail(WEFT_UNIMPLEMENTED,
           "{}: the stream begins with \"{}\"; of Ogg files, Weft reads those of Vorbis and Opus; {}", path,
           printable(packet.substr(0, 8)), kConvert);
  }
  if ((page[kPageFlags] & kLastPage) == 0)
    fail(WEFT_DATA_LOSS,
         "{}: the file is cut short: its last page is not marked as the end of the recording; if nothing is "
         "missing, ffmpeg -i FILE -c copy OUT.ogg marks it",
         path);
  if (position == -1)
    fail(WEFT_DATA_LOSS, "{}: the file is damaged: its last page does not say where the recording ends",
         path);
  return end > 0;
}

}  // namespace

std::optional<int64_t> require_whole(SoundFormat format, std::string_view content, const std::string& path) {
  if (format == SoundFormat::kFlac) return flac_length(content, path);
  if (format == SoundFormat::kAiff) return aiff_length(content, path);
  return require_whole_ogg(content, path) ? std::nullopt : std::optional<int64_t>(0);
}

void remove_limits(SoundFormat format, std::string& content) {
  if (format == SoundFormat::kFlac) {
    content[kFlacLength] = static_cast<char>(content[kFlacLength] & 0xF0);
    std::fill_n(content.begin() + kFlacLength + 1, 4, '\0');
  }
  if (format != SoundFormat::kOgg || content.compare(kFirstPacket, kOpusHead.size(), kOpusHead) != 0) return;
  const size_t page = kFirstPacket + static_cast<unsigned char>(content[kPageHeader]);
  if (content[kPageSegments] != 1 || page < kOpusRate + 4) return;  // which is malformed for libsndfile, too
  const auto put = [&](size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) content[at + i] = static_cast<char>(value >> (8 * i));
  };
  put(kOpusRate, 48000);
  put(kPageSum, check_sum(std::string_view(content).substr(0, page)));
}

}  // namespace weft::data
