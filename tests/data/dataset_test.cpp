#include <ATen/ATen.h>

#include <filesystem>
#include <fstream>

#include "files/tensor_file.hpp"
#include "loader/fingerprint.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::data {
namespace {

using at::Tensor;

std::string bytes_of(const std::vector<uint16_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(uint16_t)};
}

std::string bytes_of(const std::vector<uint32_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(uint32_t)};
}

class DataFile : public testing::Test {
 protected:
  test::TemporaryFolder folder_;
};

TEST_F(DataFile, IsRefusedIfItIsNoFile) {
  EXPECT_ERROR(text(folder_.path() + "/absent.txt", 4), WEFT_NOT_FOUND, "absent.txt", "data file");
  EXPECT_ERROR(open(folder_.path(), 4, TokenType::kUint16), WEFT_INVALID_ARGUMENT, folder_.path(), "folder");
  EXPECT_ERROR(open("", 4, TokenType::kUint16), WEFT_NOT_FOUND, "\"\"", "data file");
  EXPECT_ERROR(tensors(folder_.path() + "/absent.safetensors"), WEFT_NOT_FOUND, "absent.safetensors");
}

TEST_F(DataFile, IsAnErrorIfItIsCutWhileItIsRead) {
  const std::string path = folder_.file("a.txt", std::string(100'000, 'a'));
  const auto samples = text(path, 100);
  samples->get({999});
  std::filesystem::resize_file(path, 5000);
  EXPECT_ERROR(samples->get({999}), WEFT_DATA_LOSS, "a.txt", "became shorter", "100000 bytes", "has 5000");
}

TEST_F(DataFile, IsRefusedIfItHoldsNoSample) {
  EXPECT_ERROR(text(folder_.file("a.txt", ""), 4), WEFT_INVALID_ARGUMENT, "a.txt", "empty");
  EXPECT_ERROR(text(folder_.file("a.txt", "abc"), 4), WEFT_INVALID_ARGUMENT, "a.txt", "3 tokens",
               "sample of 4", "--sequence-length");
  EXPECT_ERROR(text(folder_.file("a.txt", "abc"), 0), WEFT_INVALID_ARGUMENT, "length is 0");
  EXPECT_ERROR(tokens(folder_.file("a.bin", bytes_of(std::vector<uint16_t>{1, 2})), 4, TokenType::kUint16),
               WEFT_INVALID_ARGUMENT, "2 tokens", "sample of 4");
}

TEST_F(DataFile, IsRefusedIfItEndsWithinAToken) {
  const std::string path = folder_.file("a.bin", "1234567");
  EXPECT_ERROR(tokens(path, 1, TokenType::kUint16), WEFT_INVALID_ARGUMENT, "a.bin", "7 bytes", "2 bytes",
               "--token-type");
  EXPECT_ERROR(tokens(path, 1, TokenType::kUint32), WEFT_INVALID_ARGUMENT, "a.bin", "7 bytes", "4 bytes",
               "--token-type");
}

TEST_F(DataFile, IsRefusedForATokenOutsideTheVocabulary) {
  std::vector<uint16_t> many(200'000, 5);
  many[150'001] = 300;
  const std::string path = folder_.file("a.bin", bytes_of(many));
  EXPECT_ERROR(open(path, 4, TokenType::kUint16, {{"input_ids", 300}}), WEFT_INVALID_ARGUMENT, "a.bin",
               "token 300", "position 150001", "0 to 299", "--token-type");
  EXPECT_EQ(open(path, 4, TokenType::kUint16, {{"input_ids", 301}})->size(), 50'000);
  EXPECT_EQ(open(path, 4, TokenType::kUint16)->size(), 50'000);
  EXPECT_ERROR(open(folder_.file("a.txt", "abcz"), 4, TokenType::kUint16, {{"input_ids", 'z'}}),
               WEFT_INVALID_ARGUMENT, "token 122", "position 3");
  EXPECT_ERROR(open(folder_.file("b.bin", bytes_of(std::vector<uint32_t>{1, 4'000'000'000})), 2,
                    TokenType::kUint32, {{"input_ids", 9}}),
               WEFT_INVALID_ARGUMENT, "token 4000000000", "position 1");
}

TEST_F(DataFile, IsRefusedAsTextIfItHoldsZeroBytes) {
  EXPECT_ERROR(
      open(folder_.file("a.npy", std::string("ab\0d", 4)), 2, TokenType::kUint16, {{"input_ids", 256}}),
      WEFT_INVALID_ARGUMENT, "a.npy", "byte 2 is zero", ".bin");
}

TEST_F(DataFile, HoldsATokenPerByteOfText) {
  const auto data = text(folder_.file("a.txt", "ABCDEFGH\xff\x80z"), 3);
  EXPECT_EQ(data->size(), 3);
  const Batch batch = data->get({2, 0});
  EXPECT_TRUE(batch.at("input_ids").equal(at::tensor({71, 72, 255, 65, 66, 67}, at::kLong).view({2, 3})));
  EXPECT_TRUE(batch.at("labels").equal(batch.at("input_ids")));
  EXPECT_FALSE(batch.empty);
  EXPECT_ERROR(data->get({3}), WEFT_OUT_OF_RANGE, "no sample 3");
  EXPECT_ERROR(data->get({-1}), WEFT_OUT_OF_RANGE, "no sample -1");
}

TEST_F(DataFile, IsLittleEndianForTokens) {
  EXPECT_TRUE(tokens(folder_.file("a.bin", std::string("\x01\x02\xff\xff", 4)), 2, TokenType::kUint16)
                  ->get({0})
                  .at("input_ids")
                  .equal(at::tensor({0x0201, 0xffff}, at::kLong).view({1, 2})));
  EXPECT_TRUE(open(folder_.file("b.bin", std::string("\x01\x02\x03\xff", 4)), 1, TokenType::kUint32)
                  ->get({0})
                  .at("input_ids")
                  .equal(at::full({1, 1}, 0xff030201, at::kLong)));
}

class TensorsInMemory final : public TensorFile {
 public:
  explicit TensorsInMemory(std::vector<std::pair<std::string, Tensor>> tensors)
      : tensors_(std::move(tensors)) {
    for (const auto& [name, tensor] : tensors_)
      entries_.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  }
  const std::vector<Entry>& entries() const override { return entries_; }
  void read_rows(size_t entry, int64_t first_row, const Tensor& rows) const override {
    ASSERT_EQ(rows.scalar_type(), entries_[entry].dtype);
    at::Tensor(rows).copy_(tensors_[entry].second.narrow(0, first_row, rows.size(0)));
  }

 private:
  std::vector<std::pair<std::string, Tensor>> tensors_;
  std::vector<Entry> entries_;
};

std::shared_ptr<Dataset> made_of(std::vector<std::pair<std::string, Tensor>> tensors_by_name,
                                 int64_t vocabulary = 1000) {
  return tensors(std::make_unique<TensorsInMemory>(std::move(tensors_by_name)), "a.safetensors",
                 {{"input_ids", vocabulary}});
}

TEST_F(DataFile, HasAFingerprintOfItsContent) {
  std::string bytes(4 * 300 + 2, 'a');
  const auto content = [&](int64_t length) {
    return compared_content(*text(folder_.file("a.txt", bytes), length));
  };
  const std::string whole = content(4);
  EXPECT_EQ(whole.size(), 12u);
  EXPECT_EQ(content(4), whole);
  EXPECT_NE(content(8), whole);
  for (const size_t position : {size_t{0}, size_t{4 * 299 + 3}}) {
    bytes[position] = 'b';
    EXPECT_NE(content(4), whole) << position;
    bytes[position] = 'a';
  }
  bytes[4 * 300] = 'b';  // of no sample
  EXPECT_EQ(content(4), whole);
  EXPECT_EQ(text(folder_.path() + "/a.txt", 4)->name(), folder_.path() + "/a.txt");
}

TEST(DataFileOfTensors, IsRefusedIfSamplesCannotBeCounted) {
  EXPECT_ERROR(made_of({}), WEFT_INVALID_ARGUMENT, "a.safetensors", "no tensors");
  EXPECT_ERROR(made_of({{"input_ids", at::ones({})}}), WEFT_INVALID_ARGUMENT, "input_ids", "single number");
  EXPECT_ERROR(made_of({{"input_ids", at::ones({3, 2})}, {"labels", at::ones({4})}}), WEFT_INVALID_ARGUMENT,
               "\"labels\" has 4", "\"input_ids\" has 3");
  EXPECT_ERROR(made_of({{"input_ids", at::ones({0, 2})}}), WEFT_INVALID_ARGUMENT, "0 samples");
}

TEST(DataFileOfTensors, IsRefusedForATokenOutsideTheVocabulary) {
  Tensor ids = at::zeros({5000, 3}, at::kInt);
  ids[4500][2] = 9;
  EXPECT_ERROR(made_of({{"input_ids", ids}}, 9), WEFT_INVALID_ARGUMENT, "\"input_ids\"", "sample 4500",
               "position 2", "token 9", "0 to 8");
  EXPECT_EQ(made_of({{"input_ids", ids}}, 10)->size(), 5000);
  ids[0][1] = -100;
  EXPECT_ERROR(made_of({{"input_ids", ids}}, 10), WEFT_INVALID_ARGUMENT, "token -100", "sample 0",
               "position 1");
  EXPECT_EQ(made_of({{"labels", ids}}, 2)->size(), 5000);
}

TEST(DataFileOfTensors, StacksRowsAndWidensIntegers) {
  const Tensor ids = at::arange(12, at::kInt).view({4, 3}), pixels = at::rand({4, 1, 2, 2});
  const Tensor mask = at::ones({4, 3}, at::kBool);
  const auto data = made_of({{"input_ids", ids}, {"pixel_values", pixels}, {"attention_mask", mask}});
  const Batch batch = data->get({3, 1});
  EXPECT_TRUE(batch.at("input_ids").equal(at::tensor({9, 10, 11, 3, 4, 5}, at::kLong).view({2, 3})));
  EXPECT_EQ(batch.at("input_ids").scalar_type(), at::kLong);
  EXPECT_TRUE(batch.at("pixel_values").equal(at::stack({pixels[3], pixels[1]})));
  EXPECT_EQ(batch.at("attention_mask").scalar_type(), at::kBool);
  EXPECT_ERROR(data->get({4}), WEFT_OUT_OF_RANGE, "no sample 4");
}

}  // namespace
}  // namespace weft::data
