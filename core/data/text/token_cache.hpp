// The file that keeps the token ids of documents, so that text is tokenized once.
//
// All numbers are little-endian. The file has a header of 64 bytes, then blocks that begin at multiples of 8:
// the ids (2 or 4 bytes each); where each document begins in them, and then in its file (8 bytes each); the
// ranges of ids whose labels do not count (begin and end, 8 bytes each); and a description in JSON.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "loader/mapped_file.hpp"
#include "text/documents.hpp"

namespace weft::data {

// A range of ids.
struct IdRange {
  uint64_t begin = 0, end = 0;
};

class TokenCache {
 public:
  // Opens a file and compares its checksum. Returns nothing if there is none, or it is damaged or has another
  // version. Throws PERMISSION_DENIED for one that is not believed, as open_believed() does.
  static std::optional<TokenCache> open(const std::filesystem::path& path);

  std::string_view description() const { return description_; }
  int64_t ids() const { return ids_; }
  int64_t documents() const { return static_cast<int64_t>(begins_.size()); }
  // Returns where a document begins; with the number of documents, where the last one ends.
  int64_t begin(int64_t document) const {
    return document == documents() ? ids_ : static_cast<int64_t>(begins_[static_cast<size_t>(document)]);
  }
  // Returns at which byte of its file a document begins: the begin of its line, or 0 for a text.
  uint64_t offset(int64_t document) const { return offsets_[static_cast<size_t>(document)]; }
  // Writes `count` ids, those from `begin` on, to `out`.
  void copy(int64_t begin, int64_t count, int64_t* out) const;
  // Returns the ranges whose labels do not count and that end behind `begin`, in order.
  std::span<const IdRange> unlabelled_from(int64_t begin) const;

 private:
  TokenCache() = default;

  std::shared_ptr<const MappedFile> file_;
  const void* first_id_ = nullptr;
  int bytes_per_id_ = 2;
  int64_t ids_ = 0;
  std::span<const uint64_t> begins_, offsets_;
  std::span<const IdRange> unlabelled_;
  std::string_view description_;
};

// Writes such a file under a temporary name, PATH.making-PROCESS. Errors name the path; RESOURCE_EXHAUSTED on
// a full disk. The destructor removes what was not finished.
class TokenCacheWriter {
 public:
  // Ids of fewer than `vocabulary_size` take 2 bytes where they can.
  TokenCacheWriter(std::filesystem::path path, int64_t vocabulary_size);
  ~TokenCacheWriter();
  TokenCacheWriter(const TokenCacheWriter&) = delete;

  void add(const EncodedPiece& piece);
  // Syncs the file and gives it its name.
  void finish(const std::string& description);

 private:
  void write(const void* bytes, size_t size);
  void pad();
  void flush();
  [[noreturn]] void refuse() const;

  const std::filesystem::path path_, temporary_;
  const int bytes_per_id_;
  std::FILE* file_;
  uint64_t ids_ = 0;
  std::vector<uint64_t> begins_, offsets_;
  std::vector<IdRange> unlabelled_;
  std::string pending_;  // whole words are written and summed
  uint64_t checksum_ = 0;
};

// Removes the temporary files that killed processes left beside `path`.
void remove_unfinished(const std::filesystem::path& path);

}  // namespace weft::data
