#include <random>
#include <thread>

#include "box.hpp"
#include "support.hpp"

namespace weft::hugging_face::test {
namespace {

// Element by element, with nothing of the code under test.
std::string plain_box(const std::string& bytes, const TensorEntry& entry, const Box& box) {
  std::string out;
  std::vector<int64_t> index(entry.shape.size(), 0);
  const auto advance = [&] {
    for (std::size_t dim = index.size(); dim-- > 0;) {
      if (++index[dim] < box.extent[dim]) return true;
      index[dim] = 0;
    }
    return false;
  };
  for (int64_t extent : box.extent) {
    if (extent == 0) return out;
  }
  do {
    int64_t flat = 0;
    for (std::size_t dim = 0; dim < index.size(); ++dim)
      flat = flat * entry.shape[dim] + box.offset[dim] + index[dim];
    out += bytes.substr(static_cast<std::size_t>(flat) * entry.type->size_bytes, entry.type->size_bytes);
  } while (advance());
  return out;
}

Box random_box(const TensorEntry& entry, std::mt19937& random, bool may_be_empty) {
  Box box;
  for (int64_t size : entry.shape) {
    const int64_t first = static_cast<int64_t>(random() % static_cast<uint64_t>(size));
    const int64_t most = size - first;
    const int64_t least = may_be_empty ? 0 : 1;
    box.offset.push_back(first);
    box.extent.push_back(least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1)));
  }
  return box;
}

class Boxes : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const TensorEntry entry_ = entry("x", WEFT_F32, {4, 3, 5});
};

TEST_F(Boxes, RefusesBoxesOutsideTheTensor) {
  save(folder_ / "x.safetensors", {entry_});
  const CheckpointReader reader(folder_ / "x.safetensors");
  char buffer[240];
  const auto read = [&](std::vector<int64_t> offset, std::vector<int64_t> extent, uint64_t size) {
    reader.read(0, offset.data(), extent.data(), buffer, size);
  };
  expect_error(WEFT_INVALID_ARGUMENT, {"\"x\"", "[4, 3, 5]", "dimension 1"}, [&] {
    read({0, 1, 0}, {1, 3, 1}, 12);
  });
  expect_error(WEFT_INVALID_ARGUMENT, {"dimension 0"}, [&] { read({-1, 0, 0}, {1, 1, 1}, 4); });
  expect_error(WEFT_INVALID_ARGUMENT, {"dimension 2"}, [&] { read({0, 0, 0}, {1, 1, -1}, 4); });
  expect_error(WEFT_INVALID_ARGUMENT, {"dimension 0"}, [&] {
    read({INT64_MAX, 0, 0}, {INT64_MAX, 1, 1}, 4);
  });
  expect_error(WEFT_INVALID_ARGUMENT, {"takes 8 bytes", "has 12"}, [&] { read({0, 0, 0}, {1, 1, 2}, 12); });
  expect_error(WEFT_INVALID_ARGUMENT, {"of offset", "and extent"}, [&] {
    const int64_t offset[3] = {0, 0, 0};
    reader.read(0, offset, nullptr, buffer, 240);
  });
  expect_error(WEFT_INVALID_ARGUMENT, {"null"}, [&] { reader.read(0, nullptr, nullptr, nullptr, 240); });
  expect_error(WEFT_OUT_OF_RANGE, {"tensor 1", "has 1"},
               [&] { reader.read(1, nullptr, nullptr, buffer, 240); });
}

TEST_F(Boxes, ReadEqualsPlainIndexing) {
  std::mt19937 random(7);
  const std::vector<TensorEntry> entries = {entry_, entry("b", WEFT_BF16, {3, 2, 2, 6}),
                                            entry("d", WEFT_F64, {17}), entry("c", WEFT_U8, {1, 7, 1, 3}),
                                            entry("s", WEFT_I64, {})};
  save(folder_ / "x.safetensors", entries);
  const CheckpointReader reader(folder_ / "x.safetensors");
  for (uint64_t i = 0; i < reader.num_tensors(); ++i) {
    const StoredTensor& tensor = reader.tensor(i);
    const std::string whole = pattern(tensor);
    for (int trial = 0; trial < 200; ++trial) {
      const Box box = random_box(tensor, random, true);
      const std::string wanted = plain_box(whole, tensor, box);
      std::string got(wanted.size(), '?');
      reader.read(i, box.offset.data(), box.extent.data(), got.data(), got.size());
      ASSERT_EQ(got, wanted) << tensor.name << " " << box_text(box);
    }
  }
}

TEST_F(Boxes, WrittenInAnyOrderFromSeveralThreadsMakeTheTensor) {
  const TensorEntry matrix = entry("m", WEFT_F32, {64, 48});
  const std::string whole = pattern(matrix);
  {
    CheckpointWriter writer(folder_ / "m.safetensors", {}, {matrix});
    std::vector<std::thread> threads;
    for (int64_t column = 0; column < 4; ++column) {
      threads.emplace_back([&, column] {
        for (int64_t row = 63; row >= 0; row -= 2) {
          const Box box{{row - 1, column * 12}, {2, 12}};
          const std::string bytes = plain_box(whole, matrix, box);
          writer.write(0, box.offset.data(), box.extent.data(), bytes.data(), bytes.size());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    writer.commit();
  }
  expect_holds(folder_ / "m.safetensors", {matrix});
}

TEST_F(Boxes, ACommitNamesTheBoxThatWasNeverWritten) {
  const auto write = [&](CheckpointWriter& writer, std::vector<int64_t> offset, std::vector<int64_t> extent) {
    const std::string bytes(static_cast<std::size_t>(extent[0] * extent[1] * extent[2]) * 4, 'x');
    writer.write(0, offset.data(), extent.data(), bytes.data(), bytes.size());
  };
  CheckpointWriter writer(folder_ / "x.safetensors", {}, {entry_});
  write(writer, {0, 0, 0}, {4, 3, 2});
  write(writer, {0, 0, 2}, {4, 2, 3});
  write(writer, {0, 2, 2}, {3, 1, 3});
  write(writer, {1, 0, 0}, {2, 3, 5});  // again
  expect_error(WEFT_FAILED_PRECONDITION, {"\"x\"", "offset [3, 2, 2] extent [1, 1, 3]", "never written"},
               [&] { writer.commit(); });
  EXPECT_FALSE(fs::exists(folder_ / "x.safetensors"));
  write(writer, {3, 2, 2}, {1, 1, 3});
  writer.commit();
  EXPECT_TRUE(fs::exists(folder_ / "x.safetensors"));
}

TEST(Coverage, AgreesWithABitmap) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const TensorEntry tensor = entry("x", WEFT_U8, {3, 4, 5});
    Coverage coverage(tensor.shape);
    std::vector<bool> written(60, false);
    std::size_t left = 60;
    for (int step = 0; step < 200 && left > 0; ++step) {
      ASSERT_FALSE(coverage.complete());
      const Box box = random_box(tensor, random, true);
      for (int64_t i = 0; i < box.extent[0]; ++i) {
        for (int64_t j = 0; j < box.extent[1]; ++j) {
          for (int64_t k = 0; k < box.extent[2]; ++k) {
            const auto flat = static_cast<std::size_t>(((box.offset[0] + i) * 4 + box.offset[1] + j) * 5 +
                                                       box.offset[2] + k);
            left -= written[flat] ? 0 : 1;
            written[flat] = true;
          }
        }
      }
      coverage.add(box);
    }
    EXPECT_EQ(coverage.complete(), left == 0);
  }
}

TEST(Coverage, IsCompleteForAnEmptyTensor) {
  EXPECT_TRUE(Coverage({0, 4}).complete());
  Coverage scalar({});
  EXPECT_FALSE(scalar.complete());
  scalar.add({});
  EXPECT_TRUE(scalar.complete());
}

}  // namespace
}  // namespace weft::hugging_face::test
