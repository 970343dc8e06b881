#include "torch_file.hpp"

#include "json.hpp"
#include "pickle.hpp"
#include "text.hpp"
#include "zip.hpp"

namespace weft::hugging_face {
namespace {

constexpr std::string_view kPickle = "/data.pkl";
constexpr std::string_view kMetadata = "extra/weft_metadata.json";

// Returns whether a file begins with a pickle of torch's magic number of 10 bytes, behind the pickle's
// protocol and the length of its frame: https://github.com/pytorch/pytorch/blob/v1.5.1/torch/serialization.py
bool is_legacy_file(Bytes bytes) {
  constexpr std::size_t kBefore = 11;
  constexpr std::string_view kMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  return as_text(bytes).substr(0, kBefore + kMagic.size()).find(kMagic) != std::string_view::npos;
}

// The bytes of a small record, checked.
std::string_view text_of(const StoredRecord& record) {
  if (record.checked != nullptr) record.checked->check();
  return as_text(record.bytes);
}

// Returns the prefix of all records: "archive/" if they are called archive/data.pkl and so on.
std::string record_prefix(const Records& records, const std::string& path) {
  std::string prefix;
  for (const auto& [name, record] : records) {
    if (!name.ends_with(kPickle) || name.find('/') != name.size() - kPickle.size()) continue;
    if (!prefix.empty()) fail(WEFT_DATA_LOSS, path, ": the archive has two records data.pkl");
    prefix = name.substr(0, name.size() - kPickle.size() + 1);
  }
  if (prefix.empty()) {
    fail(WEFT_DATA_LOSS, path, ": a zip archive without data.pkl was not written by torch.save");
  }
  return prefix;
}

void check_byte_order(const Records& records, const std::string& prefix, const std::string& path) {
  const auto order = records.find(prefix + "byteorder");
  if (order == records.end() || text_of(order->second) == "little") return;
  fail(WEFT_UNIMPLEMENTED, path, ": byte order ", in_quotes(text_of(order->second)),
       ", only little-endian files are read");
}

// Returns the bytes of a storage from the tensor's first element on. Throws if the tensor extends beyond it.
const std::byte* checked_data(const PickledTensor& tensor, Bytes storage, const std::string& where) {
  const TensorEntry& entry = tensor.entry;
  const int64_t element_bytes = entry.type->size_bytes;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.storage_elements, element_bytes, &bytes) ||
      static_cast<uint64_t>(bytes) > storage.size()) {
    fail(WEFT_DATA_LOSS, where, ": its storage ", in_quotes(tensor.storage), " has ", storage.size(),
         " bytes, but ", tensor.storage_elements, " elements of ", entry.type->name, " are wanted");
  }
  uint64_t tensor_size = 0;
  bool fits = tensor_bytes(entry.shape, entry.type->size_bytes, tensor_size);
  int64_t last = tensor.storage_offset;
  for (std::size_t dim = 0; fits && tensor_size > 0 && dim < entry.shape.size(); ++dim) {
    int64_t reach = 0;
    fits = !__builtin_mul_overflow(entry.shape[dim] - 1, tensor.strides[dim], &reach) &&
           !__builtin_add_overflow(last, reach, &last);
  }
  if (!fits || (tensor_size > 0 ? last >= tensor.storage_elements : last > tensor.storage_elements)) {
    fail(WEFT_DATA_LOSS, where, ": shape ", shape_text(entry.shape), " with strides ",
         shape_text(tensor.strides), " and offset ", tensor.storage_offset, " leaves its storage of ",
         tensor.storage_elements, " elements");
  }
  return storage.data() + tensor.storage_offset * element_bytes;
}

StoredTensor place(const PickledTensor& pickled, const Records& records, const std::string& prefix,
                   const std::string& path) {
  const std::string where = concat(path, ": tensor ", in_quotes(pickled.entry.name));
  const auto record = records.find(prefix + "data/" + pickled.storage);
  if (record == records.end()) {
    fail(WEFT_DATA_LOSS, where, ": its storage ", in_quotes(pickled.storage), " is not in the archive");
  }
  StoredTensor tensor;
  static_cast<TensorEntry&>(tensor) = pickled.entry;
  tensor.data = checked_data(pickled, record->second.bytes, where);
  tensor.checked = record->second.checked;
  for (std::size_t dim = 0; dim < pickled.strides.size(); ++dim) {
    // The stride of a dimension of size 1 has no meaning and can have any value.
    const bool is_used = pickled.entry.shape[dim] > 1;
    tensor.strides.push_back(is_used ? pickled.strides[dim] * pickled.entry.type->size_bytes : 0);
  }
  return tensor;
}

Metadata read_metadata(const Records& records, const std::string& prefix, const std::string& path) {
  Metadata metadata;
  const auto record = records.find(prefix + std::string(kMetadata));
  if (record == records.end()) return metadata;
  const std::string what = concat(path, ": record ", kMetadata);
  const Json json = parse_json(text_of(record->second), what);
  if (!json.is_object()) fail(WEFT_DATA_LOSS, what, " is no JSON object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) fail(WEFT_DATA_LOSS, what, ": ", in_quotes(key), " is no text");
    metadata.emplace(key, value.get<std::string>());
  }
  return metadata;
}

}  // namespace

WeightFile open_torch_file(MappedFile file) {
  const std::string path = file.path();
  if (is_legacy_file(file.bytes())) {
    fail(WEFT_UNIMPLEMENTED, path,
         ": this is the format of torch.save before PyTorch 1.6, which Weft does not read; convert it in "
         "Python with torch.save(torch.load(path, map_location=\"cpu\", weights_only=True), path)");
  }
  if (!looks_like_zip(file.bytes())) {
    fail(WEFT_DATA_LOSS, path, ": not an archive of torch.save; it is no file of weights, or it is damaged");
  }
  const Records records = read_zip(file);
  const std::string prefix = record_prefix(records, path);
  check_byte_order(records, prefix, path);
  WeightFile result{std::move(file), {}, read_metadata(records, prefix, path)};
  for (const PickledTensor& tensor :
       read_state_dict(as_bytes(text_of(records.at(prefix + "data.pkl"))), path)) {
    result.tensors.push_back(place(tensor, records, prefix, path));
  }
  return result;
}

FileLayout plan_torch_file(const std::vector<TensorEntry>& entries, const Metadata& metadata) {
  const std::string prefix = "archive/";
  std::vector<ZipRecord> records;
  records.push_back({prefix + "data.pkl", write_state_dict(entries)});
  records.push_back({prefix + "byteorder", "little"});
  if (!metadata.empty()) records.push_back({prefix + std::string(kMetadata), json_text(Json(metadata), -1)});
  for (std::size_t i = 0; i < entries.size(); ++i) {
    records.push_back({concat(prefix, "data/", i), {}, size_bytes(entries[i])});
  }
  records.push_back({prefix + "version", "3\n"});
  return plan_zip(records);
}

}  // namespace weft::hugging_face
