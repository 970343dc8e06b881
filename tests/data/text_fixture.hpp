// Text with an encoder that tests can follow: ids are bytes, except for a few pairs of bytes that are one id.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "support/temporary_folder.hpp"
#include "text/encoded_text.hpp"
#include "text/tokenize.hpp"

namespace weft::data {

namespace fs = std::filesystem;
using Ids = std::vector<int64_t>;

constexpr int64_t kPair = 256, kBegin = 257, kEnd = 258;

// Bytes, but two line breaks are one id, as tokenizers of words have it.
inline Ids encode_pairs(std::string_view text) {
  Ids ids;
  for (size_t i = 0; i < text.size(); ++i)
    if (text.substr(i, 2) == "\n\n") {
      ids.push_back(kPair);
      ++i;
    } else {
      ids.push_back(static_cast<unsigned char>(text[i]));
    }
  return ids;
}

inline TextEncoder pair_encoder() {
  TextEncoder encoder;
  encoder.encode = encode_pairs;
  encoder.before = {kBegin};
  encoder.after = {kEnd};
  encoder.vocabulary_size = 259;
  encoder.name = "test/tokenizer.json";
  encoder.digest = "pairs";
  encoder.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  encoder.padding = kEnd;
  return encoder;
}

inline Ids values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

inline Ids joined(std::initializer_list<Ids> parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

class Text : public testing::Test {
 protected:
  Text() { setenv("XDG_CACHE_HOME", elsewhere_.c_str(), 1); }
  std::shared_ptr<Dataset> open(const std::string& path, int64_t length = 4, TextOptions options = {}) const {
    options.sequence_length = length;
    return open_encoded_text({{path, {}}}, encoder_, options);
  }
  Ids all_ids(const std::string& path) const {
    const TokenCache cache = tokenize(find_text_files(path), encoder_, {});
    Ids ids(static_cast<size_t>(cache.ids()));
    cache.copy(0, cache.ids(), ids.data());
    return ids;
  }
  fs::path cache_file() const {
    for (const auto& entry : fs::directory_iterator(folder_.path() + "/.weft_cache"))
      if (entry.path().extension() == ".ids") return entry.path();
    return {};
  }

  TextEncoder encoder_ = pair_encoder();
  test::TemporaryFolder folder_;
  const std::string elsewhere_ =
      folder_.path() + "/elsewhere";  // where ids are kept that are not beside the data
};

}  // namespace weft::data
