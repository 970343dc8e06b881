// Tiny models and data for the tests of training, which train in milliseconds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft::test {

struct TinyModel {
  std::string architecture = "GPT2LMHeadModel";
  int64_t vocabulary = 256;
  int64_t positions = 32, channels = 12, heads = 2, layers = 2;
  double dropout = 0;
  bool tied = true;
  std::string more;  // further keys: "\"num_labels\": 3,"
};

// Returns the text of config.json.
std::string config_json(const TinyModel& model = {});

// Returns English-like text of this size, which depends only on `seed`.
std::string sample_text(size_t size, uint32_t seed = 1);

// A tensor of a safetensors file, as stored.
struct RawTensor {
  std::string dtype;  // "F32", "I64"
  std::vector<int64_t> shape;
  std::string bytes;
};
using RawTensors = std::map<std::string, RawTensor>;

// A plain reader and writer, which are the oracle for Weft's.
RawTensors read_safetensors(const std::string& path);
std::string safetensors_bytes(const RawTensors& tensors);

RawTensor int64_tensor(std::vector<int64_t> shape, const std::vector<int64_t>& values);
RawTensor float_tensor(std::vector<int64_t> shape, const std::vector<float>& values);
std::vector<float> float_values(const RawTensor& tensor);
// Returns max |a - b| / max |b|, or infinity for different sizes.
double relative_difference(const std::vector<float>& actual, const std::vector<float>& expected);

// Returns samples of a language model with ragged attention masks and labels of -100: input_ids,
// attention_mask, labels.
RawTensors language_samples(int64_t samples, int64_t length, int64_t vocabulary = 256, uint32_t seed = 1);

std::string read_bytes(const std::string& path);

}  // namespace weft::test
