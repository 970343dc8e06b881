// Tensor parallelism of a family against transformers itself, not through one rank: the outputs, losses and
// gradients that its models gave (tests/oracles), on two to four tensor-parallel ranks.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "api/samples.hpp"
#include "plugins/support/parity.hpp"
#include "policies/generated_ids.hpp"
#include "policies/oracle.hpp"
#include "policies/trials.hpp"
#include "support/slice.hpp"
#include "support/temporary_folder.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

using nlohmann::json;

struct OracleCase {
  std::string file;  // "gpt2/GPT2LMHeadModel"
  int64_t ranks;
};

// Heads of keys are split over the ranks, or each is shared by as many ranks as another.
bool divides_key_heads(const json& config, int64_t ranks) {
  const bool grouped = config.value("multi_query_attention", false);
  const int64_t heads = config.value(grouped ? "multi_query_group_num" : "num_key_value_heads", ranks);
  return heads % ranks == 0 || ranks % heads == 0;
}

bool divides_heads(const json& config, int64_t ranks) {
  for (const char* key :
       {"n_head", "num_attention_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"})
    if (config.contains(key) && config[key].get<int64_t>() % ranks != 0) return false;
  return divides_key_heads(config, ranks);
}

// The widths of ChatGLM2, whose gate and up projection are one weight, are not made to fit.
bool divides(const json& config, int64_t ranks) {
  return divides_heads(config, ranks) && config.value("ffn_hidden_size", ranks) % ranks == 0;
}

// Returns every oracle of the family, on each number of ranks that divides its heads and layers.
std::vector<OracleCase> all_cases() {
  std::vector<OracleCase> cases;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(WEFT_ORACLES) + "/" + kFamily)) {
    // A batch of Weft's has the same samples in every field, which two oracles do not.
    const std::string stem = entry.path().stem().string();
    if (entry.path().extension() != ".safetensors" || stem.ends_with(".last_flat") ||
        stem.ends_with(".packed"))
      continue;
    const std::string file = std::string(kFamily) + "/" + stem;
    const json config = json::parse(Oracle::load(file).config.dump());
    for (const int64_t ranks : {2, 3, 4})
      if (divides(config, ranks)) cases.push_back({file, ranks});
  }
  std::sort(cases.begin(), cases.end(), [](const OracleCase& a, const OracleCase& b) {
    return std::tie(a.file, a.ranks) < std::tie(b.file, b.ranks);
  });
  return cases;
}

// The widths of the oracles' feed-forward layers are prime. Channels of zeros give them widths that 2, 3
// and 4 divide: they change no output, and their own gradients are zero, because every activation maps zero
// to zero.
constexpr int64_t kDivides = 12;

constexpr const char* kWidths[] = {"n_inner", "intermediate_size", "ffn_dim",
                                   "d_ff",    "encoder_ffn_dim",   "decoder_ffn_dim"};

json widened(json config) {
  for (const char* key : kWidths)
    if (config.contains(key) && config[key].is_number())
      config[key] = (config[key].get<int64_t>() + kDivides - 1) / kDivides * kDivides;
  return config;
}

Oracle::Tensors widened(Oracle::Tensors tensors, const json& config) {
  for (const char* key : kWidths) {
    if (!config.contains(key) || !config[key].is_number()) continue;
    const int64_t width = config[key], wide = widened(config)[key];
    for (auto& [name, tensor] : tensors) {
      const auto within = [&name = name](const char* part) { return name.find(part) != std::string::npos; };
      if (!within("mlp") && !within(".fc") && !within("DenseReluDense")) continue;
      std::vector<int64_t> shape = tensor.sizes().vec();
      for (int64_t& extent : shape)
        if (extent == width) extent = wide;
      at::Tensor padded = at::zeros(shape), part = padded;
      for (int64_t dim = 0; dim < tensor.dim(); ++dim) part = part.narrow(dim, 0, tensor.size(dim));
      part.copy_(tensor);
      tensor = padded;
    }
  }
  return tensors;
}

RawTensor raw(const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  return float_tensor(values.sizes().vec(),
                      {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()});
}

std::string name_of(const testing::TestParamInfo<OracleCase>& info) {
  std::string name = info.param.file + "_on_" + std::to_string(info.param.ranks);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

class OnTensorAxis : public testing::TestWithParam<OracleCase> {
 protected:
  OnTensorAxis() : oracle_(Oracle::load(GetParam().file)) {
    const json config = json::parse(oracle_.config.dump());
    RawTensors weights;
    for (const auto& [name, value] : widened(oracle_.weights, config)) weights[name] = raw(value);
    oracle_.gradients = widened(oracle_.gradients, config);
    folder_.file("config.json", widened(config).dump());
    folder_.file("model.safetensors", safetensors_bytes(weights));
  }

  Job boosted(const World& world, const std::string& more) const {
    const JobOptions options = {
        .strategy = "hybrid_parallel",
        .options = fmt::format(R"({{"tp_size": {}, "parallel_output": false{}}})", GetParam().ranks, more)};
    Job job = boost(world, Model::open(folder_.path(), oracle_.architecture), options);
    if (oracle_.inputs.contains("cotangent"))
      job.criterion = [this](const State& outputs, const Batch&) { return oracle_.weighed(outputs); };
    return job;
  }

  // Only where Hugging Face defines it.
  at::Tensor defined(const std::string& name, const at::Tensor& output) const {
    const auto mask = oracle_.defined.find(name);
    return mask == oracle_.defined.end() ? output : output.index({mask->second.to(at::kBool)});
  }

  void expect_outputs(Job& job) const {
    const auto [outputs, evaluation] = job.forward_and_evaluate(oracle_.batch());
    Tensors found;
    for (const auto& [name, output] : outputs) found[name] = output;
    if (!job.criterion)
      for (const auto& [name, loss] : evaluation.outputs()) found[name] = at::full({}, loss);
    for (const auto& [name, expected] : oracle_.outputs) {
      ASSERT_TRUE(found.contains(name)) << name;
      EXPECT_TRUE(is_near(defined(name, found[name]), defined(name, expected), kHuggingFaceOutput)) << name;
    }
  }

  void expect_gradients(Job& job) const {
    job.accumulate_gradients(oracle_.batch());
    const Tensors found = published_gradients(job);
    double largest = 0;
    for (const auto& [name, gradient] : oracle_.gradients)
      largest = std::max(largest, gradient.abs().max().item<double>());
    size_t compared = 0;
    for (const auto& [name, gradient] : found) {
      if (job.model.module().frozen(name)) continue;
      const auto expected = oracle_.gradients.find(name);
      ASSERT_NE(expected, oracle_.gradients.end()) << name;
      ++compared;
      if (expected->second.abs().max().item<double>() > 0)
        EXPECT_TRUE(is_near(gradient, expected->second, kHuggingFaceGradient)) << name;
      else
        EXPECT_LE(gradient.abs().max().item<double>(), kHuggingFaceGradient * largest) << name;
    }
    EXPECT_EQ(compared, oracle_.gradients.size());
  }

  Oracle oracle_;
  const TemporaryFolder folder_;
};

TEST_P(OnTensorAxis, HasOutputsLossesAndGradientsOfHuggingFace) {
  on_ranks({static_cast<int>(GetParam().ranks)}, [&](World& world) {
    for (const char* more : {"", R"(, "enable_sequence_parallelism": true,
                                      "sequence_parallelism_mode": "split_gather")"}) {
      SCOPED_TRACE(more);
      Job job = boosted(world, more);
      expect_outputs(job);
      expect_gradients(job);
    }
    world.communicator().barrier();
  });
}

// Returns the cases whose models generate.
std::vector<OracleCase> generating_cases() {
  const std::vector<GeneratedIds> generated = GeneratedIds::of(kFamily);
  std::vector<OracleCase> cases = all_cases();
  std::erase_if(cases, [&](const OracleCase& one) {
    return std::none_of(generated.begin(), generated.end(),
                        [&](const GeneratedIds& wanted) { return wanted.file == one.file; });
  });
  return cases;
}

class GeneratesOnTensorAxis : public OnTensorAxis {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GeneratesOnTensorAxis);  // a family without a decoder

// Every rank gets the tokens that rank 0 chooses.
TEST_P(GeneratesOnTensorAxis, GivesTheIdsOfTransformers) {
  on_ranks({static_cast<int>(GetParam().ranks)}, [&](World& world) {
    Job job = boosted(world, "");
    for (const GeneratedIds& wanted : GeneratedIds::of(kFamily)) {
      if (wanted.file != GetParam().file) continue;
      const TemporaryFolder own;
      own.file("config.json", oracle_.config.dump());
      expect_ids(job, oracle_, wanted, own);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, GeneratesOnTensorAxis,
                         testing::ValuesIn(slice(std::string("GeneratesOnTensorAxis ") + kFamily,
                                                 generating_cases(), 2)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(HuggingFace, OnTensorAxis,
                         testing::ValuesIn(slice(std::string("OnTensorAxis ") + kFamily, all_cases(), 2)),
                         name_of);

}  // namespace

}  // namespace weft::test
