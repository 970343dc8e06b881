// Telling checkpoints apart: by names, types and shapes, and by blocks of every tensor, at a cost that does
// not grow with their size.
#include "files/fingerprint.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>

namespace weft::checkpoint {
namespace {

// Tensors in memory; a large one is a single number that is repeated, but for one element.
class Tensors final : public TensorSource {
 public:
  void add_tensor(const std::string& name, const at::Tensor& values) {
    add({name, values.scalar_type(), values.sizes().vec()});
    values_.push_back(values);
  }
  using TensorSource::read;
  void read(size_t index, const Box& box, const at::Tensor& destination) const override {
    at::Tensor part = values_[index];
    for (size_t dim = 0; dim < box.offset.size(); ++dim)
      part = part.narrow(static_cast<int64_t>(dim), box.offset[dim], box.extent[dim]);
    destination.copy_(part);
    bytes_read += static_cast<int64_t>(destination.nbytes());
  }
  mutable int64_t bytes_read = 0;

 private:
  std::vector<at::Tensor> values_;
};

std::string of(const std::vector<std::pair<std::string, at::Tensor>>& tensors) {
  Tensors source;
  for (const auto& [name, values] : tensors) source.add_tensor(name, values);
  return fingerprint(source);
}

TEST(Fingerprint, SeesEveryElementAndNameOfASmallCheckpoint) {
  const at::Tensor a = at::arange(5000, at::kFloat).view({50, 100}), b = at::ones({3}), none = at::empty({0});
  const std::string whole = of({{"a", a}, {"b", b}, {"none", none}});
  EXPECT_EQ(of({{"a", a.clone()}, {"b", b.clone()}, {"none", none}}), whole);
  for (const int64_t at : {0, 1023, 1024, 2500, 4999}) {
    const at::Tensor other = a.clone();
    other.view(-1)[at] += 1;
    EXPECT_NE(of({{"a", other}, {"b", b}, {"none", none}}), whole) << at;
  }
  EXPECT_NE(of({{"a", a}, {"c", b}, {"none", none}}), whole);
  EXPECT_NE(of({{"a", a.view({100, 50})}, {"b", b}, {"none", none}}), whole);
  EXPECT_NE(of({{"a", a}, {"b", b.to(at::kDouble)}, {"none", none}}), whole);
  EXPECT_NE(of({{"a", a}, {"b", b}}), whole);
}

// Two gigabytes in one tensor, a thousand small ones beside it: another value of any one of them is seen.
TEST(Fingerprint, ReadsLittleButABlockOfEveryTensorOfALargeCheckpoint) {
  const auto source_with = [](int64_t changed) {
    auto source = std::make_unique<Tensors>();
    source->add_tensor("large", at::full({1}, changed == -1 ? 2.0F : 1.0F).expand({1 << 15, 1 << 14}));
    for (int64_t i = 0; i < 1000; ++i)
      source->add_tensor("small" + std::to_string(i), at::full({40}, changed == i ? 2.0F : 1.0F));
    return source;
  };
  const auto same = source_with(-2);
  const std::string whole = fingerprint(*same);
  EXPECT_LT(same->bytes_read, 9 << 20);
  EXPECT_GT(same->bytes_read, 7 << 20);
  for (const int64_t changed : {-1, 0, 499, 999})
    EXPECT_NE(fingerprint(*source_with(changed)), whole) << changed;
}

}  // namespace
}  // namespace weft::checkpoint
