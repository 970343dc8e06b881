// CRC-32 of zip archives (ISO-HDLC, reflected polynomial 0xEDB88320).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::hugging_face {

uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace weft::hugging_face
