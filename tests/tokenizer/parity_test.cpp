// Ids and texts of tokenizers of all kinds against Hugging Face's and SentencePiece's.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/oracle_python.hpp"
#include "support/temporary_folder.hpp"
#include "weft/tokenizer.hpp"

namespace weft {

namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> texts_in(const fs::path& path) {
  const std::string all = content(path);
  std::vector<std::string> texts;
  for (size_t at = 0; at < all.size();) {
    const size_t end = all.find('\0', at);
    texts.push_back(all.substr(at, end - at));
    at = end + 1;
  }
  return texts;
}

std::vector<std::vector<int64_t>> ids_in(const fs::path& path) {
  const std::string all = content(path);
  std::vector<uint32_t> numbers(all.size() / 4);
  std::memcpy(numbers.data(), all.data(), numbers.size() * 4);
  std::vector<std::vector<int64_t>> ids;
  for (size_t at = 0; at < numbers.size(); at += numbers[at] + 1)
    ids.emplace_back(&numbers[at] + 1, &numbers[at] + 1 + numbers[at]);
  return ids;
}

void expect_same(const fs::path& folder, const std::vector<std::string>& texts) {
  const Tokenizer tokenizer = Tokenizer::open(folder.string());
  const auto wanted = ids_in(folder / "ids.bin");
  const std::vector<std::string> decoded = texts_in(folder / "decoded.bin");
  ASSERT_EQ(wanted.size(), texts.size());
  ASSERT_EQ(decoded.size(), texts.size());
  std::vector<std::vector<int64_t>> ids;
  size_t bytes = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& text : texts) {
    ids.push_back(tokenizer.encode(text));
    bytes += text.size();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%s: Weft %.2f MB/s\n", folder.filename().c_str(),
              static_cast<double>(bytes) / seconds.count() / 1e6);
  int unlike = 0;
  for (size_t i = 0; i < texts.size() && unlike < 3; ++i) {
    std::string text = tokenizer.decode(wanted[i]);
    std::erase(text, '\0');
    Tokenizer::StreamDecoder stream(tokenizer);
    std::string streamed;
    for (const int64_t id : wanted[i]) streamed += stream.add(id);
    streamed += stream.end();
    std::erase(streamed, '\0');
    if (ids[i] == wanted[i] && text == decoded[i] && streamed == text) continue;
    ++unlike;
    EXPECT_EQ(ids[i], wanted[i]) << folder << ": text " << i << ": " << texts[i].substr(0, 500);
    EXPECT_EQ(text, decoded[i]) << folder << ": text " << i;
    EXPECT_EQ(streamed, text) << folder << ": text " << i << ", streamed";
  }
}

TEST(TokenizerParity, IdsAndTextsAreThoseOfTheOthers) {
  WEFT_NEEDS_ORACLE();
  const char* full = std::getenv("WEFT_TEST_FULL");
  const bool is_full = full != nullptr && std::string(full) == "1";
  const test::TemporaryFolder folder;
  // The bytes of each of sixteen kinds: 90 kB, or 10 MB.
  const std::string command = test::oracle_python() + " " WEFT_TOKENIZER_PARITY " " + folder.path() +
                              (is_full ? " 10000000" : " 90000") + " 7";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const std::vector<std::string> texts = texts_in(fs::path(folder.path()) / "texts.bin");
  int kinds = 0;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (entry.is_directory()) {
      expect_same(entry.path(), texts);
      ++kinds;
    }
  EXPECT_EQ(kinds, 16);
}

}  // namespace

}  // namespace weft
