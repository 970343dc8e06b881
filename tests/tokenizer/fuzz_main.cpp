#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "tokenizer/fuzz.hpp"

int main(int count, char** arguments) {
  const int seconds = count > 1 ? std::atoi(arguments[1]) : 10;
  const uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : std::random_device()();
  const auto folder =
      std::filesystem::temp_directory_path() / ("weft_tokenizer_fuzz_" + std::to_string(seed));
  std::filesystem::create_directories(folder);
  const auto result = weft::test::fuzz_tokenizers(std::chrono::seconds(seconds), seed, folder.string());
  std::printf("seed %llu: %lld texts; %lld files opened, %lld refused\n%s",
              static_cast<unsigned long long>(seed), static_cast<long long>(result.texts),
              static_cast<long long>(result.opened), static_cast<long long>(result.refused),
              result.failure.c_str());
  if (result.failure.empty()) std::filesystem::remove_all(folder);
  return result.failure.empty() ? 0 : 1;
}
