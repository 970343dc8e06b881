#include "files/format.hpp"

#include <ATen/ops/empty.h>

#include <filesystem>

#include "base/error_sink.hpp"
#include "base/replaced_file.hpp"
#include "base/text.hpp"
#include "device/tensors.hpp"
#include "host/launch/crash_note.hpp"
#include "weft/torch/dtypes.hpp"

namespace weft::checkpoint {

namespace {

// Throws the error of a function of the format.
void check(const Format& format, const ErrorSink& error, weft_status status) {
  if (status != WEFT_OK && view(weft_error_text(error)).empty())
    fail(status, "checkpoint format {}: it returned status {} without a reason", format.label, status);
  error.check(status);
}

// Calls a function of the format. A crash names it.
template <class Call>
void call(const Format& format, const std::string& crash, const Call& function) {
  const CrashNote note(crash.c_str());
  ErrorSink error;
  check(format, error, function(error));
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

Reader::Reader(const std::string& path, const Format& format)
    : format_(format),
      path_(path),
      crash_(crash_text(format, "read", path)),
      reader_(nullptr, format.io->close) {
  const weft_checkpoint_io& io = *format_.io;
  weft_checkpoint_reader* reader = nullptr;
  call(format_, crash_,
       [&](weft_error* error) { return io.open(&io, borrow(format_.name), borrow(path), &reader, error); });
  if (reader == nullptr)
    fail(WEFT_INTERNAL, "checkpoint format {}: open succeeded and returned no reader of {}", format_.label,
         path);
  reader_.reset(reader);
  const CrashNote note(crash_.c_str());
  for (uint64_t i = 0; i < io.num_tensors(reader); ++i) {
    weft_tensor_entry entry{};
    entry.struct_size = sizeof(entry);
    call(format_, crash_, [&](weft_error* error) { return io.tensor(reader, i, &entry, error); });
    if (entry.ndim > WEFT_MAX_DIMS)
      fail(WEFT_DATA_LOSS, "checkpoint format {}: tensor {} of {} has {} dimensions, at most {} are possible",
           format_.label, i, path, entry.ndim, WEFT_MAX_DIMS);
    const std::string name(view(entry.name));
    const std::vector<int64_t> shape(entry.shape, entry.shape + entry.ndim);
    if (find(name) || std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; }))
      fail(WEFT_DATA_LOSS,
           "checkpoint format {}: tensor {} of {}, \"{}\", is there twice or has the shape ({})",
           format_.label, i, path, printable(name, 80), fmt::join(shape, ", "));
    add({name, scalar_type(entry.dtype), shape});
  }
}

Reader::Reader(const std::string& path, const std::string& wanted)
    : Reader(path, find_format_of(path, wanted)) {}

// What nobody recognises the default format tries, which says what is wrong with it.
Reader::Reader(const std::string& path, const Format* found) try
    : Reader(path, found != nullptr ? *found : format_named("")) {
} catch (const Error& error) {
  if (found != nullptr) throw;
  fail(error.status(), "{} (no installed checkpoint format recognises {}; asked: {})", error.what(), path,
       asked_formats());
}

std::optional<std::string> Reader::metadata(const std::string& key) const {
  const CrashNote note(crash_.c_str());
  const weft_str text = format_.io->metadata(reader_.get(), borrow(key));
  return text.data == nullptr ? std::nullopt : std::optional<std::string>(view(text));
}

void Reader::read(size_t index, const Box& box, const at::Tensor& destination) const {
  const at::ScalarType dtype = entries().at(index).dtype;
  const bool direct =
      device::is_on_host(destination) && destination.scalar_type() == dtype && destination.is_contiguous();
  const at::Tensor to = direct ? destination : at::empty(box.extent, dtype);
  call(format_, crash_, [&](weft_error* error) {
    return format_.io->read(reader_.get(), index, box.offset.data(), box.extent.data(), to.data_ptr(),
                            to.nbytes(), error);
  });
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
    : format_(format_named(options.format)),
      entries_(entries),
      path_(place_of(path)),
      crash_(crash_text(format_, "wrote", path_)) {
  if (names_a_file(path) && !is_default(format_))
    fail(WEFT_INVALID_ARGUMENT,
         "{} names a file of another checkpoint format by its extension, and the format is {}: give a folder",
         path, format_.label);
  std::vector<weft_kv> values;
  const auto add = [&](std::string_view key, uint32_t kind, int64_t integer, std::string_view text) {
    values.push_back({borrow(key), kind, 0, integer, 0, borrow(text)});
  };
  // Only what is asked for, since a format refuses what it does not have.
  if (options.shard) {
    add("shard", WEFT_KIND_BOOL, 1, "");
    add("size_per_shard", WEFT_KIND_INT, options.size_per_shard, "");
  }
  if (!options.use_safetensors) add("use_safetensors", WEFT_KIND_BOOL, 0, "");
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
  std::vector<const weft_tensor_entry*> pointers;
  for (const weft_tensor_entry& e : raw) pointers.push_back(&e);
  const weft_checkpoint_io& io = *format_.io;
  call(format_, crash_, [&](weft_error* error) {
    return io.create(&io, borrow(format_.name), borrow(path_), values.data(), values.size(), pointers.data(),
                     pointers.size(), &writer_, error);
  });
  if (writer_ == nullptr)
    fail(WEFT_INTERNAL, "checkpoint format {}: create succeeded and returned no writer of {}", format_.label,
         path_);
}

Writer::~Writer() {
  const CrashNote note(crash_.c_str());
  format_.io->abandon(writer_);
}

void Writer::write(size_t index, const Box& box, const at::Tensor& values) {
  const at::Tensor part = device::on_host(values.detach()).to(entries_.at(index).dtype).contiguous();
  call(format_, crash_, [&](weft_error* error) {
    return format_.io->write(writer_, index, box.offset.data(), box.extent.data(), part.data_ptr(),
                             part.nbytes(), error);
  });
}

void Writer::commit() {
  call(format_, crash_,
       [&](weft_error* error) { return format_.io->commit(std::exchange(writer_, nullptr), error); });
}

}  // namespace weft::checkpoint
