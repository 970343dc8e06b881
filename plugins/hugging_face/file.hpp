// Files: memory-mapped for reading; written under a temporary name, synced, then renamed.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace weft::hugging_face {

using Bytes = std::span<const std::byte>;

// The largest description of tensors (a safetensors header, an index, a pickle) that is read, in bytes.
constexpr uint64_t kLargestHeader = 100'000'000;

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Returns the text of an errno value.
std::string system_error(int error_number);

// A regular file, mapped read-only. Pages are read from the disk on first access: if another process
// truncates the file during a read, the system ends this process with SIGBUS. Files that Weft writes never
// shrink, because they are replaced by rename. Holds no descriptor, so a checkpoint may have more files than
// a process may open.
class MappedFile {
 public:
  // Throws NOT_FOUND, PERMISSION_DENIED, or INVALID_ARGUMENT if it is not a regular file; each names the
  // path.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  Bytes bytes() const { return {data_, size_}; }
  // Errors: DATA_LOSS if the file has become shorter since it was mapped. Checks nothing if another file, or
  // none, has its path now: what is mapped is no longer found there. One system call.
  void check_size() const;

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Returns whether the bytes are those of a Git LFS pointer, the text that a clone has in place of a large
// file until `git lfs pull` fetches it.
bool is_lfs_pointer(Bytes bytes);
// Throws DATA_LOSS, with the path and what to do, if the file is a Git LFS pointer.
void refuse_lfs_pointer(const MappedFile& file);

// Returns the temporary name of a file: ".NAME.partial" in the same folder.
std::string partial_path(const std::string& path);

// A file of known size under its temporary name. The destructor removes it unless release() was called.
class OutputFile {
 public:
  // Reserves the space. Throws RESOURCE_EXHAUSTED with path and sizes if the disk is full.
  OutputFile(std::string path, uint64_t size);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  // Safe from several threads.
  void write(uint64_t offset, Bytes bytes);
  // Returns the CRC-32 (zip) of bytes that were written.
  uint32_t checksum(uint64_t offset, uint64_t size) const;
  // Flushes the file to the disk and closes it.
  void sync();
  // Keeps the file when this object is destroyed.
  void release() { is_owned_ = false; }

 private:
  void reserve();
  void remove() noexcept;

  std::string path_;
  uint64_t size_ = 0;
  int descriptor_ = -1;
  bool is_owned_ = true;
};

// A lock that excludes a second save to the same path from any process. It ends with the process. The file of
// another user is locked, but neither written to nor removed.
class SaveLock {
 public:
  // Throws UNAVAILABLE if another save holds the lock, PERMISSION_DENIED if `path` is a link or no regular
  // file. `what` describes the path in the message.
  SaveLock(std::string path, const std::string& what);
  ~SaveLock();
  SaveLock(const SaveLock&) = delete;

 private:
  void open_file(const std::string& what);

  std::string path_;
  int descriptor_ = -1;
  bool is_own_ = false;
};

// Renames the temporary file of `path` to `path`. If `again`, the temporary file may be missing, because an
// interrupted commit has renamed it already.
void install_file(const std::string& path, bool again = false);

// Syncs a folder, which makes renames and removals in it durable.
void sync_folder(const std::string& folder);

}  // namespace weft::hugging_face
