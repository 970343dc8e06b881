// Files: mapped for reading; written under a temporary name, synced, then renamed.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weft::hugging_face {

using Bytes = std::span<const std::byte>;

// Largest description of tensors (a safetensors header, an index, a pickle) that is read.
constexpr uint64_t kLargestHeader = 100'000'000;

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The text of an errno value.
std::string system_error(int error_number);

// A regular file, mapped read-only. Pages are read when touched.
class MappedFile {
 public:
  // Errors: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT if it is no regular file; each names the path.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  Bytes bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Where a file is written until it is complete: ".NAME.partial" beside it.
std::string partial_path(const std::string& path);

// A file of known size under its temporary name. Destroying it removes it unless it was released.
class OutputFile {
 public:
  // Reserves the space at once. Errors: RESOURCE_EXHAUSTED when the disk has no room, with path and sizes.
  OutputFile(std::string path, uint64_t size);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  // Safe from several threads.
  void write(uint64_t offset, Bytes bytes);
  // CRC-32 (zip) of what was written.
  uint32_t checksum(uint64_t offset, uint64_t size) const;
  // Flushes to the disk and closes.
  void sync();
  // Leaves the file where it is.
  void release() { is_owned_ = false; }

 private:
  void reserve();
  void remove() noexcept;

  std::string path_;
  uint64_t size_ = 0;
  int descriptor_ = -1;
  bool is_owned_ = true;
};

// Excludes a second save to the same place, from any process. The lock ends with the process.
class SaveLock {
 public:
  // Errors: UNAVAILABLE when another save holds it. `what` names the place in the message.
  SaveLock(std::string path, const std::string& what);
  ~SaveLock();
  SaveLock(const SaveLock&) = delete;

 private:
  std::string path_;
  int descriptor_ = -1;
};

// Gives a complete file its name in one step. `again`: the temporary file may be gone, because a commit that
// was broken off came this far.
void install_file(const std::string& path, bool again = false);

// Makes renames and removals in a folder durable.
void sync_folder(const std::string& folder);

}  // namespace weft::hugging_face
