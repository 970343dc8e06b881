#include "zip.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "text.hpp"

namespace weft::hugging_face {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint64_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20;
constexpr uint64_t kWide32 = 0xffffffff, kWide16 = 0xffff;
constexpr uint16_t kZip64Field = 1;

// Reads little-endian numbers of an archive. Throws if an offset is outside of it.
class Fields {
 public:
  Fields(Bytes bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  uint16_t u16(uint64_t offset) const { return get<uint16_t>(offset); }
  uint32_t u32(uint64_t offset) const { return get<uint32_t>(offset); }
  uint64_t u64(uint64_t offset) const { return get<uint64_t>(offset); }
  Bytes range(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      fail(WEFT_DATA_LOSS, path_, ": the zip archive points to ", size, " bytes at byte ", offset,
           ", but the file has ", bytes_.size(), "; it is damaged or truncated");
    }
    return bytes_.subspan(offset, size);
  }
  void expect(uint64_t offset, uint32_t signature, std::string_view what) const {
    if (u32(offset) != signature) {
      fail(WEFT_DATA_LOSS, path_, ": no zip ", what, " at byte ", offset,
           "; the file is damaged or truncated");
    }
  }

 private:
  template <typename Number>
  Number get(uint64_t offset) const {
    Number number = 0;
    std::memcpy(&number, range(offset, sizeof(number)).data(), sizeof(number));
    return number;
  }

  Bytes bytes_;
  const std::string& path_;
};

struct Directory {
  uint64_t offset, size, count;
};

Directory find_directory(const Fields& fields, uint64_t file_size, const std::string& path) {
  // The end record is followed only by a comment of at most 64 kB.
  std::optional<uint64_t> end;
  const uint64_t lowest = file_size > kEndSize + kWide16 ? file_size - kEndSize - kWide16 : 0;
  for (uint64_t at = file_size < kEndSize ? 0 : file_size - kEndSize + 1; !end && at-- > lowest;) {
    if (fields.u32(at) == kEnd && at + kEndSize + fields.u16(at + 20) == file_size) end = at;
  }
  if (!end)
    fail(WEFT_DATA_LOSS, path, ": the zip archive has no directory at its end; the file is truncated");
  Directory directory{fields.u32(*end + 16), fields.u32(*end + 12), fields.u16(*end + 10)};
  const bool wide = directory.offset == kWide32 || directory.size == kWide32 || directory.count == kWide16;
  if (wide && *end >= kLocator64Size && fields.u32(*end - kLocator64Size) == kLocator64) {
    const uint64_t end64 = fields.u64(*end - kLocator64Size + 8);
    fields.expect(end64, kEnd64, "64-bit end record");
    directory = {fields.u64(end64 + 48), fields.u64(end64 + 40), fields.u64(end64 + 32)};
  }
  return directory;
}

// Replaces each of the three values that is marked as too large by its 64-bit value.
void read_zip64_field(const Fields& fields, uint64_t at, uint64_t end, uint64_t* (&values)[3]) {
  while (at + 4 <= end) {
    const uint64_t field_end = at + 4 + fields.u16(at + 2);
    if (fields.u16(at) == kZip64Field) {
      uint64_t next = at + 4;
      for (uint64_t* value : values) {
        if (*value != kWide32 || next + 8 > field_end) continue;
        *value = fields.u64(next);
        next += 8;
      }
    }
    at = field_end;
  }
}

// The checksum by the directory's entry, which the record's own header repeats unless it stands behind the
// record.
uint32_t stored_checksum(const Fields& fields, uint64_t entry, uint64_t header, const std::string& where) {
  constexpr uint16_t kBehindRecord = 1 << 3;
  const uint32_t checksum = fields.u32(entry + 16), repeated = fields.u32(header + 14);
  if ((fields.u16(header + 6) & kBehindRecord) == 0 && repeated != checksum) {
    fail(WEFT_DATA_LOSS, where, ": its checksum is ", checksum, " in the directory, but ", repeated,
         " in front of it; the file is damaged");
  }
  return checksum;
}

template <typename Number>
void put(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

struct Placed {
  uint64_t header_offset, size;
  uint32_t checksum;
};

bool is_wide(uint64_t value) {
  return value >= kWide32;
}
uint32_t narrow(uint64_t value) {
  return static_cast<uint32_t>(std::min(value, kWide32));
}

// Appends the fields that local and central headers share, from "version needed" to the length of the name.
void put_common(std::string& out, const ZipRecord& record, const Placed& placed) {
  constexpr uint16_t kVersion45 = 45, kUtf8 = 1 << 11, kStored = 0, kTime = 0, kJanuary1980 = 0x21;
  put(out, kVersion45);
  put(out, kUtf8);
  put(out, kStored);
  put(out, kTime);
  put(out, kJanuary1980);
  put(out, placed.checksum);
  put(out, narrow(placed.size));
  put(out, narrow(placed.size));
  put(out, static_cast<uint16_t>(record.name.size()));
}

std::string local_header(const ZipRecord& record, const Placed& placed) {
  constexpr uint64_t kAlignment = 64;
  constexpr uint16_t kPaddingField = 0x4246;  // "FB", as torch.save pads
  std::string extra;
  if (is_wide(placed.size)) {
    put(extra, kZip64Field);
    put(extra, uint16_t{16});
    put(extra, placed.size);
    put(extra, placed.size);
  }
  const uint64_t unpadded = placed.header_offset + kLocalSize + record.name.size() + extra.size() + 4;
  const auto padding = static_cast<uint16_t>((kAlignment - unpadded % kAlignment) % kAlignment);
  put(extra, kPaddingField);
  put(extra, padding);
  extra.append(padding, 'Z');
  std::string out;
  put(out, kLocalHeader);
  put_common(out, record, placed);
  put(out, static_cast<uint16_t>(extra.size()));
  return out + record.name + extra;
}

std::string central_header(const ZipRecord& record, const Placed& placed) {
  std::string extra;
  if (is_wide(placed.size)) {
    put(extra, placed.size);
    put(extra, placed.size);
  }
  if (is_wide(placed.header_offset)) put(extra, placed.header_offset);
  std::string out;
  put(out, kCentralHeader);
  put(out, uint16_t{45});  // made by
  put_common(out, record, placed);
  put(out, static_cast<uint16_t>(extra.empty() ? 0 : extra.size() + 4));
  out.append(10, '\0');  // comment length, disk, attributes
  put(out, narrow(placed.header_offset));
  out += record.name;
  if (!extra.empty()) {
    put(out, kZip64Field);
    put(out, static_cast<uint16_t>(extra.size()));
  }
  return out + extra;
}

std::string end_records(uint64_t count, uint64_t offset, uint64_t size) {
  std::string out;
  put(out, kEnd64);
  put(out, kEnd64Size - 12);
  put(out, uint16_t{45});
  put(out, uint16_t{45});
  put(out, uint64_t{0});  // this disk, first disk
  put(out, count);
  put(out, count);
  put(out, size);
  put(out, offset);
  put(out, kLocator64);
  put(out, uint32_t{0});
  put(out, offset + size);
  put(out, uint32_t{1});
  put(out, kEnd);
  put(out, uint32_t{0});
  put(out, static_cast<uint16_t>(std::min(count, kWide16)));
  put(out, static_cast<uint16_t>(std::min(count, kWide16)));
  put(out, narrow(size));
  put(out, narrow(offset));
  put(out, uint16_t{0});
  return out;
}

}  // namespace

bool looks_like_zip(Bytes bytes) {
  uint32_t signature = 0;
  if (bytes.size() < sizeof(signature)) return false;
  std::memcpy(&signature, bytes.data(), sizeof(signature));
  return signature == kLocalHeader;
}

Records read_zip(const MappedFile& file) {
  const std::string& path = file.path();
  const Fields fields(file.bytes(), path);
  const Directory directory = find_directory(fields, file.bytes().size(), path);
  fields.range(directory.offset, directory.size);
  Records records;
  uint64_t at = directory.offset;
  for (uint64_t index = 0; index < directory.count; ++index) {
    fields.expect(at, kCentralHeader, "directory entry");
    const uint16_t flags = fields.u16(at + 8), method = fields.u16(at + 10);
    uint64_t stored = fields.u32(at + 20), size = fields.u32(at + 24), header = fields.u32(at + 42);
    const uint16_t name_size = fields.u16(at + 28), extra_size = fields.u16(at + 30);
    const std::string name(as_text(fields.range(at + kCentralSize, name_size)));
    const uint64_t extra = at + kCentralSize + name_size;
    uint64_t* wide_values[3] = {&size, &stored, &header};
    read_zip64_field(fields, extra, extra + extra_size, wide_values);
    if (method != 0 || (flags & 1) != 0 || stored != size) {
      fail(WEFT_UNIMPLEMENTED, path, ": record ", in_quotes(name), " is ",
           (flags & 1) != 0 ? "encrypted" : "compressed", " (method ", method,
           "); torch.save stores records as they are: load the file with torch and save it again");
    }
    fields.expect(header, kLocalHeader, "record");
    const uint64_t data = header + kLocalSize + fields.u16(header + 26) + fields.u16(header + 28);
    const Bytes bytes = fields.range(data, size);
    const uint32_t checksum = stored_checksum(fields, at, header, concat(path, ": record ", in_quotes(name)));
    StoredRecord record{bytes, nullptr};
    if (checksum != 0 || size == 0)
      record.checked =
          std::make_shared<CheckedBytes>(bytes, checksum, concat(path, ": record ", in_quotes(name)));
    if (!records.emplace(name, std::move(record)).second) {
      fail(WEFT_DATA_LOSS, path, ": the zip archive has record ", in_quotes(name), " twice");
    }
    at = extra + extra_size + fields.u16(at + 32);
  }
  return records;
}

FileLayout plan_zip(const std::vector<ZipRecord>& records) {
  FileLayout layout;
  std::string directory;
  for (const ZipRecord& record : records) {
    const bool is_reserved = record.bytes.empty();
    const uint64_t size = is_reserved ? record.reserved : record.bytes.size();
    const Placed placed{layout.size, size, crc32(as_bytes(record.bytes))};
    std::string header = local_header(record, placed);
    const uint64_t data = layout.size + header.size();
    if (is_reserved) {
      layout.tensor_offsets.push_back(data);
      layout.checksums.push_back({data, size, {layout.size + 14, directory.size() + 16}});
    }
    layout.regions.push_back({layout.size, std::move(header) + record.bytes});
    layout.size = data + size;
    directory += central_header(record, placed);
  }
  for (FileLayout::Checksum& checksum : layout.checksums) checksum.stored_at[1] += layout.size;
  directory += end_records(records.size(), layout.size, directory.size());
  layout.regions.push_back({layout.size, directory});
  layout.size += directory.size();
  return layout;
}

}  // namespace weft::hugging_face
