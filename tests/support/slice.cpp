#include "support/slice.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>

namespace weft::test {

namespace {

uint64_t seed() {
  const char* text = std::getenv("WEFT_TEST_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
}

// Returns the FNV-1a hash, which is the same on every machine, unlike std::hash.
uint64_t hash(std::string_view text) {
  uint64_t value = 14695981039346656037u;
  for (const char character : text) value = (value ^ static_cast<unsigned char>(character)) * 1099511628211u;
  return value;
}

}  // namespace

bool runs_whole_matrices() {
  const char* text = std::getenv("WEFT_TEST_FULL");
  return text != nullptr && std::string_view(text) == "1";
}

std::vector<size_t> draw_slice(std::string_view name, size_t size, size_t count) {
  std::vector<size_t> indices(size);
  std::iota(indices.begin(), indices.end(), size_t{0});
  if (runs_whole_matrices() || count >= size) return indices;
  // std::shuffle is not used because its result depends on the standard library.
  std::mt19937_64 random(seed() ^ hash(name));
  for (size_t i = 0; i < count; ++i) std::swap(indices[i], indices[i + random() % (size - i)]);
  indices.resize(count);
  std::sort(indices.begin(), indices.end());
  std::string drawn;
  for (const size_t index : indices) drawn += " " + std::to_string(index);
  std::printf("%.*s: cases%s of %zu from WEFT_TEST_SEED=%llu (WEFT_TEST_FULL=1 runs all)\n",
              static_cast<int>(name.size()), name.data(), drawn.c_str(), size,
              static_cast<unsigned long long>(seed()));
  return indices;
}

std::vector<size_t> draw_slice_with_ends(std::string_view name, size_t size, size_t count) {
  std::vector<size_t> indices = draw_slice(name, size, count);
  if (size == 0) return indices;
  if (indices.empty() || indices.front() != 0) indices.insert(indices.begin(), 0);
  if (indices.back() != size - 1) indices.push_back(size - 1);
  return indices;
}

}  // namespace weft::test
