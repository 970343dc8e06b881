#include "files/parts.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "box/cover.hpp"
#include "comm/agreement.hpp"
#include "files/folder.hpp"

namespace weft::checkpoint {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kVersion = 1;

constexpr std::pair<const char*, at::ScalarType> kTypes[] = {
    {"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf},  {"BF16", at::kBFloat16},
    {"I64", at::kLong},   {"I32", at::kInt},   {"I16", at::kShort}, {"I8", at::kChar},
    {"U8", at::kByte},    {"BOOL", at::kBool}};

std::string name_of(at::ScalarType type) {
  for (const auto& [name, known] : kTypes)
    if (known == type) return name;
  fail(WEFT_UNIMPLEMENTED, "tensors of {} cannot be saved", c10::toString(type));
}

at::ScalarType type_named(const std::string& name, const std::string& path) {
  for (const auto& [known, type] : kTypes)
    if (name == known) return type;
  fail(WEFT_DATA_LOSS, "{}: dtype \"{}\" is unknown", path, printable(name, 20));
}

bool is_inside(const Box& box, const std::vector<int64_t>& shape) {
  if (box.offset.size() != shape.size() || box.extent.size() != shape.size()) return false;
  for (size_t d = 0; d < shape.size(); ++d)
    if (box.offset[d] > shape[d] || box.extent[d] > shape[d] - box.offset[d]) return false;
  return true;
}

// Whether the elements of a tensor can be counted.
bool has_numel(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  return std::none_of(shape.begin(), shape.end(), [&](int64_t size) {
    return __builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements);
  });
}

std::string file_of(int part) {
  return fmt::format("part-{:05}.safetensors", part);
}

// "wte.weight[0:16,0:12]"; the whole tensor goes by its own name.
std::string entry_name(const Entry& tensor, const Box& box) {
  if (box == Box::whole(tensor.shape)) return tensor.name;
  std::vector<std::string> ranges;
  for (size_t d = 0; d < box.offset.size(); ++d)
    ranges.push_back(fmt::format("{}:{}", box.offset[d], box.offset[d] + box.extent[d]));
  return fmt::format("{}[{}]", tensor.name, fmt::join(ranges, ","));
}

void write_own_file(const std::string& path, const Pieces& pieces) {
  std::vector<Entry> entries;
  std::vector<const Piece*> counted;
  for (const Piece& piece : pieces) {
    if (!piece.counted) continue;
    counted.push_back(&piece);
    entries.push_back({entry_name(piece.tensor, piece.box), piece.tensor.dtype, piece.box.extent});
  }
  if (counted.empty()) return;
  Writer writer(path, {}, entries);
  for (size_t i = 0; i < counted.size(); ++i)
    writer.write(i, Box::whole(entries[i].shape), counted[i]->values.contiguous());
  writer.commit();
}

void write_index(const std::string& folder, const std::vector<TensorHolders>& all_holders,
                 uint64_t max_bytes) {
  json tensors = json::object();
  for (const TensorHolders& known : all_holders) {
    json parts = json::array();
    for (const TensorHolders::Holder& part : known.holders)
      if (part.counted)
        parts.push_back({{"file", file_of(part.rank)},
                         {"entry", entry_name(known.tensor, part.box)},
                         {"offset", part.box.offset},
                         {"extent", part.box.extent}});
    tensors[known.tensor.name] = {
        {"dtype", name_of(known.tensor.dtype)}, {"shape", known.tensor.shape}, {"parts", std::move(parts)}};
  }
  const json index = {{"version", kVersion}, {"tensors", std::move(tensors)}};
  write_file(fs::path(folder) / "index.json", index.dump() + "\n", max_bytes);
}

}  // namespace

void write_parts(const std::string& folder, const Communicator& ranks, const Pieces& pieces,
                 uint64_t max_index) {
  const std::vector<TensorHolders> all_holders = gather_holders(ranks, pieces);
  for (const TensorHolders& known : all_holders)
    if (!known.is_whole())
      fail(WEFT_INTERNAL, "the ranks together do not hold {} exactly once", known.tensor.name);
  on_every_rank(ranks, [&] {
    write_own_file((fs::path(folder) / file_of(ranks.rank())).string(), pieces);
    if (ranks.rank() == 0) write_index(folder, all_holders, max_index);
  });
}

void write_parts(const std::string& folder, int count, const TensorSource& source, uint64_t max_index) {
  const std::vector<Entry>& entries = source.entries();
  int64_t total = 0, before = 0;
  for (const Entry& entry : entries) total += entry.numel();
  std::vector<std::vector<size_t>> files(count);
  std::vector<TensorHolders> all_holders;
  for (size_t i = 0; i < entries.size(); ++i) {
    const int file = static_cast<int>(before * count / std::max<int64_t>(total, 1));
    files[file].push_back(i);
    all_holders.push_back({entries[i], {{file, Box::whole(entries[i].shape), true}}});
    before += entries[i].numel();
  }
  for (int file = 0; file < count; ++file) {
    if (files[file].empty()) continue;
    std::vector<Entry> held;
    for (const size_t i : files[file]) held.push_back(entries[i]);
    Writer writer((fs::path(folder) / file_of(file)).string(), {}, held);
    for (size_t i = 0; i < held.size(); ++i)
      writer.write(i, Box::whole(held[i].shape), source.read(files[file][i]));
    writer.commit();
  }
  write_index(folder, all_holders, max_index);
}

PartsReader::PartsReader(std::string folder) : folder_(std::move(folder)) {
  const std::string path = (fs::path(folder_) / "index.json").string();
  const auto checked = [&](const auto& read) {
    try {
      read();
    } catch (const json::exception& e) {
      fail(WEFT_DATA_LOSS, "{} is damaged: {}", path, text_of(e));
    }
  };
  // One tensor at a time: the whole index as JSON takes ten times the memory of its text.
  const json rest = parse_json_members(
      read_file(path, kLargestIndex), path, "tensors",
      [&](const std::string& name, const json& tensor) { checked([&] { add_tensor(path, name, tensor); }); });
  checked([&] {
    if (const int64_t version = integer_at(rest, "version", path); version != kVersion)
      fail(WEFT_FAILED_PRECONDITION, "{}: index of version {}, this Weft reads {}", path, version, kVersion);
    rest.at("tensors").get_ref<const json::object_t&>();
  });
}

void PartsReader::add_tensor(const std::string& path, const std::string& name, const json& described) {
  const std::string shown = printable(name, 80);
  Entry entry{name, type_named(described.at("dtype"), path), integers_at(described, "shape", path)};
  if (find(name)) fail(WEFT_DATA_LOSS, "{}: {} is there twice", path, shown);
  if (!has_numel(entry.shape))
    fail(WEFT_DATA_LOSS, "{}: the shape of {} has more than 2^63 elements", path, shown);
  std::vector<Part> parts;
  std::vector<Box> boxes;
  for (const json& part : described.at("parts").get_ref<const json::array_t&>()) {
    parts.push_back({part.at("file"),
                     part.at("entry"),
                     {integers_at(part, "offset", path), integers_at(part, "extent", path)}});
    const auto& [file, stored, box] = parts.back();
    if (!is_inside(box, entry.shape) || fs::path(file).filename() != file)
      fail(WEFT_DATA_LOSS, "{}: a part of {} does not fit the tensor, or names no file of the folder", path,
           shown);
    boxes.push_back(box);
  }
  if (!cover_once(entry.shape, boxes))
    fail(WEFT_DATA_LOSS, "{}: the {} parts of {} leave elements of it out, or overlap", path, boxes.size(),
         shown);
  add(std::move(entry));
  parts_.push_back(std::move(parts));
}

const Reader& PartsReader::open(const std::string& file) const {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Reader>& reader = open_[file];
  if (reader == nullptr)
    reader = std::make_unique<Reader>((fs::path(folder_) / file).string(), format_named(""));
  return *reader;
}

void PartsReader::read(size_t index, const Box& box, const at::Tensor& destination) const {
  const Entry& entry = entries().at(index);
  int64_t done = 0;
  for (const Part& part : parts_.at(index)) {
    const auto shared = intersection(part.box, box);
    if (!shared) continue;
    const Reader& reader = open(part.file);
    const auto stored = reader.find(part.entry);
    if (!stored || reader.entries()[*stored].shape != part.box.extent ||
        reader.entries()[*stored].dtype != entry.dtype)
      fail(WEFT_DATA_LOSS, "{} has no entry {} as index.json describes it", reader.path(),
           printable(part.entry, 80));
    Box within = *shared;
    for (size_t d = 0; d < within.offset.size(); ++d) within.offset[d] -= part.box.offset[d];
    reader.read(*stored, within, view_of(destination, box, *shared));
    done += shared->numel();
  }
  if (done != box.numel())
    fail(WEFT_DATA_LOSS, "{}: parts of {} overlap or are missing", folder_, printable(entry.name, 80));
}

}  // namespace weft::checkpoint
