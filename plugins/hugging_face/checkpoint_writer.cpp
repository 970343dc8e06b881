#include "checkpoint_writer.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "json.hpp"
#include "safetensors.hpp"
#include "text.hpp"
#include "torch_file.hpp"

namespace weft::hugging_face {
namespace {

namespace fs = std::filesystem;

bool has_torch_extension(const fs::path& path) {
  return path.extension() == ".bin" || path.extension() == ".pt" || path.extension() == ".pth";
}

bool has_file_extension(const fs::path& path) {
  return path.extension() == ".safetensors" || has_torch_extension(path);
}

void check_entries(const std::vector<TensorEntry>& entries) {
  std::set<std::string_view> names;
  for (const TensorEntry& entry : entries) {
    size_bytes(entry);
    if (!names.insert(entry.name).second) {
      fail(WEFT_INVALID_ARGUMENT, "tensor ", in_quotes(entry.name),
           " is to be saved twice; a tied tensor is given once");
    }
  }
}

}  // namespace

std::vector<std::vector<std::size_t>> plan_shards(const std::vector<TensorEntry>& entries,
                                                  uint64_t limit_bytes) {
  std::vector<std::vector<std::size_t>> shards(1);
  uint64_t used = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const uint64_t bytes = size_bytes(entries[i]);
    if (!shards.back().empty() && (used > limit_bytes || bytes > limit_bytes - used)) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(i);
    used += bytes;
  }
  return shards;
}

CheckpointWriter::CheckpointWriter(std::string path, WriteOptions options, std::vector<TensorEntry> entries)
    : path_(std::move(path)), options_(std::move(options)), entries_(std::move(entries)) {
  check_entries(entries_);
  check_prefix(options_.prefix);
  resolve_path();
  places_.resize(entries_.size());
  if (options_.shard) {
    plan_sharded();
  } else {
    plan_single();
  }
  for (const TensorEntry& entry : entries_) coverage_.emplace_back(entry.shape);
  try {
    prepare_folder();
    create_files();
  } catch (...) {
    files_.clear();
    lock_.reset();
    remove_made_folders();
    throw;
  }
}

CheckpointWriter::~CheckpointWriter() {
  files_.clear();
  lock_.reset();
  if (!committed_) remove_made_folders();
}

void CheckpointWriter::resolve_path() {
  if (path_.empty()) fail(WEFT_INVALID_ARGUMENT, "the path to save to is empty");
  const fs::path path(path_);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  is_folder_ = fs::is_directory(status) || (!fs::exists(status) && !has_file_extension(path));
  if (fs::exists(status) && !is_folder_ && !fs::is_regular_file(status)) {
    fail(WEFT_INVALID_ARGUMENT, "cannot save to ", path_, ": it is neither a file nor a folder");
  }
  if (!is_folder_ && options_.shard) {
    fail(WEFT_INVALID_ARGUMENT, "cannot save to ", path_,
         ": shard=true writes several files, so the path must be a folder");
  }
  if (!is_folder_ && !options_.prefix.empty()) {
    fail(WEFT_INVALID_ARGUMENT, "cannot save to ", path_, ": prefix ", in_quotes(options_.prefix),
         " is for the file names in a folder, but the path is a file; put it into the file's name");
  }
  const bool by_extension = is_folder_ || !has_torch_extension(path);
  const bool use_safetensors = options_.use_safetensors.value_or(by_extension);
  if (!is_folder_ && has_file_extension(path) && use_safetensors != by_extension) {
    fail(WEFT_INVALID_ARGUMENT, "cannot save to ", path_, ": use_safetensors is ",
         use_safetensors ? "true" : "false", ", but the file is called *", path.extension().string(),
         "; change one of the two");
  }
  names_ = {options_.prefix, use_safetensors};
  folder_ = is_folder_ ? path_ : path.parent_path().empty() ? "." : path.parent_path().string();
  file_name_ = is_folder_ ? names_.single() : path.filename().string();
}

void CheckpointWriter::prepare_folder() {
  std::error_code error;
  if (!is_folder_ && !fs::is_directory(folder_, error)) {
    fail(WEFT_NOT_FOUND, "cannot save to ", path_, ": there is no folder ", folder_);
  }
  for (fs::path missing = folder_; !missing.empty() && !fs::exists(missing, error);
       missing = missing.parent_path()) {
    if (missing.has_filename()) made_folders_.push_back(missing.string());
  }
  fs::create_directories(folder_, error);
  if (error) fail(WEFT_PERMISSION_DENIED, "cannot make the folder ", folder_, ": ", error.message());

  const std::string suffix = options_.prefix.empty() ? "" : "." + options_.prefix;
  const std::string lock_name =
      is_folder_ ? concat(".weft-save", suffix, ".lock") : concat(".", file_name_, ".lock");
  lock_ = std::make_unique<SaveLock>((fs::path(folder_) / lock_name).string(), path_);
  if (!is_folder_) return;
  // Clean up after killed saves: complete their decided commits and remove their other files.
  finish_commit(folder_, options_.prefix);
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    constexpr std::string_view kTail = ".partial";
    const std::string name = entry.path().filename().string();
    if (name.size() <= kTail.size() || name.front() != '.' || !name.ends_with(kTail)) continue;
    if (names_.owns(name.substr(1, name.size() - 1 - kTail.size()))) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) fs::remove(leftover, error);
}

void CheckpointWriter::plan_file(const std::string& name, const std::vector<std::size_t>& indices) {
  std::vector<TensorEntry> entries;
  for (std::size_t index : indices) entries.push_back(entries_[index]);
  layouts_.push_back(names_.safetensors ? plan_safetensors(entries, options_.metadata)
                                        : plan_torch_file(entries, options_.metadata));
  for (std::size_t i = 0; i < indices.size(); ++i) {
    places_[indices[i]] = {file_names_.size(), layouts_.back().tensor_offsets[i]};
  }
  file_names_.push_back(name);
}

void CheckpointWriter::plan_single() {
  std::vector<std::size_t> all(entries_.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  plan_file(file_name_, all);
}

void CheckpointWriter::plan_sharded() {
  constexpr uint64_t kMegabyte = 1 << 20;
  if (options_.size_per_shard == 0 || options_.size_per_shard > INT64_MAX / kMegabyte) {
    fail(WEFT_INVALID_ARGUMENT, "size_per_shard is ", options_.size_per_shard,
         " MB, must be at least 1 and fit 64 bits");
  }
  const auto shards = plan_shards(entries_, options_.size_per_shard * kMegabyte);
  std::map<std::string, std::string> weight_map;
  uint64_t total = 0;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    const std::string name = names_.shard(shard + 1, shards.size());
    plan_file(name, shards[shard]);
    for (std::size_t index : shards[shard]) {
      weight_map[entries_[index].name] = name;
      total += size_bytes(entries_[index]);
    }
  }
  const Json json = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  FileLayout index;
  index.regions.push_back({0, json_text(json, 2) + "\n"});
  index.size = index.regions[0].bytes.size();
  layouts_.push_back(std::move(index));
  file_names_.push_back(names_.index());
}

void CheckpointWriter::create_files() {
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    files_.emplace_back((fs::path(folder_) / file_names_[i]).string(), layouts_[i].size);
  }
  for (std::size_t i = 0; i < layouts_.size(); ++i) {
    for (FileLayout::Region& region : layouts_[i].regions)
      files_[i].write(region.offset, as_bytes(region.bytes));
    layouts_[i].regions.clear();
  }
}

void CheckpointWriter::write(uint64_t index, const int64_t* offset, const int64_t* extent, const void* source,
                             uint64_t size_bytes) {
  if (index >= entries_.size()) {
    fail(WEFT_OUT_OF_RANGE, "tensor ", index, " is written, the checkpoint has ", entries_.size());
  }
  const TensorEntry& entry = entries_[index];
  const Box box = checked_box(entry, offset, extent, size_bytes);
  if (size_bytes == 0) return;
  if (source == nullptr)
    fail(WEFT_INVALID_ARGUMENT, "tensor ", in_quotes(entry.name), ": the buffer to write is null");
  const auto* next = static_cast<const std::byte*>(source);
  const Place place = places_[index];
  const auto strides = contiguous_strides(entry.shape, entry.type->size_bytes);
  for_each_run(box, strides, entry.type->size_bytes, [&](int64_t position, int64_t num_bytes) {
    const auto run_bytes = static_cast<std::size_t>(num_bytes);
    files_[place.file].write(place.offset + static_cast<uint64_t>(position), {next, run_bytes});
    next += num_bytes;
  });
  const std::lock_guard<std::mutex> guard(mutex_);
  coverage_[index].add(box);
}

void CheckpointWriter::check_complete() const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (coverage_[i].complete()) continue;
    fail(WEFT_FAILED_PRECONDITION, "cannot complete the save to ", path_, ": of tensor ",
         in_quotes(entries_[i].name), " of shape ", shape_text(entries_[i].shape), " the box ",
         box_text(coverage_[i].first_missing()), " was never written");
  }
}

void CheckpointWriter::write_checksums() {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    for (const FileLayout::Checksum& checksum : layouts_[i].checksums) {
      const uint32_t value = files_[i].checksum(checksum.offset, checksum.size);
      for (uint64_t offset : checksum.stored_at) files_[i].write(offset, std::as_bytes(std::span(&value, 1)));
    }
  }
}

void CheckpointWriter::commit() {
  check_complete();
  write_checksums();
  for (OutputFile& file : files_) file.sync();
  Changes changes{options_.prefix, file_names_, {}};
  if (is_folder_) changes = plan_changes(folder_, options_.prefix, file_names_);
  if (changes.install.size() == 1 && changes.remove.empty()) {
    install_file((fs::path(folder_) / changes.install.front()).string());
    files_.front().release();
    committed_ = true;
    sync_folder(folder_);
    return;
  }
  write_journal(folder_, changes);
  // The commit is decided. If a later step fails, the files stay and the next save completes the commit.
  for (OutputFile& file : files_) file.release();
  committed_ = true;
  apply_changes(folder_, changes);
}

void CheckpointWriter::remove_made_folders() noexcept {
  // Innermost folders first. A folder that contains other files stays.
  for (const std::string& folder : made_folders_) rmdir(folder.c_str());
}

}  // namespace weft::hugging_face
