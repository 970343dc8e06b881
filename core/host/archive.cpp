#include "host/archive.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.hpp"

namespace weft::host {
namespace {

constexpr size_t kBlock = 512;
constexpr uint64_t kLongestText = 1 << 16;   // of a long name, or of the attributes of an entry
constexpr int kMostHeaders = 8;              // of one entry
constexpr uint64_t kMostAfterEnd = 4 << 20;  // tar fills the last record, which has at most 1 MiB by custom

using Block = std::array<char, kBlock>;

std::string_view field(const Block& block, size_t begin, size_t size) {
  const std::string_view all(block.data() + begin, size);
  return all.substr(0, all.find('\0'));
}

// Returns a number of a header, in octal digits or, if it is greater, in bytes; or nothing for another text.
std::optional<uint64_t> number(const Block& block, size_t begin, size_t size) {
  uint64_t value = 0;
  if ((block[begin] & 0x80) != 0) {
    for (size_t i = begin + 1; i < begin + size; ++i) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<uint8_t>(block[i]);
    }
    return value;
  }
  const std::string_view text = trim(field(block, begin, size));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (!text.empty() && (error != std::errc() || end != text.data() + text.size())) return std::nullopt;
  return value;
}

bool has_right_sum(const Block& block) {
  constexpr size_t kBegin = 148, kSize = 8;
  uint64_t sum = kSize * ' ';
  for (size_t i = 0; i < kBlock; ++i)
    if (i < kBegin || i >= kBegin + kSize) sum += static_cast<uint8_t>(block[i]);
  return number(block, kBegin, kSize) == sum;
}

// Returns the records "LENGTH KEY=VALUE\n" of a pax header; of several with the same key the last.
std::map<std::string, std::string, std::less<>> pax_values(std::string_view records) {
  std::map<std::string, std::string, std::less<>> values;
  while (!records.empty()) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<size_t>(end - records.data());
    if (error != std::errc() || length < digits + 2 || length > records.size()) break;
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    if (const size_t equals = record.find('='); equals != std::string_view::npos)
      values[std::string(record.substr(0, equals))] = record.substr(equals + 1);
    records.remove_prefix(length);
  }
  return values;
}

const char* program_for(const Block& block) {
  const std::string_view start(block.data(), block.size());
  if (start.starts_with("\x1f\x8b")) return "gzip";
  if (start.starts_with(std::string_view("\xfd"
                                         "7zXZ\0",
                                         6)))
    return "xz";
  if (start.starts_with("\x28\xb5\x2f\xfd")) return "zstd";
  return nullptr;
}

const char* kind_of_entry(char type) {
  switch (type) {
    case '1':
    case '2':
      return "a link";
    case '3':
    case '4':
      return "a device";
    case '6':
      return "a pipe";
    default:
      return "no file and no folder";
  }
}

}  // namespace

Archive::Archive(const std::filesystem::path& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (!descriptor_) fail(WEFT_NOT_FOUND, "{}: {}", path.string(), std::strerror(errno));
  Block block{};
  const bool is_whole = ::pread(descriptor_.get(), block.data(), kBlock, 0) == static_cast<ssize_t>(kBlock);
  const char* const program = program_for(block);
  if (program == nullptr && (!is_whole || !has_right_sum(block)))
    fail(
        WEFT_INVALID_ARGUMENT,
        "{} is no archive that Weft reads: it must be a tar file, which gzip, xz or zstd may have compressed",
        path.string());
  if (program != nullptr) start_program(program);
}

Archive::~Archive() {
  if (child_ < 0) return;
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Archive::start_program(const char* program) {
  constexpr int kNotStarted = 127;
  std::array<int, 2> ends{};
  const int piped = ::pipe2(ends.data(), O_CLOEXEC);
  Descriptor read_end(piped == 0 ? ends[0] : -1), write_end(piped == 0 ? ends[1] : -1);
  if (piped != 0 || (child_ = ::fork()) < 0)
    fail(WEFT_RESOURCE_EXHAUSTED, "{}: cannot start {}: {}", path_.string(), program, std::strerror(errno));
  if (child_ == 0) {
    ::dup2(descriptor_.get(), STDIN_FILENO);
    ::dup2(write_end.get(), STDOUT_FILENO);
    ::execlp(program, program, "-dc", nullptr);
    ::_exit(kNotStarted);
  }
  descriptor_ = std::move(read_end);
  program_ = program;
}

void Archive::finish() {
  if (child_ < 0) return;
  std::array<char, kBlock * 16> rest;
  uint64_t after_end = 0;
  while (const size_t count = read_some(rest.data(), rest.size()))
    if ((after_end += count) > kMostAfterEnd)
      fail(WEFT_INVALID_ARGUMENT, "{} goes on for more than {} MiB after its end", path_.string(),
           kMostAfterEnd >> 20);
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    fail(WEFT_FAILED_PRECONDITION, "{} needs the program {}, which is not in PATH; install it",
         path_.string(), program_);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail(WEFT_DATA_LOSS, "{} is damaged: {} cannot decompress it", path_.string(), program_);
}

size_t Archive::read_some(char* bytes, size_t size) {
  for (;;) {
    const ssize_t count = ::read(descriptor_.get(), bytes, size);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) fail(WEFT_DATA_LOSS, "{}: {}", path_.string(), std::strerror(errno));
  }
}

void Archive::read_exactly(char* bytes, size_t size) {
  while (size > 0) {
    const size_t count = read_some(bytes, size);
    if (count == 0) {
      finish();
      fail(WEFT_DATA_LOSS, "{} is damaged: it ends before its last entry does", path_.string());
    }
    bytes += count;
    size -= count;
  }
}

void Archive::skip(uint64_t size) {
  std::array<char, kBlock * 16> bytes;
  for (; size > 0; size -= std::min<uint64_t>(size, bytes.size()))
    read_exactly(bytes.data(), std::min<uint64_t>(size, bytes.size()));
}

std::string Archive::read_text(uint64_t size) {
  if (size > kLongestText)
    fail(WEFT_INVALID_ARGUMENT, "{}: a name of {} bytes is too long", path_.string(), size);
  std::string text(size, '\0');
  read_exactly(text.data(), size);
  skip((kBlock - size % kBlock) % kBlock);
  return text;
}

std::filesystem::path Archive::plain_path(const std::string& name) const {
  std::filesystem::path path;
  for (const std::string& part : split(name, '/')) {
    if (part == ".") continue;
    if (name.starts_with('/') || !is_plain_name(part))
      fail(WEFT_INVALID_ARGUMENT,
           "{} holds \"{}\": a path must consist of names of letters, digits and _ - . +, and stay inside",
           path_.string(), printable(name));
    path /= part;
  }
  return path;
}

bool Archive::next(Entry& entry) {
  skip(std::exchange(left_, 0) + std::exchange(padding_, 0));
  std::string long_name;
  std::map<std::string, std::string, std::less<>> attributes;
  for (int headers = 0;; ++headers) {
    Block block{};
    read_exactly(block.data(), kBlock);
    if (std::all_of(block.begin(), block.end(), [](char byte) { return byte == 0; })) {
      finish();
      return false;
    }
    std::optional<uint64_t> size = number(block, 124, 12);
    if (!has_right_sum(block) || !size)
      fail(WEFT_DATA_LOSS, "{} is damaged: the header of an entry is wrong", path_.string());
    if (headers > kMostHeaders)
      fail(WEFT_INVALID_ARGUMENT, "{} has an entry with more than {} headers", path_.string(), kMostHeaders);
    const char type = block[156];
    if (type == 'L') {
      long_name = read_text(*size);
      long_name = long_name.substr(0, long_name.find('\0'));
    } else if (type == 'x' || type == 'g') {
      const std::string records = read_text(*size);
      if (type == 'x') attributes = pax_values(records);
    } else {
      const bool is_ustar = std::memcmp(&block[257], "ustar", 6) == 0;  // GNU has other fields there
      const std::string_view prefix = is_ustar ? field(block, 345, 155) : "";
      std::string name(field(block, 0, 100));
      if (!prefix.empty()) name = fmt::format("{}/{}", prefix, name);
      if (!long_name.empty()) name = long_name;
      if (const auto given = attributes.find("path"); given != attributes.end()) name = given->second;
      if (type != '0' && type != '\0' && type != '5')
        fail(WEFT_INVALID_ARGUMENT, "{} holds \"{}\", which is {}; a plugin consists of files and folders",
             path_.string(), printable(name), kind_of_entry(type));
      const auto sparse = attributes.lower_bound("GNU.sparse.");
      if (sparse != attributes.end() && sparse->first.starts_with("GNU.sparse."))
        fail(WEFT_INVALID_ARGUMENT, "{} holds \"{}\" as a sparse file; pack it without --sparse",
             path_.string(), printable(name));
      if (attributes.contains("size"))
        fail(WEFT_INVALID_ARGUMENT, "{} holds \"{}\", which is too long", path_.string(), printable(name));
      entry = {plain_path(name), type == '5' || name.ends_with('/'), *size};
      left_ = *size;
      padding_ = (kBlock - *size % kBlock) % kBlock;
      return true;
    }
  }
}

size_t Archive::read(char* bytes, size_t size) {
  const size_t count = std::min<uint64_t>(size, left_);
  read_exactly(bytes, count);
  left_ -= count;
  return count;
}

}  // namespace weft::host
