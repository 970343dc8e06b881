// CRC-32 of zip archives (ISO-HDLC, reflected polynomial 0xEDB88320).
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

namespace weft::hugging_face {

// By carry-less multiplication where the processor has it, which is faster than memory.
uint32_t crc32(std::span<const std::byte> bytes);
// By tables, on every processor.
uint32_t crc32_by_tables(std::span<const std::byte> bytes);

// Bytes of a file with the checksum that they should have. They are compared when they are first used: a file
// is opened without reading all of it.
class CheckedBytes {
 public:
  // `what` names file and record in messages.
  CheckedBytes(std::span<const std::byte> bytes, uint32_t checksum, std::string what)
      : bytes_(bytes), checksum_(checksum), what_(std::move(what)) {}
  // Errors: DATA_LOSS when they differ. Safe from several threads.
  void check() const;

 private:
  std::span<const std::byte> bytes_;
  uint32_t checksum_;
  std::string what_;
  mutable std::mutex mutex_;
  mutable bool is_checked_ = false;
};

}  // namespace weft::hugging_face
