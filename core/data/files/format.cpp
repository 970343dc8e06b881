#include "files/format.hpp"

#include <ATen/ops/empty.h>

#include <filesystem>

#include "base/error_sink.hpp"
#include "base/replaced_file.hpp"
#include "base/text.hpp"
#include "device/tensors.hpp"
#include "plugins.hpp"
#include "weft/torch/dtypes.hpp"

namespace weft::checkpoint {

namespace {

struct Format {
  const weft_checkpoint_io* io;
  std::string plugin;  // its name, for messages
};

// The default format: the plugin whose manifest says so.
const Format& default_format() {
  static const Format format = [] {
    const weft_loaded loaded = load_plugin("checkpoint_io", "");
    const auto& factory = plugin_factory<weft_checkpoint_io_factory>(loaded, WEFT_FACTORY_CHECKPOINT_IO);
    const weft_checkpoint_io* found = factory.find(loaded.id);
    if (found == nullptr)
      fail(WEFT_FAILED_PRECONDITION, "plugin {} has no checkpoint format of its name", view(loaded.id));
    return Format{found, std::string(view(loaded.id))};
  }();
  return format;
}

// Throws the error of a function of the format.
void check(const ErrorSink& error, weft_status status) {
  if (status != WEFT_OK && view(weft_error_text(error)).empty())
    fail(status, "checkpoint format {}: it returned status {} without a reason", default_format().plugin,
         status);
  error.check(status);
}

}  // namespace

int64_t Entry::numel() const {
  return Box::whole(shape).numel();
}

std::optional<size_t> TensorSource::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? std::nullopt : std::optional<size_t>(found->second);
}

void TensorSource::add(Entry entry) {
  index_[entry.name] = entries_.size();
  entries_.push_back(std::move(entry));
}

void TensorSource::read_range(size_t index, int64_t begin, const at::Tensor& destination) const {
  const at::Tensor flat = destination.view(-1);
  int64_t done = 0;
  for (const Box& box : boxes_of_range(Box::whole(entries_.at(index).shape), begin, flat.numel())) {
    read(index, box, flat.narrow(0, done, box.numel()).view(box.extent));
    done += box.numel();
  }
}

void require_format() {
  default_format();
}

bool recognises(const std::string& path) {
  return default_format().io->recognises(borrow(path)) != 0;
}

Reader::Reader(const std::string& path)
    : io_(default_format().io), path_(path), reader_(nullptr, io_->close) {
  ErrorSink error;
  weft_checkpoint_reader* reader = nullptr;
  check(error, io_->open(borrow(path), &reader, error));
  if (reader == nullptr)
    fail(WEFT_INTERNAL, "checkpoint format {}: open succeeded and returned no reader of {}",
         default_format().plugin, path);
  reader_.reset(reader);
  for (uint64_t i = 0; i < io_->num_tensors(reader); ++i) {
    weft_tensor_entry entry{};
    entry.struct_size = sizeof(entry);
    check(error, io_->tensor(reader, i, &entry, error));
    if (entry.ndim > WEFT_MAX_DIMS)
      fail(WEFT_DATA_LOSS, "checkpoint format {}: tensor {} of {} has {} dimensions, at most {} are possible",
           default_format().plugin, i, path, entry.ndim, WEFT_MAX_DIMS);
    add({std::string(view(entry.name)), scalar_type(entry.dtype), {entry.shape, entry.shape + entry.ndim}});
  }
}

std::optional<std::string> Reader::metadata(const std::string& key) const {
  const weft_str text = io_->metadata(reader_.get(), borrow(key));
  return text.data == nullptr ? std::nullopt : std::optional<std::string>(view(text));
}

void Reader::read(size_t index, const Box& box, const at::Tensor& destination) const {
  const at::ScalarType dtype = entries().at(index).dtype;
  const bool direct =
      device::is_on_host(destination) && destination.scalar_type() == dtype && destination.is_contiguous();
  const at::Tensor to = direct ? destination : at::empty(box.extent, dtype);
  ErrorSink error;
  check(error, io_->read(reader_.get(), index, box.offset.data(), box.extent.data(), to.data_ptr(),
                         to.nbytes(), error));
  if (!direct) destination.copy_(to);
}

at::Tensor TensorSource::read(size_t index) const {
  const Entry& entry = entries().at(index);
  const at::Tensor tensor = at::empty(entry.shape, entry.dtype);
  read(index, Box::whole(entry.shape), tensor);
  return tensor;
}

namespace {

// Returns where a file or folder goes that is put into its place whole: for a link to a file, what it leads
// to.
std::string place_of(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) return path;
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    fail(WEFT_INVALID_ARGUMENT,
         "{} is no regular file, and a file of tensors takes its place as a whole: name another", path);
  return std::filesystem::is_symlink(std::filesystem::symlink_status(path, ignored))
             ? without_links(path).string()
             : path;
}

}  // namespace

Writer::Writer(const std::string& path, const WriteOptions& options, const std::vector<Entry>& entries)
    : io_(default_format().io), entries_(entries), path_(place_of(path)) {
  std::vector<weft_kv> values;
  const auto add = [&](std::string_view key, uint32_t kind, int64_t integer, std::string_view text) {
    values.push_back({borrow(key), kind, 0, integer, 0, borrow(text)});
  };
  add("shard", WEFT_KIND_BOOL, options.shard, "");
  add("use_safetensors", WEFT_KIND_BOOL, options.use_safetensors, "");
  add("size_per_shard", WEFT_KIND_INT, options.size_per_shard, "");
  if (!options.prefix.empty()) add("prefix", WEFT_KIND_TEXT, 0, options.prefix);
  std::vector<std::string> keys;
  keys.reserve(options.metadata.size());
  for (const auto& [key, text] : options.metadata) {
    keys.push_back("metadata." + key);
    add(keys.back(), WEFT_KIND_TEXT, 0, text);
  }
  std::vector<weft_tensor_entry> raw;
  for (const Entry& entry : entries_) {
    weft_tensor_entry e{};
    e.struct_size = sizeof(e);
    e.name = borrow(entry.name);
    e.dtype = dtype_code(entry.dtype);
    e.ndim = static_cast<uint32_t>(entry.shape.size());
    std::copy(entry.shape.begin(), entry.shape.end(), e.shape);
    raw.push_back(e);
  }
  ErrorSink error;
  check(error,
        io_->create(borrow(path_), values.data(), values.size(), raw.data(), raw.size(), &writer_, error));
  if (writer_ == nullptr)
    fail(WEFT_INTERNAL, "checkpoint format {}: create succeeded and returned no writer of {}",
         default_format().plugin, path_);
}

Writer::~Writer() {
  io_->abandon(writer_);
}

void Writer::write(size_t index, const Box& box, const at::Tensor& values) {
  const at::Tensor part = device::on_host(values.detach()).to(entries_.at(index).dtype).contiguous();
  ErrorSink error;
  check(error, io_->write(writer_, index, box.offset.data(), box.extent.data(), part.data_ptr(),
                          part.nbytes(), error));
}

void Writer::commit() {
  ErrorSink error;
  check(error, io_->commit(std::exchange(writer_, nullptr), error));
}

}  // namespace weft::checkpoint
