// Generation with the models of a family against transformers: the same ids, and what does not change them.
#include <gtest/gtest.h>

#include "api/samples.hpp"
#include "policies/generated_ids.hpp"
#include "policies/trials.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {

namespace {

RawTensor raw(const at::Tensor& tensor) {
  const at::Tensor values = tensor.contiguous();
  return float_tensor(values.sizes().vec(),
                      {values.const_data_ptr<float>(), values.const_data_ptr<float>() + values.numel()});
}

// A folder with the model of an oracle.
class OracleFolder {
 public:
  explicit OracleFolder(const Oracle& oracle) {
    RawTensors weights;
    for (const auto& [name, value] : oracle.weights) weights[name] = raw(value);
    folder_.file("config.json", oracle.config.dump());
    folder_.file("model.safetensors", safetensors_bytes(weights));
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  const TemporaryFolder folder_;
};

TEST(Generation, GivesTheIdsOfTransformers) {
  const std::vector<GeneratedIds> all = GeneratedIds::of(kFamily);
  EXPECT_EQ(all.empty(), std::string(kFamily) == "vit");
  on_ranks({1}, [&](World& world) {
    for (const GeneratedIds& wanted : all) {
      const Oracle oracle = Oracle::load(wanted.file);
      const OracleFolder made(oracle);
      Job job = boost(world, Model::open(made.folder().path(), oracle.architecture), JobOptions());
      expect_ids(job, oracle, wanted, made.folder());
    }
  });
}

// Stages pass on what the one before left, however they are placed, and keep the keys of their own layers.
TEST(Generation, GivesTheSameIdsUnderPipelineStages) {
  const std::vector<GeneratedIds> all = GeneratedIds::of(kFamily);
  if (all.empty()) GTEST_SKIP() << kFamily << " generates nothing";
  on_ranks({2}, [&](World& world) {
    for (const GeneratedIds& wanted : all) {
      const Oracle oracle = Oracle::load(wanted.file);
      const OracleFolder made(oracle);
      for (const char* style :
           {"", R"(, "pp_style": "interleaved", "num_model_chunks": 2)", R"(, "pp_style": "zbv")"}) {
        Model model = Model::open(made.folder().path(), oracle.architecture);
        const bool enough = model.module().units().size() >= (*style == 0 ? 2 : 4);
        if (!enough) continue;
        Job job = boost(world, std::move(model),
                        {.strategy = "torch_ddp", .options = R"({"pp_size": 2)" + std::string(style) + "}"});
        expect_ids(job, oracle, wanted, made.folder());
      }
    }
  });
}

// In half precision tokens may differ from those of fp32, but those of a batch are those of each prompt.
TEST(Generation, RunsInBf16AndUnderAutocast) {
  const std::vector<GeneratedIds> all = GeneratedIds::of(kFamily);
  if (all.empty()) GTEST_SKIP() << kFamily << " generates nothing";
  const GeneratedIds& wanted = all.front();
  const Oracle oracle = Oracle::load(wanted.file);
  on_ranks({1}, [&](World& world) {
    for (const bool autocast : {false, true}) {
      const OracleFolder made(oracle);
      JobOptions options;
      options.precision = autocast ? "fp32" : "bf16";
      options.mixed_precision = autocast ? "bf16" : "";
      Job job =
          boost(world, Model::open(made.folder().path(), oracle.architecture, options.precision), options);
      GenerationOptions how = GenerationOptions::load(made.folder().path(), /*greedy=*/true);
      how.max_new_tokens = 5;
      how.stop_ids = {};
      const bool has_encoder = !job.model.module().decoding()->encoder.empty();
      Batch inputs;
      if (!wanted.samples.empty())
        inputs.set("input_features", oracle.inputs.at("input_features").narrow(0, 0, 1));
      else
        inputs.set("input_ids", at::tensor(wanted.prompts[0], at::kLong).unsqueeze(0));
      const Generation found =
          has_encoder ? generate(job, inputs, {}, how) : generate(job, {wanted.prompts[0]}, how);
      EXPECT_EQ(found.sequences.at(0).ids.size(), 5u);
      EXPECT_FALSE(found.sequences.at(0).stopped);
    }
  });
}

}  // namespace

}  // namespace weft::test
