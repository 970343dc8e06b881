#include "checkpoint_reader.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "box.hpp"
#include "checksum.hpp"
#include "commit.hpp"
#include "json.hpp"
#include "names.hpp"
#include "text.hpp"
#include "torch_file.hpp"
#include "zip.hpp"

namespace weft::hugging_face {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLookedFor =
    "model.safetensors, model.safetensors.index.json, pytorch_model.bin, pytorch_model.bin.index.json";

WeightFile open_weights(const std::string& path) {
  MappedFile file(path);
  refuse_lfs_pointer(file);
  const Bytes bytes = file.bytes();
  if (looks_like_zip(bytes)) return open_torch_file(std::move(file));
  if (looks_like_safetensors(bytes) || path.find(".safetensors") != std::string::npos) {
    return open_safetensors(std::move(file));
  }
  if (path.ends_with(".bin") || path.ends_with(".pt") || path.ends_with(".pth"))
    return open_torch_file(std::move(file));
  fail(WEFT_DATA_LOSS, path, " is neither a safetensors file nor an archive of torch.save");
}

std::string list_text(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 10;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) text += concat(i == 0 ? "" : ", ", names[i]);
  return names.size() > kShown ? concat(text, " and ", names.size() - kShown, " more") : text;
}

// Returns whether a save into the folder can replace a file of this name.
bool is_checkpoint_name(const std::string& name) {
  for (bool safetensors : {true, false}) {
    const Candidates found = find_candidates({name}, safetensors);
    if (!found.plain.empty() || !found.prefixed.empty()) return true;
  }
  return is_index_name(name);
}

struct Identity {
  uint64_t device = 0, inode = 0;
  bool operator==(const Identity&) const = default;
};

Identity identity(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

// Returns the file of each tensor. An index can name only files of its own folder.
std::map<std::string, std::string> read_weight_map(const std::string& path, Bytes bytes) {
  const Json json = parse_json(as_text(bytes), path);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (map == json.end() || !map->is_object()) fail(WEFT_DATA_LOSS, path, ": no object \"weight_map\"");
  std::map<std::string, std::string> weights;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) fail(WEFT_DATA_LOSS, path, ": tensor ", in_quotes(name), " has no file name");
    const auto& file_name = file.get_ref<const std::string&>();
    if (file_name.empty() || file_name.find('/') != std::string::npos ||
        file_name.find('\0') != std::string::npos) {
      fail(WEFT_DATA_LOSS, path, ": tensor ", in_quotes(name), " is said to be in ", in_quotes(file_name),
           ", which is no file name of this folder");
    }
    weights.emplace(name, file_name);
  }
  return weights;
}

// Returns whether this is an index that names a shard that is not there: one of an earlier save, whose shards
// were removed when one file took their place.
bool lacks_shards(const FolderView& view, const std::string& name) {
  if (!is_index_name(name)) return false;
  const MappedFile file(view.path(name));
  refuse_lfs_pointer(file);
  std::error_code error;
  for (const auto& [tensor, shard] : read_weight_map(file.path(), file.bytes()))
    if (!fs::exists(view.path(shard), error)) return true;
  return false;
}

// Returns the only one of these names, or an empty string if there is none. Of several ones, those that name
// missing shards do not count.
std::string only_candidate(std::vector<std::string> names, const FolderView& view,
                           const std::string& folder) {
  if (names.size() > 1) {
    std::vector<std::string> whole;
    for (const std::string& name : names)
      if (!lacks_shards(view, name)) whole.push_back(name);
    if (!whole.empty()) names = std::move(whole);
  }
  if (names.size() > 1) {
    fail(WEFT_INVALID_ARGUMENT, folder, " holds several checkpoints (", list_text(names),
         "), which can differ; keep the one that you want and move the other files out of the folder");
  }
  return names.empty() ? "" : names.front();
}

}  // namespace

bool recognises(const std::string& path) noexcept {
  try {
    if (fs::is_directory(path)) {
      const FolderView view(path);
      for (bool safetensors : {true, false}) {
        const Candidates found = find_candidates(view.names(), safetensors);
        if (!found.plain.empty() || !found.prefixed.empty()) return true;
      }
      return false;
    }
    const MappedFile file(path);
    return looks_like_safetensors(file.bytes()) || looks_like_zip(file.bytes()) ||
           is_lfs_pointer(file.bytes()) ||
           (is_index_name(fs::path(path).filename().string()) &&
            as_text(file.bytes()).find("\"weight_map\"") != std::string_view::npos);
  } catch (const std::exception&) {
    return false;
  }
}

CheckpointReader::CheckpointReader(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    open_folder(path);
    return;
  }
  const std::string name = fs::path(path).filename().string();
  const std::string folder =
      fs::path(path).parent_path().empty() ? "." : fs::path(path).parent_path().string();
  const std::string now =
      is_checkpoint_name(name) && fs::is_directory(folder, error) ? FolderView(folder).path(name) : path;
  if (!fs::exists(now, error)) {
    fail(WEFT_NOT_FOUND, "no checkpoint at ", path,
         ": looked for a file of this name, and for a folder with ", kLookedFor);
  }
  if (is_index_name(name)) {
    open_index(folder, name);
  } else {
    open_file(now);
  }
}

void CheckpointReader::open_file(const std::string& path) {
  files_.push_back(open_weights(path));
  for (const StoredTensor& tensor : files_.back().tensors) tensors_.push_back({&tensor, &files_.back().file});
}

void CheckpointReader::open_folder(const std::string& folder) {
  const FolderView view(folder);
  const Candidates safetensors = find_candidates(view.names(), true),
                   torch = find_candidates(view.names(), false);
  std::string name;
  for (const auto* candidates : {&safetensors.plain, &torch.plain, &safetensors.prefixed, &torch.prefixed}) {
    if (name.empty()) name = only_candidate(*candidates, view, folder);
  }
  if (name.empty()) {
    fail(WEFT_NOT_FOUND, "no checkpoint in the folder ", folder, ": looked for ", kLookedFor, "; it holds ",
         view.names().empty() ? "nothing" : list_text(view.names()));
  }
  if (is_index_name(name)) {
    open_index(folder, name);
  } else {
    open_file(view.path(name));
  }
}

void CheckpointReader::open_index(const std::string& folder, const std::string& name) {
  const std::string path = FolderView(folder).path(name);
  const MappedFile file(path);
  refuse_lfs_pointer(file);
  const Identity before = identity(path);
  open_shards(folder, path, file.bytes());
  // A save that replaces the files meanwhile moves the index first, so old and new shards are never mixed.
  if (identity(FolderView(folder).path(name)) != before) {
    fail(WEFT_UNAVAILABLE, path, " was replaced by another save while it was opened; open it again");
  }
}

void CheckpointReader::open_shards(const std::string& folder, const std::string& index_path,
                                   Bytes index_bytes) {
  const std::map<std::string, std::string> weights = read_weight_map(index_path, index_bytes);
  const FolderView view(folder);
  std::unordered_map<std::string, std::size_t> opened;
  for (const auto& [name, file] : weights) {
    if (opened.contains(file)) continue;
    const std::string path = view.path(file);
    std::error_code error;
    if (!fs::exists(path, error)) {
      fail(WEFT_NOT_FOUND, "the shard ", path, " is missing: ", index_path, " says that it holds tensor ",
           in_quotes(name));
    }
    opened.emplace(file, files_.size());
    files_.push_back(open_weights(path));
  }
  std::vector<std::unordered_map<std::string_view, const StoredTensor*>> tensors(files_.size());
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const StoredTensor& tensor : files_[i].tensors) tensors[i].emplace(tensor.name, &tensor);
  }
  for (const auto& [name, file] : weights) {
    const auto& of_file = tensors[opened.at(file)];
    const auto found = of_file.find(name);
    if (found == of_file.end()) {
      fail(WEFT_DATA_LOSS, view.path(file), " does not hold tensor ", in_quotes(name), ", though ",
           index_path, " says so");
    }
    tensors_.push_back({found->second, &files_[opened.at(file)].file});
  }
}

const StoredTensor& CheckpointReader::tensor(uint64_t index) const {
  if (index >= tensors_.size()) {
    fail(WEFT_OUT_OF_RANGE, "tensor ", index, " was asked for, the checkpoint has ", tensors_.size());
  }
  return *tensors_[index].tensor;
}

void CheckpointReader::read(uint64_t index, const int64_t* offset, const int64_t* extent, void* destination,
                            uint64_t size_bytes) const {
  const StoredTensor& stored = tensor(index);
  const Box box = checked_box(stored, offset, extent, size_bytes);
  if (size_bytes == 0) return;
  if (destination == nullptr) {
    fail(WEFT_INVALID_ARGUMENT, "tensor ", in_quotes(stored.name), ": the buffer to read into is null");
  }
  tensors_[index].file->check_size();
  if (stored.checked != nullptr) stored.checked->check();
  auto* next = static_cast<std::byte*>(destination);
  for_each_run(box, stored.strides, stored.type->size_bytes, [&](int64_t position, int64_t num_bytes) {
    std::memcpy(next, stored.data + position, static_cast<std::size_t>(num_bytes));
    next += num_bytes;
  });
}

const std::string* CheckpointReader::metadata(const std::string& key) const {
  for (const WeightFile& file : files_) {
    const auto found = file.metadata.find(key);
    if (found != file.metadata.end()) return &found->second;
  }
  return nullptr;
}

}  // namespace weft::hugging_face
