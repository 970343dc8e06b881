// A data set whose samples are rows of named tensors.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/text.hpp"
#include "files/tensor_file.hpp"
#include "loader/shared_checks.hpp"

namespace weft::data {

namespace {

class Tensors final : public Dataset {
 public:
  Tensors(std::unique_ptr<TensorFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {
    const auto& entries = file_->entries();
    if (entries.empty()) {
      fail(WEFT_INVALID_ARGUMENT, "{}: no tensors; a data file holds the model's inputs under their names",
           path_);
    }
    for (const TensorFile::Entry& entry : entries) {
      if (entry.shape.empty()) {
        fail(WEFT_INVALID_ARGUMENT, "{}: \"{}\" is a single number; the first dimension must count samples",
             path_, entry.name);
      }
      if (entry.shape[0] != entries[0].shape[0]) {
        fail(WEFT_INVALID_ARGUMENT,
             "{}: \"{}\" has {} samples, but \"{}\" has {}; the first dimension of every tensor must count "
             "the same "
             "samples",
             path_, entry.name, entry.shape[0], entries[0].name, entries[0].shape[0]);
      }
    }
    size_ = entries[0].shape[0];
    if (size_ == 0) fail(WEFT_INVALID_ARGUMENT, "{}: the tensors have 0 samples, must be at least 1", path_);
  }

  int64_t size() const override { return size_; }
  std::string name() const override { return path_; }

  Batch get(const std::vector<int64_t>& indices) const override {
    Batch batch;
    for (size_t i = 0; i < file_->entries().size(); ++i)
      batch.set(file_->entries()[i].name, rows(i, indices));
    return batch;
  }

  void check_vocabulary(const Vocabulary& vocabulary) const {
    for (size_t i = 0; i < file_->entries().size(); ++i) {
      const TensorFile::Entry& entry = file_->entries()[i];
      if (entry.name == vocabulary.field && isIntegralType(entry.dtype, false)) check_ids(i, vocabulary.size);
    }
  }

 private:
  at::Tensor rows(size_t entry, const std::vector<int64_t>& indices) const {
    const at::Tensor stacked = allocate(entry, static_cast<int64_t>(indices.size()));
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= size_) {
        fail(WEFT_OUT_OF_RANGE, "{}: no sample {}, there are {}", path_, indices[i], size_);
      }
      file_->read_rows(entry, indices[i], stacked.narrow(0, static_cast<int64_t>(i), 1));
    }
    return widened(stacked);
  }

  at::Tensor allocate(size_t entry, int64_t count) const {
    std::vector<int64_t> shape = file_->entries()[entry].shape;
    shape[0] = count;
    return at::empty(shape, file_->entries()[entry].dtype);
  }

  // libtorch takes indices and labels as int64; files can store narrower integers.
  static at::Tensor widened(const at::Tensor& tensor) {
    return isIntegralType(tensor.scalar_type(), false) ? tensor.to(at::kLong) : tensor;
  }

  void check_ids(size_t entry, int64_t vocabulary_size) const {
    constexpr int64_t kBlock = 4096;  // samples read at once
    for (int64_t begin = 0; begin < size_; begin += kBlock) {
      const at::Tensor block = allocate(entry, std::min(kBlock, size_ - begin));
      file_->read_rows(entry, begin, block);
      const at::Tensor ids = widened(block).contiguous();
      const auto* first = ids.const_data_ptr<int64_t>();
      const auto* last = first + ids.numel();
      const auto* found =
          std::find_if(first, last, [&](int64_t id) { return id < 0 || id >= vocabulary_size; });
      if (found == last) continue;
      const int64_t per_sample = ids.numel() / ids.size(0);
      refuse_token(path_,
                   fmt::format("of \"{}\", sample {}, position {},", file_->entries()[entry].name,
                               begin + (found - first) / per_sample, (found - first) % per_sample),
                   *found, vocabulary_size);
    }
  }

  std::unique_ptr<TensorFile> file_;
  std::string path_;
  int64_t size_ = 0;
};

}  // namespace

std::shared_ptr<Dataset> tensors(std::unique_ptr<TensorFile> file, const std::string& path,
                                 const std::vector<Vocabulary>& vocabularies) {
  auto dataset = std::make_shared<Tensors>(std::move(file), path);
  for (const Vocabulary& vocabulary : vocabularies) dataset->check_vocabulary(vocabulary);
  return dataset;
}

}  // namespace weft::data
