#include "text/token_cache.hpp"

#include <c10/util/ScopeExit.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/text.hpp"
#include "text/cache_places.hpp"
#include "weft/error.hpp"

namespace weft::data {

namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr uint32_t kVersion = 4;
constexpr size_t kFlushBytes = 1 << 20;
constexpr const char* kMaking = ".making-";

struct Header {
  char mark[8] = {'w', 'e', 'f', 't', ' ', 'i', 'd', 's'};
  uint32_t version = kVersion, bytes_per_id = 0;
  uint64_t ids = 0, documents = 0, unlabelled = 0, description = 0;
  uint64_t checksum = 0;  // of the blocks, then of the fields before this one
  uint64_t zero = 0;
};
static_assert(sizeof(Header) == 64);

// Makes a file, and follows no link that has its name. Everybody who may write to a file decides what is
// learned from it, so only its user may.
std::FILE* new_file(const fs::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  return file < 0 ? nullptr : ::fdopen(file, "wb");
}

uint64_t padded(uint64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

// Continues a sum over whole words of 8 bytes. Each step is a bijection of the sum, so one changed word
// always changes the result.
uint64_t checksum_of(uint64_t sum, const char* bytes, size_t size) {
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, 8);
    sum = std::rotl((sum ^ word) * 0x9e3779b97f4a7c15u, 29);
  }
  return sum;
}

uint64_t with_header(uint64_t sum, const Header& header) {
  return checksum_of(sum, reinterpret_cast<const char*>(&header), offsetof(Header, checksum));
}

// Returns the size of the file that a header describes, or 0 if no file can be as large.
uint64_t size_of(const Header& header) {
  constexpr uint64_t kMost = uint64_t{1} << 56;
  for (const uint64_t count : {header.ids, header.documents, header.unlabelled, header.description})
    if (count > kMost / 64) return 0;
  return sizeof(Header) + padded(header.ids * header.bytes_per_id) + 16 * header.documents +
         sizeof(IdRange) * header.unlabelled + padded(header.description);
}

}  // namespace

std::optional<TokenCache> TokenCache::open(const fs::path& path) {
  const int file = open_believed(path);
  if (file < 0) return std::nullopt;
  const auto close = c10::make_scope_exit([&] { ::close(file); });
  TokenCache cache;
  cache.file_ = std::make_shared<MappedFile>(file, path.string());
  const std::string_view bytes = cache.file_->bytes();
  Header header;
  const Header expected;
  if (bytes.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.mark, expected.mark, sizeof(header.mark)) != 0 || header.version != kVersion ||
      (header.bytes_per_id != 2 && header.bytes_per_id != 4) || size_of(header) != bytes.size())
    return std::nullopt;
  const std::string_view blocks = bytes.substr(sizeof(header));
  if (with_header(checksum_of(0, blocks.data(), blocks.size()), header) != header.checksum)
    return std::nullopt;
  cache.bytes_per_id_ = static_cast<int>(header.bytes_per_id);
  cache.ids_ = static_cast<int64_t>(header.ids);
  cache.first_id_ = blocks.data();
  const char* const begins = blocks.data() + padded(header.ids * header.bytes_per_id);
  cache.begins_ = {reinterpret_cast<const uint64_t*>(begins), header.documents};
  cache.offsets_ = {cache.begins_.data() + header.documents, header.documents};
  const char* const ranges = begins + 16 * header.documents;
  cache.unlabelled_ = {reinterpret_cast<const IdRange*>(ranges), header.unlabelled};
  cache.description_ = {ranges + sizeof(IdRange) * header.unlabelled, header.description};
  return cache;
}

void TokenCache::copy(int64_t begin, int64_t count, int64_t* out) const {
  if (bytes_per_id_ == 2)
    std::copy_n(static_cast<const uint16_t*>(first_id_) + begin, count, out);
  else
    std::copy_n(static_cast<const uint32_t*>(first_id_) + begin, count, out);
}

std::span<const IdRange> TokenCache::unlabelled_from(int64_t begin) const {
  const auto first =
      std::upper_bound(unlabelled_.begin(), unlabelled_.end(), static_cast<uint64_t>(begin),
                       [](uint64_t position, const IdRange& range) { return position < range.end; });
  return {first, unlabelled_.end()};
}

TokenCacheWriter::TokenCacheWriter(fs::path path, int64_t vocabulary_size)
    : path_(std::move(path)),
      temporary_(path_.string() + kMaking + std::to_string(::getpid())),
      bytes_per_id_(vocabulary_size <= 1 << 16 ? 2 : 4),
      file_(new_file(temporary_)) {
  if (file_ == nullptr) refuse();
  const Header none{.mark = {}};
  if (std::fwrite(&none, sizeof(none), 1, file_) != 1) refuse();
}

TokenCacheWriter::~TokenCacheWriter() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void TokenCacheWriter::refuse() const {
  const int code = errno;
  fail(code == ENOSPC || code == EDQUOT ? WEFT_RESOURCE_EXHAUSTED : WEFT_UNAVAILABLE,
       "cannot write token ids to {}: {}", temporary_.string(), std::strerror(code));
}

void TokenCacheWriter::flush() {
  const size_t words = pending_.size() / 8 * 8;
  checksum_ = checksum_of(checksum_, pending_.data(), words);
  if (words > 0 && std::fwrite(pending_.data(), words, 1, file_) != 1) refuse();
  pending_.erase(0, words);
}

void TokenCacheWriter::write(const void* bytes, size_t size) {
  pending_.append(static_cast<const char*>(bytes), size);
  if (pending_.size() >= kFlushBytes) flush();
}

void TokenCacheWriter::pad() {
  pending_.resize(padded(pending_.size()));
}

void TokenCacheWriter::add(const EncodedPiece& piece) {
  for (const int64_t begin : piece.begins) begins_.push_back(ids_ + static_cast<uint64_t>(begin));
  offsets_.insert(offsets_.end(), piece.offsets.begin(), piece.offsets.end());
  for (const auto& [begin, end] : piece.unlabelled)
    unlabelled_.push_back({ids_ + static_cast<uint64_t>(begin), ids_ + static_cast<uint64_t>(end)});
  ids_ += piece.ids.size();
  if (bytes_per_id_ == 4) return write(piece.ids.data(), 4 * piece.ids.size());
  const std::vector<uint16_t> narrow(piece.ids.begin(), piece.ids.end());
  write(narrow.data(), 2 * narrow.size());
}

void TokenCacheWriter::finish(const std::string& description) {
  pad();
  write(begins_.data(), 8 * begins_.size());
  write(offsets_.data(), 8 * offsets_.size());
  write(unlabelled_.data(), sizeof(IdRange) * unlabelled_.size());
  write(description.data(), description.size());
  pad();
  flush();
  Header header{.bytes_per_id = static_cast<uint32_t>(bytes_per_id_),
                .ids = ids_,
                .documents = begins_.size(),
                .unlabelled = unlabelled_.size(),
                .description = description.size()};
  header.checksum = with_header(checksum_, header);
  if (std::fseek(file_, 0, SEEK_SET) != 0 || std::fwrite(&header, sizeof(header), 1, file_) != 1 ||
      std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0 ||
      ::rename(temporary_.c_str(), path_.c_str()) != 0)
    refuse();
  std::fclose(std::exchange(file_, nullptr));
}

void remove_unfinished(const fs::path& path) {
  const std::string begin = path.filename().string() + kMaking;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path.parent_path(), ignored))
    if (entry.path().filename().string().starts_with(begin)) fs::remove(entry.path(), ignored);
}

}  // namespace weft::data
