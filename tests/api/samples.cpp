#include "api/samples.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

namespace weft::test {

std::string config_json(const TinyModel& model) {
  return fmt::format(
      R"({{{} "architectures": ["{}"], "model_type": "gpt2", "vocab_size": {}, "n_positions": {}, "n_embd": {},
      "n_head": {}, "n_layer": {}, "resid_pdrop": {}, "embd_pdrop": {}, "attn_pdrop": {}, "summary_first_dropout": 0.0,
      "classifier_dropout": 0.0, "tie_word_embeddings": {}}})",
      model.more, model.architecture, model.vocabulary, model.positions, model.channels, model.heads,
      model.layers, model.dropout, model.dropout, model.dropout, model.tied);
}

std::string sample_text(size_t size, uint32_t seed) {
  static const char* const words[] = {"gather", "of",     "shards", "rank", "the",
                                      "a",      "bucket", "sums",   "and",  "waits"};
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < size) text += std::string(words[random() % 10]) + (random() % 8 == 0 ? ".\n" : " ");
  return text.substr(0, size);
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

RawTensors read_safetensors(const std::string& path) {
  const std::string bytes = read_bytes(path);
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, size));
  RawTensors tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors[name] = {entry["dtype"], entry["shape"], bytes.substr(8 + size + begin, end - begin)};
  }
  return tensors;
}

std::string safetensors_bytes(const RawTensors& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + text + data;
}

RawTensor int64_tensor(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  return {"I64",
          std::move(shape),
          {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)}};
}

RawTensor float_tensor(std::vector<int64_t> shape, const std::vector<float>& values) {
  return {
      "F32", std::move(shape), {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}};
}

std::vector<float> float_values(const RawTensor& tensor) {
  if (tensor.dtype != "F32") throw std::runtime_error("not F32 but " + tensor.dtype);
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

double relative_difference(const std::vector<float>& actual, const std::vector<float>& expected) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (actual.size() != expected.size()) return kInfinity;
  double difference = 0, largest = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!std::isfinite(actual[i]) || !std::isfinite(expected[i])) return kInfinity;
    difference = std::max(difference, std::abs(static_cast<double>(actual[i]) - expected[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  return difference == 0 ? 0 : difference / largest;
}

RawTensors language_samples(int64_t samples, int64_t length, int64_t vocabulary, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> ids, mask, labels;
  for (int64_t s = 0; s < samples; ++s) {
    const int64_t used = 2 + static_cast<int64_t>(random() % static_cast<uint32_t>(length - 1));
    for (int64_t t = 0; t < length; ++t) {
      ids.push_back(static_cast<int64_t>(random() % static_cast<uint32_t>(vocabulary)));
      mask.push_back(t < used);
      labels.push_back(t < used && (t < 2 || random() % 4 != 0) ? ids.back() : -100);
    }
  }
  const std::vector<int64_t> shape = {samples, length};
  return {{"input_ids", int64_tensor(shape, ids)},
          {"attention_mask", int64_tensor(shape, mask)},
          {"labels", int64_tensor(shape, labels)}};
}

}  // namespace weft::test
