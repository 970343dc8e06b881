#include "safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>

#include "json.hpp"
#include "text.hpp"

namespace weft::hugging_face {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

uint64_t header_length(Bytes bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  return length;
}

// Returns the header's JSON text.
std::string_view header_text(const MappedFile& file) {
  const Bytes bytes = file.bytes();
  if (bytes.size() < kLengthBytes) {
    fail(WEFT_DATA_LOSS, file.path(), ": the file has ", bytes.size(),
         " bytes, fewer than the 8 that begin a safetensors file; it is truncated");
  }
  const uint64_t length = header_length(bytes);
  if (length > kLargestHeader) {
    fail(WEFT_DATA_LOSS, file.path(), ": the header claims ", length, " bytes, more than the ",
         kLargestHeader, " that safetensors allows; this is no safetensors file, or it is damaged");
  }
  if (length > bytes.size() - kLengthBytes) {
    fail(WEFT_DATA_LOSS, file.path(), ": the header claims ", length, " bytes, but only ",
         bytes.size() - kLengthBytes, " follow; the file is truncated");
  }
  return as_text(bytes.subspan(kLengthBytes, length));
}

int64_t checked_integer(const Json& value, const std::string& where, std::string_view what) {
  const bool fits = value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX;
  if (!fits) {
    fail(WEFT_DATA_LOSS, where, ": ", what, " has ", json_text(value, -1).substr(0, 40),
         ", which is no integer from 0 to 2^63-1");
  }
  return static_cast<int64_t>(value.get<uint64_t>());
}

std::vector<int64_t> checked_integers(const Json& info, const char* key, const std::string& where) {
  const auto found = info.find(key);
  if (found == info.end() || !found->is_array()) fail(WEFT_DATA_LOSS, where, ": no array ", in_quotes(key));
  std::vector<int64_t> values;
  for (const Json& value : *found) values.push_back(checked_integer(value, where, key));
  return values;
}

struct Span {
  uint64_t begin, end;
  std::size_t tensor;
};

StoredTensor parse_tensor(const std::string& name, const Json& info, const std::string& where, Bytes data,
                          Span& span) {
  if (!info.is_object()) fail(WEFT_DATA_LOSS, where, ": its description is no JSON object");
  StoredTensor tensor;
  tensor.name = name;
  const auto type = info.find("dtype");
  if (type == info.end() || !type->is_string()) fail(WEFT_DATA_LOSS, where, ": no text \"dtype\"");
  const auto& type_name = type->get_ref<const std::string&>();
  tensor.type = find_element_type_by_name(type_name);
  if (tensor.type == nullptr) {
    fail(WEFT_UNIMPLEMENTED, where, ": dtype ", in_quotes(type_name),
         " is unknown to Weft, which has F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL");
  }
  tensor.shape = checked_integers(info, "shape", where);
  if (tensor.shape.size() > WEFT_MAX_DIMS) {
    fail(WEFT_UNIMPLEMENTED, where, ": ", tensor.shape.size(), " dimensions, Weft has at most ",
         WEFT_MAX_DIMS);
  }
  const std::vector<int64_t> offsets = checked_integers(info, "data_offsets", where);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    fail(WEFT_DATA_LOSS, where, ": data_offsets ", shape_text(offsets),
         " are not a begin and an end behind it");
  }
  uint64_t bytes = 0;
  if (!tensor_bytes(tensor.shape, tensor.type->size_bytes, bytes)) {
    fail(WEFT_DATA_LOSS, where, ": shape ", shape_text(tensor.shape), " has more than 2^63-1 bytes");
  }
  span.begin = static_cast<uint64_t>(offsets[0]);
  span.end = static_cast<uint64_t>(offsets[1]);
  if (bytes != span.end - span.begin) {
    fail(WEFT_DATA_LOSS, where, ": shape ", shape_text(tensor.shape), " of ", type_name, " takes ", bytes,
         " bytes, but data_offsets ", shape_text(offsets), " span ", span.end - span.begin);
  }
  if (span.end > data.size()) {
    fail(WEFT_DATA_LOSS, where, ": data_offsets ", shape_text(offsets), " end beyond the file, which holds ",
         data.size(), " bytes of tensors; the file is truncated");
  }
  tensor.strides = contiguous_strides(tensor.shape, tensor.type->size_bytes);
  tensor.data = data.data() + span.begin;
  return tensor;
}

// Throws unless the tensors cover the data without gaps or overlaps.
void check_tiling(std::vector<Span> spans, const WeightFile& result, uint64_t data_size) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const std::string& path = result.file.path();
  uint64_t expected = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const std::string& name = result.tensors[spans[i].tensor].name;
    if (spans[i].begin < expected) {
      fail(WEFT_DATA_LOSS, path, ": tensor ", in_quotes(name), " begins at byte ", spans[i].begin,
           " and overlaps tensor ", in_quotes(result.tensors[spans[i - 1].tensor].name),
           ", which ends at byte ", expected);
    }
    if (spans[i].begin > expected) {
      fail(WEFT_DATA_LOSS, path, ": bytes ", expected, " to ", spans[i].begin, " before tensor ",
           in_quotes(name), " belong to no tensor");
    }
    expected = spans[i].end;
  }
  if (expected != data_size) {
    fail(WEFT_DATA_LOSS, path, ": the tensors end at byte ", expected, ", but the file holds ", data_size,
         " bytes of tensors");
  }
}

}  // namespace

bool looks_like_safetensors(Bytes bytes) {
  return bytes.size() > kLengthBytes && bytes[kLengthBytes] == std::byte{'{'} &&
         header_length(bytes) <= kLargestHeader;
}

WeightFile open_safetensors(MappedFile file) {
  const std::string_view text = header_text(file);
  const Bytes data = file.bytes().subspan(kLengthBytes + text.size());
  const std::string path = file.path();
  const Json header = parse_json(text, concat(path, ": the header"));
  if (!header.is_object()) fail(WEFT_DATA_LOSS, path, ": the header is no JSON object");
  WeightFile result{std::move(file), {}, {}};
  std::vector<Span> spans;
  for (const auto& [name, info] : header.items()) {
    if (name == kMetadataKey) {
      if (!info.is_object()) fail(WEFT_DATA_LOSS, path, ": __metadata__ is no JSON object");
      for (const auto& [key, value] : info.items()) {
        if (!value.is_string()) fail(WEFT_DATA_LOSS, path, ": __metadata__ ", in_quotes(key), " is no text");
        result.metadata.emplace(key, value.get<std::string>());
      }
      continue;
    }
    Span span{0, 0, result.tensors.size()};
    const std::string where = concat(path, ": tensor ", in_quotes(name));
    result.tensors.push_back(parse_tensor(name, info, where, data, span));
    spans.push_back(span);
  }
  check_tiling(std::move(spans), result, data.size());
  return result;
}

FileLayout plan_safetensors(const std::vector<TensorEntry>& entries, const Metadata& metadata) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const int left = entries[a].type->order, right = entries[b].type->order;
    return left != right ? left > right : entries[a].name < entries[b].name;
  });

  FileLayout layout;
  layout.tensor_offsets.resize(entries.size());
  Json header = {{kMetadataKey, {{"format", "pt"}}}};
  for (const auto& [key, value] : metadata) header[kMetadataKey][key] = value;
  uint64_t offset = 0;
  for (std::size_t index : order) {
    const TensorEntry& entry = entries[index];
    if (entry.name == kMetadataKey)
      fail(WEFT_INVALID_ARGUMENT, "no tensor can be called ", in_quotes(entry.name));
    const uint64_t end = offset + size_bytes(entry);
    // header[name] = ... would search all names each time.
    header.get_ref<Json::object_t&>().emplace_back(
        entry.name,
        Json{{"dtype", entry.type->name}, {"shape", entry.shape}, {"data_offsets", {offset, end}}});
    layout.tensor_offsets[index] = offset;
    offset = end;
  }
  std::string text = json_text(header, -1);
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  if (text.size() > kLargestHeader) {
    fail(WEFT_INVALID_ARGUMENT, "the names and shapes of ", entries.size(), " tensors take ", text.size(),
         " bytes, safetensors allows ", kLargestHeader, "; save with shard=true");
  }
  const uint64_t data_begin = kLengthBytes + text.size();
  for (uint64_t& tensor_offset : layout.tensor_offsets) tensor_offset += data_begin;
  layout.size = data_begin + offset;
  uint64_t length = text.size();
  std::string length_bytes(reinterpret_cast<const char*>(&length), kLengthBytes);
  layout.regions.push_back({0, length_bytes + text});
  return layout;
}

}  // namespace weft::hugging_face
