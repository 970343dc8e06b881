// Parts of tensors as products of runs: random ones against the plainest way to say the same.
#include "axes/cut.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "box/box.hpp"
#include "support/seed.hpp"

namespace weft::test {

namespace {

class RandomCuts {
 public:
  explicit RandomCuts(uint32_t seed) : random_(seed) {}

  int64_t below(int64_t limit) { return std::uniform_int_distribution<int64_t>(0, limit - 1)(random_); }

  std::vector<int64_t> shape() {
    std::vector<int64_t> shape(static_cast<size_t>(below(4)));
    for (int64_t& extent : shape) extent = 1 + below(7);
    return shape;
  }

  // Makes disjoint runs in any order. Neighbours may be adjacent.
  std::vector<Run> runs(int64_t extent) {
    std::vector<Run> runs;
    for (int64_t at = 0; at < extent;) {
      const int64_t count = 1 + below(extent - at);
      if (below(3) > 0) runs.push_back({at, count});
      at += count;
    }
    if (below(4) == 0) std::shuffle(runs.begin(), runs.end(), random_);
    return runs;
  }

  Cut cut(const std::vector<int64_t>& shape) {
    Cut cut = Cut::whole(shape);
    for (size_t dim = 0; dim < shape.size(); ++dim)
      if (below(2) == 0) cut.dims[dim] = runs(shape[dim]);
    return cut;
  }

 private:
  std::mt19937 random_;
};

class RandomCut : public RandomTest {
 protected:
  RandomCuts random{seed_};
};

// Returns the elements of a part, in its order, as indices into the flattened whole tensor.
std::vector<int64_t> elements_of(const std::vector<int64_t>& shape, const Cut& cut) {
  at::Tensor part = at::arange(Box::whole(shape).numel(), at::kLong).view(shape);
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    std::vector<at::Tensor> runs = {part.narrow(static_cast<int64_t>(dim), 0, 0)};
    for (const weft::Run& run : cut.dims[dim])
      runs.push_back(part.narrow(static_cast<int64_t>(dim), run.begin, run.count));
    part = at::cat(runs, static_cast<int64_t>(dim));
  }
  part = part.contiguous();
  return {part.data_ptr<int64_t>(), part.data_ptr<int64_t>() + part.numel()};
}

TEST_F(RandomCut, HasEveryElementFirstInOnePart) {
  for (int trial = 0; trial < 500; ++trial) {
    const std::vector<int64_t> shape = random.shape();
    std::vector<Cut> parts = {random.cut(shape)};
    for (int64_t more = random.below(6); more > 0; --more)
      parts.push_back(random.below(4) == 0 ? parts.front() : random.cut(shape));
    std::map<int64_t, int> held, counted;
    for (size_t own = 0; own < parts.size(); ++own) {
      const std::vector<int64_t> elements = elements_of(shape, parts[own]);
      ASSERT_EQ(static_cast<int64_t>(elements.size()), Box::whole(parts[own].local()).numel());
      for (const weft::Run& run : first_held(parts, own))
        for (int64_t i = run.begin; i < run.end(); ++i) {
          ASSERT_LT(i, static_cast<int64_t>(elements.size())) << trial;
          ++counted[elements[static_cast<size_t>(i)]];
          ASSERT_EQ(held.count(elements[static_cast<size_t>(i)]), 0u) << trial;  // no earlier part holds it
        }
      for (const int64_t element : elements) held[element] = 1;
    }
    ASSERT_EQ(counted, held) << trial;
  }
}

TEST_F(RandomCut, IsDividedIntoBoxesOfTheWholeTensor) {
  for (int trial = 0; trial < 500; ++trial) {
    const std::vector<int64_t> shape = random.shape();
    const Cut cut = random.cut(shape);
    const std::vector<int64_t> elements = elements_of(shape, cut);
    const auto size = static_cast<int64_t>(elements.size());
    const int64_t begin = random.below(size + 1), count = random.below(size - begin + 1);
    at::Tensor written = at::full(shape, -1, at::kLong), values = at::empty({count}, at::kLong);
    for (int64_t i = 0; i < count; ++i) values[i] = elements[static_cast<size_t>(begin + i)];
    for_each_box(cut, begin, count, values, [&](const Box& box, const at::Tensor& part) {
      ASSERT_EQ(part.sizes().vec(), box.extent);
      const at::Tensor place = view_of(written, Box::whole(shape), box);
      ASSERT_TRUE(place.eq(-1).all().item<bool>()) << trial;  // no two boxes overlap
      place.copy_(part);
    });
    const at::Tensor flat = written.flatten();
    ASSERT_EQ(flat.ge(0).sum().item<int64_t>(), count) << trial;
    for (int64_t i = 0; i < count; ++i)
      ASSERT_EQ(flat[elements[static_cast<size_t>(begin + i)]].item<int64_t>(),
                elements[static_cast<size_t>(begin + i)])
          << trial;
  }
}

TEST_F(RandomCut, TellsWhoHoldsARun) {
  for (int trial = 0; trial < 500; ++trial) {
    const std::vector<int64_t> shape = {1 + random.below(12)};
    std::vector<Cut> parts;
    for (int64_t i = 1 + random.below(5); i > 0; --i) parts.push_back(random.cut(shape));
    for (size_t own = 0; own < parts.size(); ++own) {
      std::vector<int64_t> indices;
      for (const auto& [run, holders] : shared_runs(parts, own, 0))
        for (int64_t i = run.begin; i < run.end(); ++i) {
          indices.push_back(i);
          for (uint32_t part = 0; part < parts.size(); ++part) {
            const std::vector<int64_t> all = elements_of(shape, parts[part]);
            ASSERT_EQ(std::count(holders.begin(), holders.end(), part), std::count(all.begin(), all.end(), i))
                << trial;
          }
        }
      ASSERT_EQ(indices, elements_of(shape, parts[own])) << trial;
    }
  }
}

// However many rows a vocabulary has, what a rank keeps of it is one run.
TEST(Cut, IsOneRunForAVocabulary) {
  const std::vector<int64_t> shape = {250'000, 8};
  std::vector<Cut> parts;
  for (int64_t rank = 0; rank < 4; ++rank) parts.push_back(Cut::along(shape, 0, {{rank * 62'500, 62'500}}));
  EXPECT_EQ(first_held(parts, 3), (std::vector<weft::Run>{{0, 500'000}}));
  EXPECT_EQ(shared_runs(parts, 2, 0).size(), 1u);
  EXPECT_EQ(split_dims(shape, parts), std::vector<size_t>{0});
}

TEST(Cut, HasNoElementsIfItKeepsNothing) {
  const Cut none = Cut::nothing({3, 4});
  EXPECT_EQ(none.local(), (std::vector<int64_t>{0, 4}));
  EXPECT_TRUE(first_held({none, Cut::whole({3, 4})}, 0).empty());
  EXPECT_EQ(first_held({none, Cut::whole({3, 4})}, 1), (std::vector<weft::Run>{{0, 12}}));
}

}  // namespace

}  // namespace weft::test
