// Saves in a thread while this one changes what is saved and communicates. The whole of it, with a job, is
// tested in tests/api/background_test.cpp; this part runs under ThreadSanitizer.
#include "files/background_save.hpp"

#include <ATen/ATen.h>

#include <filesystem>

#include "comm/agreement.hpp"
#include "data/files/range_pieces.hpp"
#include "files/folder.hpp"
#include "files/parts.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/temporary_folder.hpp"

namespace weft::checkpoint {
namespace {

using weft::test::on_ranks;

class SavedInTheBackground : public testing::Test {
 protected:
  // Starts to save copies of the pieces to a folder of this name.
  void start(BackgroundSave& save, const Communicator& ranks, const std::string& name,
             const Pieces& pieces) const {
    const std::string path = folder_.path() + "/" + name;
    if (ranks.rank() == 0) std::filesystem::create_directory(path);
    Pieces copies = pieces;
    copy_pieces(copies, false);
    save.start(ranks, [path, copies](const Communicator& own) {
      own.barrier();
      write_parts(path, own, copies);
    });
  }
  // Changes every element in place and communicates, as training does.
  static void train(const Communicator& ranks, Pieces& pieces) {
    for (Piece& piece : pieces) {
      auto* const values = piece.values.data_ptr<float>();
      for (int64_t i = 0; i < piece.values.numel(); ++i) values[i] += 100;
    }
    const at::Tensor count = at::full({64}, 1.0);
    ranks.all_reduce(count).wait();
    EXPECT_TRUE(at::equal(count, at::full({64}, static_cast<double>(ranks.size()))));
  }
  at::Tensor read(const std::string& name) const {
    const PartsReader reader(folder_.path() + "/" + name);
    return static_cast<const TensorSource&>(reader).read(0);
  }

  const test::Shape kShape = {64, 33};
  const weft::test::TemporaryFolder folder_;
};

TEST_F(SavedInTheBackground, AreTheValuesOfTheMomentOfEachStart) {
  on_ranks({1, 2}, [&](World& world) {
    const Communicator& ranks = world.communicator();
    Pieces pieces;
    test::add_own_part(ranks, kShape, pieces);
    BackgroundSave save;
    for (const char* name : {"first", "second", "third"}) {
      start(save, ranks, name, pieces);  // waits for the save before
      for (int step = 0; step < 10; ++step) train(ranks, pieces);
    }
    save.finish();
    ranks.barrier();
    EXPECT_TRUE(at::equal(read("first"), test::range_tensor(kShape)));
    EXPECT_TRUE(at::equal(read("second"), test::range_tensor(kShape) + 1000));
    EXPECT_TRUE(at::equal(read("third"), test::range_tensor(kShape) + 2000));
    ranks.barrier();
    if (world.is_master())
      for (const char* name : {"first", "second", "third"})
        std::filesystem::remove_all(folder_.path() + "/" + name);
  });
}

TEST_F(SavedInTheBackground, LeaveOutWhatIsNotCountedUnlessAllIsKept) {
  Pieces pieces, all;
  test::add_range({6}, 0, 6, false, pieces);
  test::add_range({6}, 0, 3, true, pieces);
  all = pieces;
  const float* const original = pieces[1].values.data_ptr<float>();
  copy_pieces(pieces, false);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_TRUE(pieces[0].counted);
  EXPECT_NE(pieces[0].values.data_ptr<float>(), original);
  copy_pieces(all, true);
  EXPECT_EQ(all.size(), 2u);
}

TEST_F(SavedInTheBackground, FailOnEveryRankAndOnce) {
  on_ranks({2}, [&](World& world) {
    const Communicator& ranks = world.communicator();
    const uint32_t own_rank = ranks.rank();
    const auto fail_on_one = [](const Communicator& own) {
      on_every_rank(own, [&] {
        if (own.rank() == 1) throw Error(WEFT_RESOURCE_EXHAUSTED, "the disk is full");
      });
    };
    BackgroundSave save;
    save.start(ranks, fail_on_one);
    // The rank that failed has its own words, the others are told whose they are.
    EXPECT_ERROR(save.finish(), WEFT_RESOURCE_EXHAUSTED, own_rank == 1 ? "" : "rank 1", "the disk is full");
    EXPECT_NO_THROW(save.finish());
    save.start(ranks, fail_on_one);
    EXPECT_ERROR(save.start(ranks, fail_on_one), WEFT_RESOURCE_EXHAUSTED, "the disk is full");
    // The communicator is as good as before.
    bool has_run = false;
    save.start(ranks, [&](const Communicator& own) { has_run = own.size() == 2; });
    save.finish();
    EXPECT_TRUE(has_run);
  });
}

}  // namespace
}  // namespace weft::checkpoint
