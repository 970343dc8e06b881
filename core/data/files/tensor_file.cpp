// Data sets from checkpoint files.
#include "files/tensor_file.hpp"

#include "files/format.hpp"

namespace weft::data {

namespace {

class CheckpointTensors final : public TensorFile {
 public:
  explicit CheckpointTensors(const std::string& path) : reader_(path, checkpoint::format_named("")) {
    for (const checkpoint::Entry& entry : reader_.entries())
      entries_.push_back({entry.name, entry.dtype, entry.shape});
  }
  const std::vector<Entry>& entries() const override { return entries_; }
  void read_rows(size_t entry, int64_t first_row, const at::Tensor& rows) const override {
    reader_.read_range(entry, rows.size(0) == 0 ? 0 : first_row * (rows.numel() / rows.size(0)), rows);
  }

 private:
  checkpoint::Reader reader_;
  std::vector<Entry> entries_;
};

}  // namespace

std::unique_ptr<TensorFile> open_tensor_file(const std::string& path) {
  return std::make_unique<CheckpointTensors>(path);
}

}  // namespace weft::data
