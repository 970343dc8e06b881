// Data sets of four numbers for each sample, once right and else with one mistake for each name.
#include <weft/define_data.hpp>

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace {

namespace data = weft::data;

class Numbers final : public data::Dataset {
 public:
  Numbers(std::string name, int64_t size) : name_(std::move(name)), size_(size) {
    static std::atomic<int64_t> opened = 0;
    if (is("other_when_opened")) begin_ = opened++;
  }

  int64_t size() const override { return size_; }
  weft::Batch get(const std::vector<int64_t>& indices) const override { return get_in_epoch(indices, 0); }
  weft::Batch get_in_epoch(const std::vector<int64_t>& indices, int64_t epoch) const override {
    if (is("other_every_time")) ++begin_;
    if (is("other_in_an_epoch") && epoch > 0) begin_ = begin_ + 1;
    std::vector<int64_t> values;
    for (size_t i = 0; i < indices.size(); ++i) {
      const int64_t sample =
          is("forgets_the_order") ? *std::min_element(indices.begin(), indices.end()) : indices[i];
      for (int64_t k = 0; k < 4; ++k) values.push_back(begin_ + 100 * epoch + 10 * sample + k);
    }
    if (is("shares_a_buffer")) {
      shared_ = values.empty() ? 0 : values[0];
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      values[0] = shared_;
    }
    weft::Batch batch;
    const at::Tensor ids = at::tensor(values, at::kLong).view({-1, 4});
    batch.set("input_ids", is("has_one_row") ? ids.view({1, -1}) : ids);
    return batch;
  }

 private:
  bool is(const char* mistake) const { return name_ == mistake; }

  const std::string name_;
  const int64_t size_;
  mutable std::atomic<int64_t> begin_ = 0;
  mutable std::atomic<int64_t> shared_ = 0;
};

std::shared_ptr<data::Dataset> open_numbers(const data::OpenRequest& request) {
  if (request.name == "nothing") return nullptr;
  return std::make_shared<Numbers>(request.name, request.options.get<int64_t>("size"));
}

}  // namespace

WEFT_DATA_LIBRARY(open_numbers)
