// Reads tar archives, also such that gzip, xz or zstd have compressed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/descriptor.hpp"

namespace weft::host {

// The entries of an archive, from the first to the last. Reads the formats ustar, pax and GNU. Every error
// names the archive: INVALID_ARGUMENT for what is no archive or holds an entry that is no file and no folder,
// such as a link, or a sparse file, or whose path has other parts than plain names; DATA_LOSS for a damaged
// archive; FAILED_PRECONDITION if the program that decompresses it is not installed.
class Archive {
 public:
  struct Entry {
    std::filesystem::path path;  // relative, without "." and ".."
    bool is_folder = false;
    uint64_t size = 0;
  };

  explicit Archive(const std::filesystem::path& path);
  ~Archive();
  Archive(const Archive&) = delete;

  // Goes to the next entry. Returns false at the end of the archive.
  bool next(Entry& entry);
  // Reads what is left of the entry, at most `size` bytes. Returns their number; 0 at the end of the entry.
  size_t read(char* bytes, size_t size);

 private:
  void start_program(const char* program);
  size_t read_some(char* bytes, size_t size);
  void read_exactly(char* bytes, size_t size);
  void skip(uint64_t size);
  std::string read_text(uint64_t size);
  std::filesystem::path plain_path(const std::string& name) const;
  void finish();

  const std::filesystem::path path_;
  Descriptor descriptor_;
  const char* program_ = nullptr;  // that decompresses
  pid_t child_ = -1;
  uint64_t left_ = 0, padding_ = 0;  // of the entry
};

}  // namespace weft::host
