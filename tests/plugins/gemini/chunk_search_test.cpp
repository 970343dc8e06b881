// The search against the sizes that Colossal-AI's own tests and documents give.
#include "gemini/chunk_search.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>

#include "support/expect_error.hpp"

namespace weft::plugin::gemini {

namespace {

using Sizes = std::vector<int64_t>;

Sizes gpt2(int64_t width, int64_t layers, int64_t vocabulary, int64_t positions) {
  Sizes sizes = {vocabulary * width, positions * width};
  for (int64_t i = 0; i < layers; ++i)
    sizes.insert(sizes.end(), {width, width, 3 * width * width, 3 * width, width * width, width, width, width,
                               4 * width * width, 4 * width, 4 * width * width, width});
  sizes.insert(sizes.end(), {width, width});
  return sizes;
}

Sizes llama_7b() {
  constexpr int64_t kWidth = 4096, kInner = 11008, kVocabulary = 32000;
  Sizes sizes = {kVocabulary * kWidth};
  for (int i = 0; i < 32; ++i) {
    sizes.insert(sizes.end(), 4, kWidth * kWidth);
    sizes.insert(sizes.end(), 3, kWidth * kInner);
    sizes.insert(sizes.end(), 2, kWidth);
  }
  sizes.insert(sizes.end(), {kWidth, kVocabulary * kWidth});
  return sizes;
}

// Every parameter once and whole, none over another, in chunks that divide by the ranks.
void expect_sound(const ChunkLayout& layout, const Sizes& sizes, int64_t ranks) {
  std::vector<int> seen(sizes.size());
  int64_t space = 0;
  for (const ChunkPlan& chunk : layout.chunks) {
    EXPECT_EQ(chunk.size % ranks, 0);
    space += chunk.size;
    int64_t end = 0;
    for (const Place& place : chunk.places) {
      ++seen[place.parameter];
      EXPECT_EQ(place.count, sizes[place.parameter]);
      EXPECT_EQ(place.offset, end);
      end += place.count;
    }
    EXPECT_LE(end, chunk.size);
  }
  EXPECT_EQ(seen, std::vector<int>(sizes.size(), 1));
  EXPECT_EQ(layout.used, std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
  EXPECT_EQ(space, layout.used + layout.wasted);
}

double seconds(const Sizes& sizes, const SearchOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  search_chunks(sizes, 4, options);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST(ChunkSearch, RefusesOptionsWithoutMeaning) {
  EXPECT_ERROR(search_chunks({3}, 1, {.hidden_dim = 0}), WEFT_INVALID_ARGUMENT, "hidden_dim is 0");
  EXPECT_ERROR(search_chunks({3}, 1, {.search_range_m = -1}), WEFT_INVALID_ARGUMENT, "search_range_m is -1");
}

TEST(ChunkSearch, FindsTheSizeOfTheOriginalsTest) {
  const Sizes sizes = gpt2(128, 2, 50258, 1024);
  const SearchOptions options{.search_range_m = 1, .hidden_dim = 16, .min_chunk_size_m = 0};
  for (const int64_t ranks : {1, 4}) {
    const ChunkLayout layout = search_chunks(sizes, ranks, options);
    EXPECT_EQ(layout.chunk_size, 527872);
    EXPECT_EQ(layout.outliers, 1u);
    expect_sound(layout, sizes, ranks);
  }
}

// "used number: 118.68, wasted number: 0.75, total wasted percentage is 0.63%"
TEST(ChunkSearch, WastesWhatTheDocumentsSayOnGpt2Small) {
  const Sizes sizes = gpt2(768, 12, 50257, 1024);
  const ChunkLayout layout = search_chunks(sizes, 1, {.hidden_dim = 768});
  EXPECT_NEAR(static_cast<double>(layout.used) / (1 << 20), 118.68, 0.005);
  EXPECT_NEAR(static_cast<double>(layout.wasted) / (1 << 20), 0.75, 0.005);
  EXPECT_LE(layout.wasted_percent(), 0.63);
  ASSERT_EQ(layout.outliers, 1u);
  EXPECT_EQ(layout.chunks[0].places[0].parameter, 0u);  // wte
  EXPECT_EQ(layout.chunks[0].places.size(), 1u);
  expect_sound(layout, sizes, 1);
  expect_sound(search_chunks(sizes, 3, {}), sizes, 3);
}

TEST(ChunkSearch, TakesAModelBelowTheLeastSizeAsOneChunk) {
  const Sizes sizes = {100, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
  const ChunkLayout layout = search_chunks(sizes, 3, {});
  ASSERT_EQ(layout.chunks.size(), 1u);
  EXPECT_EQ(layout.chunks[0].size, 150);
  expect_sound(layout, sizes, 3);
}

TEST(ChunkSearch, AnOutlierDoesNotEndTheChunkAroundIt) {
  const Sizes sizes = {4, 4, 4, 4, 4, 4, 1000, 4, 4, 4, 4, 4, 4};
  const ChunkLayout layout =
      search_chunks(sizes, 2, {.search_range_m = 0, .hidden_dim = 48, .min_chunk_size_m = 0});
  ASSERT_EQ(layout.chunks.size(), 2u);
  EXPECT_EQ(layout.wasted, 0);
  expect_sound(layout, sizes, 2);
}

TEST(ChunkSearch, TakesAGivenSizeAndPutsWhatIsLargerOnItsOwn) {
  const Sizes sizes = {4, 7, 12, 4, 3};
  const ChunkLayout layout = search_chunks(sizes, 2, {.chunk_size = 9});
  EXPECT_EQ(layout.chunk_size, 10);
  EXPECT_EQ(layout.outliers, 1u);
  expect_sound(layout, sizes, 2);
}

TEST(ChunkSearch, ReportsSevenBillionParametersFromShapesAlone) {
  const Sizes sizes = llama_7b();
  const ChunkLayout layout = search_chunks(sizes, 4, {.hidden_dim = 4096});
  EXPECT_EQ(layout.used, 6738415616);
  EXPECT_EQ(layout.outliers, 2u);
  expect_sound(layout, sizes, 4);
  RecordProperty("llama_7b_wasted_percent", std::to_string(layout.wasted_percent()));
  RecordProperty("llama_7b_seconds", std::to_string(seconds(sizes, {.hidden_dim = 4096})));
  RecordProperty("gpt2_small_seconds", std::to_string(seconds(gpt2(768, 12, 50257, 1024), {})));
  // A wider range finds what the default one cannot: both kinds of matrices in one chunk.
  EXPECT_LT(search_chunks(sizes, 4, {.search_range_m = 256, .hidden_dim = 4096}).wasted, layout.wasted / 4);
}

}  // namespace weft::plugin::gemini
