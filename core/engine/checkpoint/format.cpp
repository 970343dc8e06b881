#include "checkpoint/format.hpp"

#include <ATen/ops/empty.h>

#include <numeric>

#include "base/text.hpp"
#include "booster/plugins.hpp"
#include "error_sink.hpp"
#include "training/dtypes.hpp"

namespace weft::checkpoint {

namespace {

// The default format: the plugin whose manifest says so.
const weft_checkpoint_io& default_format() {
  static const weft_checkpoint_io& format = []() -> const weft_checkpoint_io& {
    const weft_loaded loaded = load_plugin("checkpoint_io", "");
    const auto& factory = plugin_factory<weft_checkpoint_io_factory>(loaded, WEFT_FACTORY_CHECKPOINT_IO);
    const weft_checkpoint_io* found = factory.find(loaded.id);
    if (found == nullptr)
      fail(WEFT_FAILED_PRECONDITION, "plugin {} has no checkpoint format of its name", view(loaded.id));
    return *found;
  }();
  return format;
}

int64_t product(const std::vector<int64_t>& sizes, size_t from = 0) {
  return std::accumulate(sizes.begin() + static_cast<int64_t>(from), sizes.end(), int64_t{1},
                         std::multiplies<>());
}

void add_boxes(const std::vector<int64_t>& shape, size_t dim, std::vector<int64_t> offset, int64_t begin,
               int64_t count, int64_t at, std::vector<Box>& out) {
  if (count == 0) return;
  std::vector<int64_t> extent(dim, 1);
  if (dim == shape.size()) {
    out.push_back({std::move(offset), std::move(extent), at});
    return;
  }
  const int64_t row = product(shape, dim + 1);
  // A partial first row, whole rows, a partial last row.
  const int64_t head = begin % row == 0 ? 0 : std::min(count, row - begin % row);
  const auto partial = [&](int64_t start, int64_t length, int64_t position) {
    std::vector<int64_t> inside = offset;
    inside.push_back(start / row);
    add_boxes(shape, dim + 1, std::move(inside), start % row, length, position, out);
  };
  if (head > 0) partial(begin, head, at);
  const int64_t rows = (count - head) / row;
  if (rows > 0) {
    Box box{offset, extent, at + head};
    box.offset.push_back((begin + head) / row);
    box.extent.push_back(rows);
    for (size_t d = dim + 1; d < shape.size(); ++d) {
      box.offset.push_back(0);
      box.extent.push_back(shape[d]);
    }
    out.push_back(std::move(box));
  }
  const int64_t done = head + rows * row;
  if (done < count) partial(begin + done, count - done, at + done);
}

}  // namespace

std::vector<Box> boxes_of_range(const std::vector<int64_t>& shape, int64_t begin, int64_t count) {
  std::vector<Box> boxes;
  add_boxes(shape, 0, {}, begin, count, 0, boxes);
  return boxes;
}

int64_t Entry::numel() const {
  return product(shape);
}

bool recognises(const std::string& path) {
  return default_format().recognises(borrow(path)) != 0;
}

Reader::Reader(const std::string& path) : io_(&default_format()), path_(path), reader_(nullptr, io_->close) {
  ErrorSink error;
  weft_checkpoint_reader* reader = nullptr;
  error.check(io_->open(borrow(path), &reader, error));
  reader_.reset(reader);
  for (uint64_t i = 0; i < io_->num_tensors(reader); ++i) {
    weft_tensor_entry entry{};
    entry.struct_size = sizeof(entry);
    error.check(io_->tensor(reader, i, &entry, error));
    entries_.push_back({std::string(view(entry.name)),
                        scalar_type_of(entry.dtype),
                        {entry.shape, entry.shape + entry.ndim}});
    index_[entries_.back().name] = entries_.size() - 1;
  }
}

std::optional<size_t> Reader::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? std::nullopt : std::optional<size_t>(found->second);
}

std::optional<std::string> Reader::metadata(const std::string& key) const {
  const weft_str text = io_->metadata(reader_.get(), borrow(key));
  return text.data == nullptr ? std::nullopt : std::optional<std::string>(view(text));
}

void Reader::read_box(size_t index, const std::vector<int64_t>& offset, const std::vector<int64_t>& extent,
                      const at::Tensor& to) const {
  ErrorSink error;
  error.check(
      io_->read(reader_.get(), index, offset.data(), extent.data(), to.data_ptr(), to.nbytes(), error));
}

at::Tensor Reader::read(size_t index) const {
  const at::Tensor tensor = at::empty(entries_.at(index).shape, entries_[index].dtype);
  ErrorSink error;
  error.check(io_->read(reader_.get(), index, nullptr, nullptr, tensor.data_ptr(), tensor.nbytes(), error));
  return tensor;
}

void Reader::read_range(size_t index, int64_t begin, const at::Tensor& destination) const {
  const Entry& entry = entries_.at(index);
  const at::Tensor flat = destination.view(-1);
  for (const Box& box : boxes_of_range(entry.shape, begin, flat.numel())) {
    std::vector<int64_t> extent = box.extent;
    const int64_t count = product(extent);
    const at::Tensor part = flat.narrow(0, box.begin, count);
    if (entry.dtype == destination.scalar_type()) {
      read_box(index, box.offset, extent, part);
    } else {
      const at::Tensor raw = at::empty({count}, entry.dtype);
      read_box(index, box.offset, extent, raw);
      part.copy_(raw);
    }
  }
}

at::Tensor Reader::read_rows(size_t index, int64_t begin, int64_t count) const {
  std::vector<int64_t> extent = entries_.at(index).shape, offset(extent.size(), 0);
  extent[0] = count;
  offset[0] = begin;
  const at::Tensor rows = at::empty(extent, entries_[index].dtype);
  read_box(index, offset, extent, rows);
  return rows;
}

Writer::Writer(const std::string& path, const WriteOptions& options, const std::vector<Entry>& entries)
    : io_(&default_format()), entries_(entries), path_(path) {
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
  error.check(
      io_->create(borrow(path), values.data(), values.size(), raw.data(), raw.size(), &writer_, error));
}

Writer::~Writer() {
  io_->abandon(writer_);
}

void Writer::write(size_t index, int64_t begin, const at::Tensor& values) {
  const Entry& entry = entries_.at(index);
  const at::Tensor flat = values.detach().to(entry.dtype).contiguous().view(-1);
  ErrorSink error;
  for (const Box& box : boxes_of_range(entry.shape, begin, flat.numel())) {
    const at::Tensor part = flat.narrow(0, box.begin, product(box.extent));
    error.check(io_->write(writer_, index, box.offset.data(), box.extent.data(), part.data_ptr(),
                           part.nbytes(), error));
  }
}

void Writer::commit() {
  ErrorSink error;
  error.check(io_->commit(std::exchange(writer_, nullptr), error));
}

}  // namespace weft::checkpoint
