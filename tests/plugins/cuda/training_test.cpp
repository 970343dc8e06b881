// Training on a GPU gives the losses of the CPU, on one rank and on several that share it, and goes on where
// it was stopped.
#include <gmock/gmock.h>

#include <cmath>

#include "command/command.hpp"

namespace weft::test {
namespace {

using testing::HasSubstr;

// "cuda"; the simulated accelerator runs these tests, too.
constexpr const char* kDevice = WEFT_TEST_DEVICE;

constexpr double kFp32 = 2e-4,
                 kHalf = 3e-2;  // relative: the order of sums differs, and matrix products are not in TF32

// Leaves out steps that were skipped, which are in the file once more.
std::vector<double> values_of(const std::string& file, const char* key) {
  std::vector<double> values;
  for (const nlohmann::json& line : read_metrics(file))
    if (!line.contains("skipped")) values.push_back(line.at(key));
  return values;
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance * std::abs(expected[i])) << "step " << i + 1;
}

class OnGpu : public CommandTest {
 protected:
  OnGpu() {
    data_ = folder_.file("even.txt", sample_text(16 * 32 + 5));  // two batches of 8 samples
    reference_ = losses("cpu", {"--strategy", "none"});
  }
  // Returns the losses of ten steps, and leaves what was measured in the file `name`.
  std::vector<double> losses(const std::string& name, const Words& more) {
    expect_success(
        train(Words{"--steps", "10", "--lr", "0.01", "--max-grad-norm", "1", "--metrics", in(name)} + more));
    return values_of(in(name), "loss");
  }
  // Lets the model drop out with the probability `name`.
  void use_dropout(const char* name) {
    nlohmann::json config = nlohmann::json::parse(config_json());
    config[name] = 0.2;
    config_ = folder_.file("dropout.json", config.dump());
  }
  std::vector<double> reference_;
};

TEST_F(OnGpu, OneRankHasTheLossesOfTheCpu) {
  expect_near(losses("one", {"--strategy", "none", "--device", kDevice}), reference_, kFp32);
  expect_near(values_of(in("one"), "grad_norm"), values_of(in("cpu"), "grad_norm"), 10 * kFp32);
}

// A skipped step would take the batch of the next one, so the first scale is one without overflow.
TEST_F(OnGpu, HalfPrecisionIsNear) {
  for (const char* precision : {"bf16", R"({"name": "fp16", "init_scale": 256})"}) {
    SCOPED_TRACE(precision);
    const std::vector<double> found =
        losses("half", {"--strategy", "none", "--mixed-precision", precision, "--device", kDevice});
    for (const nlohmann::json& line : read_metrics(in("half")))
      EXPECT_FALSE(line.contains("skipped")) << line;
    expect_near(found, reference_, kHalf);
  }
}

TEST_F(OnGpu, EveryStrategyTrainsOnOneRank) {
  for (const char* strategy : {"torch_ddp", "torch_fsdp", "low_level_zero", "gemini", "hybrid_parallel"}) {
    SCOPED_TRACE(strategy);
    expect_near(losses(strategy, {"--strategy", strategy, "-n", "1", "--device", kDevice}), reference_,
                kFp32);
  }
}

// On a GPU everything is copied from page-locked memory and to it while it computes.
TEST_F(OnGpu, OffloadingChangesNoLoss) {
  const auto expect_same = [&](const Words& how, const Words& offloading) {
    SCOPED_TRACE(testing::PrintToString(offloading));
    for (const char* precision : {"fp32", "bf16"}) {
      const Words job = Words{"-n", "1", "--device", kDevice, "--precision", precision, "--strategy"} + how;
      expect_near(losses("offloading", job + offloading), losses("plain", job), 1e-5);
    }
  };
  expect_same({"torch_fsdp", "-o", "forward_prefetch=true"}, {"-o", "cpu_offload=true"});
  expect_same({"torch_fsdp", "--accumulate", "2"}, {"-o", "cpu_offload=true"});
  expect_same({"low_level_zero", "-o", "stage=2", "-o", "reduce_bucket_size_in_m=0.02", "-o",
               "overlap_allgather=true"},
              {"-o", "cpu_offload=true"});
  expect_same({"gemini"}, {"-o", "placement_policy=cpu"});
  expect_same({"gemini"}, {"-o", "placement_policy=cpu", "-o", "pin_memory=true", "-o", "max_prefetch=1"});
}

// With more ranks than GPUs they communicate through host memory.
TEST_F(OnGpu, TwoRanksOnAGpuHaveTheLossesOfOne) {
  for (const Words& how :
       {Words{"torch_ddp"}, Words{"torch_fsdp"}, Words{"torch_fsdp", "-o", "cpu_offload=true"},
        Words{"hybrid_parallel", "-o", "tp_size=2"},
        Words{"hybrid_parallel", "-o", "pp_size=2", "-o", "num_microbatches=2"}}) {
    SCOPED_TRACE(testing::PrintToString(how));
    expect_near(losses("two", Words{"-n", "2", "--device", kDevice, "--strategy"} + how), reference_, kFp32);
  }
}

TEST_F(OnGpu, ResumesWhereItStopped) {
  const Words job{"--strategy", "torch_ddp", "-n", "1", "--lr", "0.01", "--device", kDevice};
  expect_success(train(job + Words{"--steps", "8", "--metrics", in("whole")}));
  expect_success(train(job + Words{"--steps", "4", "--output", in("half")}));
  expect_success(train(job + Words{"--steps", "8", "--resume", in("half"), "--metrics", in("rest")}));
  const std::vector<double> whole = values_of(in("whole"), "loss");
  expect_near(values_of(in("rest"), "loss"), {whole.begin() + 4, whole.end()}, 1e-6);
}

// With dropout, so that attention draws on the GPU, in fp32 and with the kernels of half precision.
TEST_F(OnGpu, HasTheSameBitsWhenDeterministic) {
  folder_.file("config.json", config_json({.dropout = 0.1}));
  for (const char* precision : {"fp32", "bf16"}) {
    SCOPED_TRACE(precision);
    const Words job{"--strategy", "low_level_zero",  "-n",          "1",      "--lr", "0.01", "--device",
                    kDevice,      "--deterministic", "--precision", precision};
    const auto run = [&](const std::string& name, const Words& more) {
      expect_success(train(job + more + Words{"--output", in(name + precision)}));
      return read_bytes(in(name + precision) + "/model.safetensors");
    };
    const std::string whole = run("whole", {"--steps", "8"});
    EXPECT_TRUE(run("twice", {"--steps", "8"}) == whole);
    run("half", {"--steps", "4"});
    EXPECT_TRUE(run("rest", {"--steps", "8", "--resume", in(std::string("half") + precision)}) == whole);
  }
}

TEST_F(OnGpu, Tf32IsNear) {
  expect_near(losses("tf32", {"--strategy", "none", "--device", kDevice, "--allow-tf32"}), reference_, kHalf);
}

TEST_F(OnGpu, GraphsHaveTheLossesOfEagerSteps) {
  const auto expect_same = [&](const Words& how) {
    SCOPED_TRACE(testing::PrintToString(how));
    const Words eager = Words{"--device", kDevice, "--strategy"} + how;
    const std::vector<double> expected = losses("eager", eager);
    expect_near(losses("graph", eager + Words{"--enable-cuda-graph"}), expected, 1e-5);
  };
  const Words accumulates{"none", "--precision", "bf16", "--accumulate", "2"};
  expect_same({"none", "--precision", "fp32"});
  expect_same({"torch_ddp", "-n", "2", "--precision", "fp32"});
  expect_same(accumulates);
  expect_same({"low_level_zero", "-n", "2", "-o", "stage=2", "-o", "precision=fp16", "-o", "initial_scale=16",
               "-o", "growth_interval=2"});
  use_dropout("resid_pdrop");
  expect_same(accumulates);
  expect_same(accumulates + Words{"--deterministic"});
}

TEST_F(OnGpu, GraphsDropAttention) {
  use_dropout("attn_pdrop");
  const Words job{"--strategy", "none", "--device", kDevice, "--precision", "bf16"};
  const std::vector<double> eager = losses("eager", job);
  const std::vector<double> graph = losses("graph", job + Words{"--enable-cuda-graph"});
  EXPECT_NE(graph, eager);
  expect_near(graph, eager, 0.1);
}

TEST_F(OnGpu, ACheckpointOfTheGpuContinuesOnTheCpu) {
  const Words job{"--strategy", "none", "--lr", "0.01"};
  expect_success(train(job + Words{"--steps", "4", "--device", kDevice, "--output", in("gpu")}));
  expect_success(train(job + Words{"--steps", "8", "--metrics", in("whole")}));
  expect_success(train(job + Words{"--steps", "8", "--resume", in("gpu"), "--metrics", in("rest")}));
  const std::vector<double> whole = values_of(in("whole"), "loss");
  expect_near(values_of(in("rest"), "loss"), {whole.begin() + 4, whole.end()}, kFp32);
}

TEST_F(OnGpu, GeneratesTheTokensAndHasTheLossOfTheCpu) {
  copy_trained_model();
  const auto ask = [&](const Words& command, const char* device) {
    return expect_success(command + Words{"--model", in("out"), "--json", "--device", device}).out;
  };
  const auto ids = [&](const char* device) {
    const Words generate = {"generate", "--greedy", "--repetition-penalty", "1.5", "--max-new-tokens", "12",
                            "--prompt", "rank "};
    return nlohmann::json::parse(ask(generate, device)).at("ids").get<std::vector<int64_t>>();
  };
  EXPECT_EQ(ids(kDevice), ids("cpu"));
  const auto loss = [&](const char* device) {
    return nlohmann::json::parse(ask({"evaluate", "--data", data_}, device)).at("loss").get<double>();
  };
  expect_near({loss(kDevice)}, {loss("cpu")}, kFp32);
}

TEST_F(OnGpu, TheLimitOfMemoryHolds) {
  const Output output = weft_command_with("WEFT_ACCELERATOR_MEMORY=64KiB",
                                          train({"--strategy", "none", "--steps", "1", "--device", kDevice}));
  EXPECT_NE(output.exit_code, 0);
  EXPECT_THAT(output.error, HasSubstr("memory"));
}

}  // namespace
}  // namespace weft::test
