// Tensors saved in parts by several ranks, and what a damaged folder of parts does.
#include "files/parts.hpp"

#include <ATen/ATen.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "data/files/range_pieces.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/temporary_folder.hpp"

namespace weft::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::range_tensor;
using test::Shape;
using weft::test::on_ranks;

class Parts : public testing::Test {
 protected:
  // Saves "a", "b" and a scalar, each divided over the ranks.
  void save(const Communicator& ranks) const {
    Pieces pieces;
    test::add_own_part(ranks, kA, pieces, "a");
    test::add_own_part(ranks, kB, pieces, "b");
    if (ranks.rank() == 0) test::add_range({}, 0, 1, true, pieces, "scalar");
    write_parts(folder_.path(), ranks, pieces);
  }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  const Shape kA = {7, 5}, kB = {3, 4, 2};
  const weft::test::TemporaryFolder folder_;
};

TEST_F(Parts, AreReadWholeAndByBoxesWhoeverWroteThem) {
  on_ranks({1, 3}, [&](World& world) {
    save(world.communicator());
    world.block_all();
    const PartsReader reader(folder_.path());
    ASSERT_EQ(reader.entries().size(), 3u);
    for (const auto& [name, shape] : {std::pair{"a", kA}, {"b", kB}, {"scalar", Shape{}}}) {
      const auto index = reader.find(name);
      ASSERT_TRUE(index) << name;
      EXPECT_TRUE(at::equal(static_cast<const TensorSource&>(reader).read(*index), range_tensor(shape)));
    }
    const Box box = {{2, 1}, {4, 3}};
    const at::Tensor columns = at::zeros({3, 4}, at::kDouble);  // strided, and of another dtype
    reader.read(*reader.find("a"), box, columns.t());
    EXPECT_TRUE(at::equal(columns.t(), view_of(range_tensor(kA), Box::whole(kA), box).to(at::kDouble)));
  });
}

// An index that is too long for a reader is refused by the writer.
TEST_F(Parts, WhoseIndexNobodyWouldReadAreNotWritten) {
  for (const int ranks : {1, 2}) {
    fs::remove_all(in("index.json"));
    on_ranks({ranks}, [&](World& world) {
      Pieces pieces;
      test::add_own_part(world.communicator(), kA, pieces, "a");
      const auto write = [&](uint64_t max_index) {
        write_parts(folder_.path(), world.communicator(), pieces, max_index);
      };
      EXPECT_ERROR(write(10), WEFT_RESOURCE_EXHAUSTED, in("index.json"), "at most 10 are read",
                   "fewer ranks");
      EXPECT_FALSE(fs::exists(in("index.json")));
      world.block_all();
      write(kLargestIndex);
      const uint64_t size = fs::file_size(in("index.json"));
      world.block_all();
      EXPECT_ERROR(write(size - 1), WEFT_RESOURCE_EXHAUSTED, "have " + std::to_string(size));
      write(size);
      world.block_all();
      if (world.rank() != 0) return;
      const PartsReader reader(folder_.path());
      const weft::test::TemporaryFolder other;
      EXPECT_ERROR(write_parts(other.path(), 1, reader, 10), WEFT_RESOURCE_EXHAUSTED, "index.json");
    });
  }
}

TEST_F(Parts, AreRefusedIfTheIndexIsDamaged) {
  on_ranks({1}, [&](World& world) {
    save(world.communicator());
    const auto expect_refused = [&](const char* what, const std::function<void(json & index)>& damage) {
      SCOPED_TRACE(what);
      json index = json::parse(std::ifstream(in("index.json")));
      const std::string before = index.dump();
      damage(index);
      std::ofstream(in("index.json")) << index.dump();
      EXPECT_ERROR(PartsReader(folder_.path()), WEFT_DATA_LOSS, in("index.json"));
      std::ofstream(in("index.json")) << before;
    };
    const auto part = [](json& index) -> json& { return index["tensors"]["a"]["parts"][0]; };
    expect_refused("beyond the end", [&](json& index) { part(index)["extent"][0] = 8; });
    expect_refused("far beyond", [&](json& index) { part(index)["extent"][1] = int64_t{1} << 62; });
    expect_refused("before the begin", [&](json& index) { part(index)["offset"][1] = -1; });
    expect_refused("a dimension less", [&](json& index) { part(index)["extent"] = {7}; });
    expect_refused("too few elements", [&](json& index) { part(index)["extent"][0] = 6; });
    expect_refused("no parts", [&](json& index) { index["tensors"]["b"]["parts"] = json::array(); });
    expect_refused("outside", [&](json& index) { part(index)["file"] = "../part-00000.safetensors"; });
    expect_refused("dtype", [&](json& index) { index["tensors"]["b"]["dtype"] = "F99"; });
    expect_refused("a text", [&](json& index) { index["tensors"]["b"]["shape"] = "3, 4, 2"; });
    EXPECT_EQ(PartsReader(folder_.path()).entries().size(), 3u);
  });
}

TEST_F(Parts, AreRefusedIfAFileIsDamaged) {
  on_ranks({1}, [&](World& world) {
    save(world.communicator());
    const auto expect_refused = [&] {
      const PartsReader reader(folder_.path());
      const at::Tensor values = at::empty(kA, at::kFloat);
      EXPECT_ERROR(reader.read(*reader.find("a"), Box::whole(kA), values), WEFT_DATA_LOSS,
                   "part-00000.safetensors");
    };
    const std::string file = in("part-00000.safetensors");
    const auto size = fs::file_size(file);
    const std::string bytes = [&] {
      std::string read(size, '\0');
      std::ifstream(file, std::ios::binary).read(read.data(), static_cast<std::streamsize>(size));
      return read;
    }();
    for (const size_t left : {size_t{0}, size_t{4}, size_t{40}, size - 1}) {
      fs::resize_file(file, left);
      expect_refused();
    }
    // The length of the header, and a header that describes another tensor.
    for (const auto& [place, text] : {std::pair{size_t{0}, std::string("\xff\xff\xff\xff\xff\xff\xff\x7f")},
                                      {bytes.find("[7,5]"), std::string("[5,7]")}}) {
      ASSERT_NE(place, std::string::npos);
      std::string damaged = bytes;
      damaged.replace(place, text.size(), text);
      std::ofstream(file, std::ios::binary) << damaged;
      expect_refused();
    }
  });
}

}  // namespace
}  // namespace weft::checkpoint
