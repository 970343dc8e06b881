// Zip archives of stored (uncompressed) records, as torch.save writes them; ZIP64 where sizes need it.
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checksum.hpp"
#include "file.hpp"
#include "layout.hpp"

namespace weft::hugging_face {

// Returns whether the first bytes are those of a zip archive.
bool looks_like_zip(Bytes bytes);

// A record of an archive. `checked` compares its bytes with their checksum. It is null if the archive has no
// checksums, an option of torch.save (torch.serialization.set_crc32_options).
struct StoredRecord {
  Bytes bytes;
  std::shared_ptr<const CheckedBytes> checked;
};
using Records = std::map<std::string, StoredRecord>;

// Returns the records of an archive by name; they refer to the bytes of `file`. Throws DATA_LOSS naming the
// file and the record for a truncated or damaged archive, and UNIMPLEMENTED for a compressed or encrypted
// record.
Records read_zip(const MappedFile& file);

// A record to write: `bytes`, or `reserved` bytes that are written later.
struct ZipRecord {
  std::string name;
  std::string bytes;
  uint64_t reserved = 0;
};

// Plans an archive whose records begin at multiples of 64 bytes. `tensor_offsets` of the result are the
// offsets of the records with reserved bytes or without bytes, in order.
FileLayout plan_zip(const std::vector<ZipRecord>& records);

}  // namespace weft::hugging_face
