#include "support.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace weft::hugging_face::test {

TemporaryFolder::TemporaryFolder(Place place) {
  const bool in_memory = place == kInMemory && access("/dev/shm", W_OK) == 0;
  std::string name =
      ((in_memory ? fs::path("/dev/shm") : fs::temp_directory_path()) / "weft_hugging_face.XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

void write_file(const std::string& path, std::string_view bytes) {
  // Truncating a file makes some file systems flush it; a new one does not.
  fs::remove(path);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

std::vector<std::string> file_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}

TensorEntry entry(const std::string& name, uint32_t code, std::vector<int64_t> shape) {
  return {name, find_element_type(code), std::move(shape)};
}

std::string pattern(const TensorEntry& entry, unsigned seed) {
  std::string bytes(size_bytes(entry), '\0');
  uint32_t state = seed * 2654435761u + static_cast<uint32_t>(std::hash<std::string>{}(entry.name));
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(entry.type->code == WEFT_BOOL ? state >> 31 : state >> 24);
  }
  return bytes;
}

void write_all(CheckpointWriter& writer, const std::vector<TensorEntry>& entries, unsigned seed) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string bytes = pattern(entries[i], seed);
    writer.write(i, nullptr, nullptr, bytes.data(), bytes.size());
  }
}

void save(const std::string& path, const std::vector<TensorEntry>& entries, WriteOptions options,
          unsigned seed) {
  CheckpointWriter writer(path, std::move(options), entries);
  write_all(writer, entries, seed);
  writer.commit();
}

std::string read_whole(const CheckpointReader& reader, uint64_t index) {
  std::string bytes(size_bytes(reader.tensor(index)), '\0');
  reader.read(index, nullptr, nullptr, bytes.data(), bytes.size());
  return bytes;
}

void expect_holds(const std::string& path, const std::vector<TensorEntry>& entries, unsigned seed) {
  const CheckpointReader reader(path);
  ASSERT_EQ(reader.num_tensors(), entries.size()) << path;
  std::size_t found = 0;
  for (uint64_t i = 0; i < reader.num_tensors(); ++i) {
    const StoredTensor& stored = reader.tensor(i);
    for (const TensorEntry& wanted : entries) {
      if (wanted.name != stored.name) continue;
      ++found;
      EXPECT_EQ(wanted.type->name, stored.type->name) << wanted.name;
      EXPECT_EQ(wanted.shape, stored.shape) << wanted.name;
      EXPECT_TRUE(pattern(wanted, seed) == read_whole(reader, i)) << path << ": " << wanted.name;
    }
  }
  EXPECT_EQ(found, entries.size()) << path;
}

void expect_error(weft_status status, const std::vector<std::string>& parts,
                  const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one with \"" << (parts.empty() ? "" : parts.front()) << "\"";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.status(), status) << text;
    EXPECT_TRUE(text.starts_with("hugging_face: ")) << text;
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
}

std::vector<TensorEntry> varied_entries() {
  return {entry("double", WEFT_F64, {3, 5}),
          entry("float", WEFT_F32, {2, 3, 4}),
          entry("half", WEFT_F16, {7}),
          entry("bfloat", WEFT_BF16, {1, 9}),
          entry("long", WEFT_I64, {4}),
          entry("int", WEFT_I32, {2, 2}),
          entry("short", WEFT_I16, {5}),
          entry("char", WEFT_I8, {3}),
          entry("byte", WEFT_U8, {11}),
          entry("bool", WEFT_BOOL, {6}),
          entry("empty", WEFT_F32, {0, 4}),
          entry("scalar", WEFT_F32, {}),
          entry("quote\"\\\n", WEFT_I16, {1}),
          entry("größe", WEFT_U8, {1, 1, 1}),
          entry("h.0.attn.weight", WEFT_F32, {8, 24})};
}

}  // namespace weft::hugging_face::test
