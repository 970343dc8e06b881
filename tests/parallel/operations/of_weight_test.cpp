// Parameters that begin as functions of the weight of their layer, under every kind of parallelism.
#include <ATen/ops/linalg_svd.h>

#include "parallel/operations/libraries.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

constexpr const char* kDora = "test.dora/1";
constexpr const char* kPissa = "test.pissa/1";
constexpr const char* kLlamaLayers = "layers.*.self_attn.*_proj, layers.*.mlp.*_proj";

Trial llama(const char* operation) {
  return adapted(llama_trial({"LlamaForCausalLM", 2, false}, "fp64"), kLlamaLayers, operation);
}
Trial gpt2(const char* operation) {
  return adapted(gpt2_trial("GPT2LMHeadModel", "fp64"), kGpt2Layers, operation);
}

bool is_added(const std::string& name) {
  return name.find(".lora_") != std::string::npos;
}

// Calls visit(layer, W (out, in), values) for each adapted layer. `transposed`: of Conv1D.
template <class Visit>
void for_each_layer(const Tensors& values, bool transposed, const Visit& visit) {
  size_t layers = 0;
  for (const auto& [name, a] : values) {
    if (!name.ends_with(".lora_A.weight")) continue;
    const std::string layer = name.substr(0, name.size() - std::string("lora_A.weight").size());
    const at::Tensor& weight = values.at(layer + "weight");
    visit(layer, transposed ? weight.t() : weight);
    ++layers;
  }
  EXPECT_GT(layers, 0u);
}

void expect_norms_of_rows(const Tensors& values, bool transposed, double tolerance = 1e-14) {
  for_each_layer(values, transposed, [&](const std::string& layer, const at::Tensor& weight) {
    const at::Tensor norms = weight.square().sum(1).sqrt(),
                     found = values.at(layer + "lora_magnitude_vector.weight");
    EXPECT_EQ(found.sizes(), norms.sizes()) << layer;
    EXPECT_TRUE(is_near(found, norms, tolerance)) << layer;
  });
}

// Every layout has the bits of one rank.
void expect_values_of_one_rank(const Trial& trial, const JobOptions& options, int ranks) {
  const Tensors expected = published_values(boost(one_rank(), trial.model(options), {.precision = "fp64"}));
  on_ranks({ranks}, [&](World& world) {
    SCOPED_TRACE(options.strategy + " " + options.options);
    const Tensors found = published_values(boost(world, trial.model(options), options));
    EXPECT_EQ(found.size(), expected.size());
    for (const auto& [name, value] : expected) EXPECT_TRUE(found.at(name).equal(value)) << name;
    world.communicator().barrier();
  });
}

TEST(OfLayer, BeginsAsTheNormsOfTheRowsOfTheWeight) {
  for (const bool transposed : {true, false}) {
    const Trial trial = transposed ? gpt2(kDora) : llama(kDora);
    expect_norms_of_rows(
        published_values(boost(one_rank(), trial.model({.precision = "fp64"}), {.precision = "fp64"})),
        transposed);
  }
}

TEST(OfLayer, BeginsAsThePrincipalFactorsOfTheWeight) {
  const Trial trial = llama(kPissa), plain = llama_trial({"LlamaForCausalLM", 2, false}, "fp64");
  const JobOptions options = {.precision = "fp64"};
  Job job = boost(one_rank(), trial.model(options), options),
      base = boost(one_rank(), plain.model(options), options);
  for_each_layer(
      published_values(job), false,
      [&, values = published_values(job)](const std::string& layer, const at::Tensor& weight) {
        const double scale = 6.0 / 3;
        const at::Tensor principal =
            scale * at::matmul(values.at(layer + "lora_B.weight"), values.at(layer + "lora_A.weight"));
        const auto [u, s, v] = at::linalg_svd(weight, false);
        const double rest = s.slice(0, 3).square().sum().item<double>();
        EXPECT_NEAR((weight - principal).square().sum().item<double>(), rest, 1e-12 * rest) << layer;
        for (const char* factor : {"_A.weight", "_B.weight"})
          EXPECT_TRUE(values.at(layer + "first" + factor).equal(values.at(layer + "lora" + factor))) << layer;
      });
  // The adapter changes nothing at first, and learns.
  const double found = job.train_step(trial.batch(0)).loss, wanted = base.train_step(trial.batch(0)).loss;
  EXPECT_NEAR(found, wanted, 1e-12 * wanted);
  const Tensors after = published_values(job);
  for_each_layer(after, false, [&](const std::string& layer, const at::Tensor&) {
    for (const char* factor : {"_A.weight", "_B.weight"})
      EXPECT_FALSE(after.at(layer + "first" + factor).equal(after.at(layer + "lora" + factor))) << layer;
  });
}

TEST(OfLayer, HasTheBitsOfOneRankUnderEveryStrategy) {
  for (const char* operation : {kDora, kPissa}) {
    expect_values_of_one_rank(llama(operation), under("hybrid_parallel", R"({"tp_size": 2})"), 2);
    expect_values_of_one_rank(gpt2(operation), under("hybrid_parallel", R"({"tp_size": 2})"), 2);
    expect_values_of_one_rank(llama(operation), under("hybrid_parallel", R"({"tp_size": 4})"), 4);
    expect_values_of_one_rank(llama(operation),
                              under("hybrid_parallel", R"({"pp_size": 2, "num_microbatches": 2})"), 2);
    for (const char* strategy : {"torch_ddp", "low_level_zero", "gemini"})
      expect_values_of_one_rank(llama(operation), under(strategy, "{}"), 3);
    expect_values_of_one_rank(llama(operation), under("torch_fsdp", R"({"use_orig_params": true})"), 3);
  }
}

TEST(OfLayer, HasTheGradientsOfOneRank) {
  for (const char* operation : {kDora, kPissa}) {
    const auto expect = [](const JobOptions& options, const Trial& trial, int ranks) {
      expect_second_step_of_one_rank(options, trial, ranks, is_added);
    };
    expect(under("hybrid_parallel", R"({"tp_size": 2})"), gpt2(operation), 2);
    expect(under("hybrid_parallel", R"({"tp_size": 2, "zero_stage": 1})"), llama(operation), 4);
    expect(under("hybrid_parallel", R"({"tp_size": 4})"), llama(operation), 4);
    expect(under("torch_fsdp", R"({"use_orig_params": true})"), llama(operation), 2);
  }
}

// Weights from a file count, not those of the seed; what was trained is not computed again.
void expect_resumed_as_saved(World& world, const std::string& folder) {
  const std::string base = folder + "_base", trained = folder + "_trained";
  BoosterOptions options;
  options.precision = "fp64";
  options.strategy = world.size() == 1 ? "torch_ddp" : "hybrid_parallel";
  if (world.size() > 1) options.options = R"({"tp_size": 2})";
  Booster booster(options, world);
  const Trial trial = gpt2_trial("GPT2LMHeadModel", "fp64");
  {
    Model model = trial.model({.precision = "fp64"});
    Job job = booster.boost(model, optim::AdamW(model.parameters(), {.lr = 0.1}));
    job.train_step(trial.batch(0));
    booster.save_model(job.model, base);
  }
  const auto adapted_job = [&](const std::string& path) {
    Model model = Model::open(path, "", "fp64");
    model.adapt(low_rank(kGpt2Layers, 3, kDora));
    return booster.boost(model, optim::AdamW(model.parameters(), {.lr = 0.1}));
  };
  Job job = adapted_job(base);
  expect_norms_of_rows(published_values(job), true);
  job.train_step(trial.batch(1));
  const Tensors after = published_values(job);
  booster.save_training(job, trained);
  for_each_layer(after, true, [&](const std::string& layer, const at::Tensor& weight) {
    EXPECT_FALSE(is_near(after.at(layer + "lora_magnitude_vector.weight"), weight.norm(2, 1), 1e-3)) << layer;
  });
  const auto expect_after = [&](const Job& found) {
    for (const auto& [name, value] : published_values(found))
      EXPECT_TRUE(value.equal(after.at(name))) << name;
  };
  expect_after(adapted_job(trained));
  Job resumed = adapted_job(base);
  booster.load_training(resumed, trained);
  expect_after(resumed);
}

TEST(OfLayer, ComesFromTheFileOfTheBaseAndIsResumedAsItWasSaved) {
  const TemporaryFolder folder;
  on_ranks({1, 2}, [&](World& world) {
    expect_resumed_as_saved(world, fmt::format("{}/{}", folder.path(), world.size()));
  });
}

TEST(OfLayer, NamesWhatTheLayerLacksAndWhatDoesNotFit) {
  const auto boosted = [](const std::string& from) {
    Model model = tiny_gpt2("fp64");
    model.adapt(R"({"operation": "test.astray/1", "on": "h.0.attn.c_attn", "from": ")" + from + "\"}");
    boost(one_rank(), model, {.precision = "fp64"});
  };
  EXPECT_ERROR(boosted("wait"), WEFT_INVALID_ARGUMENT, "test.astray/1", "h.0.attn.c_attn.lora_A.weight",
               "h.0.attn.c_attn.wait", "GPT2LMHeadModel does not have");
  EXPECT_ERROR(boosted("weight"), WEFT_INVALID_ARGUMENT, "test.astray/1", "h.0.attn.c_attn.lora_A.weight",
               "returns [12, 36]", "must return [4]");
  EXPECT_ERROR(boosted("lora_A.weight"), WEFT_INVALID_ARGUMENT, "test.astray/1",
               "h.0.attn.c_attn.lora_A.weight", "computed from");
}

}  // namespace

}  // namespace weft::test
