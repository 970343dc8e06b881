// A packed file: "WEFTPAK1", the size of the head, the head with the tensors, the places of their bytes and
// the metadata, and the bytes.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/error.hpp"
#include "weft/types.h"

namespace packed {

[[noreturn]] inline void fail(weft_status status, const std::string& text) {
  throw weft::Error(status, "packed: " + text);
}

[[noreturn]] inline void fail_errno(const std::string& what) {
  const int code = errno;
  const bool is_full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  fail(is_full          ? WEFT_RESOURCE_EXHAUSTED
       : code == ENOENT ? WEFT_NOT_FOUND
                        : WEFT_UNAVAILABLE,
       what + ": " + std::strerror(code));
}

class File {
 public:
  File(std::string path, int flags)
      : path_(std::move(path)), fd_(open(path_.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) fail_errno("cannot open " + path_);
  }
  ~File() { close(fd_); }
  File(const File&) = delete;

  void read(uint64_t at, void* to, uint64_t size) const {
    for (auto* next = static_cast<char*>(to); size > 0;) {
      const ssize_t done = pread(fd_, next, size, static_cast<off_t>(at));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail_errno("cannot read " + path_);
      if (done == 0) fail(WEFT_DATA_LOSS, path_ + " was truncated");
      next += done, at += static_cast<uint64_t>(done), size -= static_cast<uint64_t>(done);
    }
  }
  void write(uint64_t at, const void* from, uint64_t size) const {
    for (const auto* next = static_cast<const char*>(from); size > 0;) {
      const ssize_t done = pwrite(fd_, next, size, static_cast<off_t>(at));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail_errno("cannot write " + path_);
      next += done, at += static_cast<uint64_t>(done), size -= static_cast<uint64_t>(done);
    }
  }
  uint64_t size() const { return static_cast<uint64_t>(status().st_size); }
  struct stat status() const {
    struct stat found = {};
    if (fstat(fd_, &found) != 0) fail_errno("cannot look at " + path_);
    return found;
  }
  void reserve(uint64_t size) const {
    if (ftruncate(fd_, 0) != 0) fail_errno("cannot empty " + path_);
    errno = posix_fallocate(fd_, 0, static_cast<off_t>(size));
    if (errno != 0) fail_errno("cannot reserve space for " + path_);
  }
  void sync() const {
    if (fsync(fd_) != 0) fail_errno("cannot sync " + path_);
  }
  // Throws UNAVAILABLE if another save has the file.
  void lock() const {
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0) fail_errno("cannot lock " + path_ + ", does another save run?");
    struct stat in_place = {};
    const bool is_there = stat(path_.c_str(), &in_place) == 0;
    if (!is_there || in_place.st_ino != status().st_ino)
      fail(WEFT_UNAVAILABLE, "another save just had " + path_ + "; save again");
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_;
};

struct Tensor {
  std::string name;
  uint32_t dtype = 0;
  std::vector<int64_t> shape;
  uint64_t at = 0, bytes = 0;  // its place in the file
};

inline uint64_t element_bytes(const Tensor& tensor) {
  constexpr uint64_t kBytes[] = {0, 8, 4, 2, 2, 8, 4, 2, 1, 1, 1};  // of WEFT_F64, WEFT_F32, ...
  return tensor.dtype < std::size(kBytes) ? kBytes[tensor.dtype] : 0;
}

// Sets the number of bytes. False if type and shape are impossible.
inline bool set_bytes(Tensor& tensor) {
  auto product = static_cast<int64_t>(element_bytes(tensor));
  bool is_possible = product > 0 && tensor.shape.size() <= WEFT_MAX_DIMS, is_empty = false;
  for (const int64_t size : tensor.shape) {
    is_possible &= size >= 0 && !__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product);
    is_empty |= size == 0;
  }
  tensor.bytes = is_empty ? 0 : static_cast<uint64_t>(product);
  return is_possible;
}

// The head as bytes: numbers of 64 bits, and texts after their sizes.
struct Head {
  std::vector<Tensor> tensors;
  std::map<std::string, std::string, std::less<>> metadata;

  std::string pack(uint64_t file_size) const {
    std::string out;
    const auto number = [&](uint64_t value) {
      out.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    const auto text = [&](const std::string& value) {
      number(value.size());
      out += value;
    };
    number(file_size);
    number(tensors.size());
    for (const Tensor& tensor : tensors) {
      text(tensor.name);
      number(tensor.dtype);
      number(tensor.shape.size());
      for (const int64_t size : tensor.shape) number(static_cast<uint64_t>(size));
      number(tensor.at);
    }
    number(metadata.size());
    for (const auto& [key, value] : metadata) {
      text(key);
      text(value);
    }
    return out;
  }

  // Parses what pack() returned, of a file with this size. Throws DATA_LOSS.
  void unpack(std::string_view in, uint64_t begin, uint64_t file_size, const std::string& path) {
    const auto take = [&](uint64_t size) {
      if (size > in.size()) fail(WEFT_DATA_LOSS, path + ": its head is damaged");
      const std::string_view taken = in.substr(0, size);
      in.remove_prefix(size);
      return taken;
    };
    const auto number = [&] {
      uint64_t value = 0;
      std::memcpy(&value, take(sizeof value).data(), sizeof value);
      return value;
    };
    if (const uint64_t wanted = number(); wanted != file_size)
      fail(WEFT_DATA_LOSS, path + " has " + std::to_string(file_size) + " bytes, its head says " +
                               std::to_string(wanted) + ": it was truncated or changed");
    std::set<std::string_view> names;
    for (uint64_t left = number(); left > 0; --left) {
      Tensor tensor;
      tensor.name = take(number());
      tensor.dtype = static_cast<uint32_t>(number());
      const uint64_t ndim = number();
      for (uint64_t d = 0; d < ndim && d <= WEFT_MAX_DIMS; ++d)
        tensor.shape.push_back(static_cast<int64_t>(number()));
      tensor.at = number();
      if (!set_bytes(tensor) || tensor.at < begin || tensor.at > file_size ||
          tensor.bytes > file_size - tensor.at)
        fail(WEFT_DATA_LOSS, path + ": tensor \"" + tensor.name + "\" is not inside the file");
      tensors.push_back(std::move(tensor));
    }
    for (const Tensor& tensor : tensors)
      if (!names.insert(tensor.name).second)
        fail(WEFT_DATA_LOSS, path + ": tensor \"" + tensor.name + "\" is there twice");
    for (uint64_t left = number(); left > 0; --left) {
      const std::string key(take(number()));
      metadata[key] = take(number());
    }
  }
};

// Calls move(place in the file, bytes) for each contiguous run of a box, in the order of the box's bytes.
template <typename Move>
void each_run(const Tensor& tensor, const int64_t* offset, const int64_t* extent, uint64_t size_bytes,
              const Move& move) {
  const size_t n = tensor.shape.size();
  std::vector<int64_t> begin(n, 0), size = tensor.shape, place(n, 0);
  if (offset != nullptr) begin.assign(offset, offset + n);
  if (extent != nullptr) size.assign(extent, extent + n);
  uint64_t bytes = element_bytes(tensor), run = bytes;
  for (size_t d = 0; d < n; ++d) {
    if (begin[d] < 0 || size[d] < 0 || begin[d] > tensor.shape[d] - size[d])
      fail(WEFT_OUT_OF_RANGE, "the box is not inside tensor " + tensor.name);
    bytes *= static_cast<uint64_t>(size[d]);
  }
  if (bytes != size_bytes)
    fail(WEFT_INVALID_ARGUMENT, "the box of tensor " + tensor.name + " has " + std::to_string(bytes) +
                                    " bytes, the buffer " + std::to_string(size_bytes));
  size_t outer = n;  // the dimensions from here on are whole
  while (outer > 0 && (outer == n || size[outer] == tensor.shape[outer]))
    run *= static_cast<uint64_t>(size[--outer]);
  for (uint64_t left = bytes; left > 0; left -= run) {
    uint64_t at = 0;
    for (size_t d = 0; d < n; ++d)
      at = at * static_cast<uint64_t>(tensor.shape[d]) + static_cast<uint64_t>(begin[d] + place[d]);
    move(tensor.at + at * element_bytes(tensor), run);
    for (size_t d = outer; d-- > 0;) {
      if (++place[d] < size[d]) break;
      place[d] = 0;
    }
  }
}

}  // namespace packed
