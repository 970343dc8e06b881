// Zip archives of stored (uncompressed) records, as torch.save writes them; ZIP64 where sizes need it.
// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
#pragma once

#include <map>
#include <string>
#include <vector>

#include "file.hpp"
#include "layout.hpp"

namespace weft::hugging_face {

// True if the first bytes are those of a zip archive.
bool looks_like_zip(Bytes bytes);

// The records of an archive by name; the bytes lie in `file`. Errors: DATA_LOSS naming the file and the
// record for a truncated or damaged archive, UNIMPLEMENTED for a compressed or encrypted record.
std::map<std::string, Bytes> read_zip(const MappedFile& file);

// A record to be written: `bytes`, or `reserved` bytes that are written later.
struct ZipRecord {
  std::string name;
  std::string bytes;
  uint64_t reserved = 0;
};

// Plans an archive whose records begin at multiples of 64 bytes. tensor_offsets: where each record with
// reserved bytes (or with no bytes at all) lies, in order.
FileLayout plan_zip(const std::vector<ZipRecord>& records);

}  // namespace weft::hugging_face
