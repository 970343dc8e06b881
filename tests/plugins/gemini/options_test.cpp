// Each option of gemini by its effect, and what it refuses.
#include "plugins/gemini/support.hpp"

#include <cmath>
#include <filesystem>

#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

using memory::Pool;

Job boost_even(const World& world, const std::string& members, const char* rule = "adamw") {
  const JobOptions options = gemini(std::string(kEvenChunks) + (members.empty() ? "" : ", " + members));
  return boost(world, toy(options, kEvenToy), options, rule);
}

int64_t used(Pool pool) {
  return memory::pool_use(pool).used;
}

// All chunks together, of the parameters' dtype.
constexpr int64_t kAll = kChunks * kChunkBytes;

TEST(GeminiOptions, AreCheckedTogether) {
  const auto expect_refusal = [](const std::string& members, const auto&... parts) {
    EXPECT_ERROR(boost_even(one_rank(), members), WEFT_INVALID_ARGUMENT, parts...);
  };
  expect_refusal("\"placement_policy\": \"best\"", "placement_policy", "best");
  expect_refusal("\"shard_param_frac\": 1.5", "shard_param_frac");
  expect_refusal("\"offload_param_frac\": 1", "offload_param_frac", "offload_optim_frac=1");
  expect_refusal("\"memstats\": \"file\"", "memstats is", "no effect", "placement_policy auto",
                 "placement_policy is static");
  expect_refusal("\"extra_dp_size\": 3", "extra_dp_size is 3", "the 1 ranks");
  expect_refusal("\"max_prefetchs\": 3", "max_prefetchs", "max_prefetch");
  const auto expect_refusal_of_chunks = [](const std::string& config, const auto&... parts) {
    const JobOptions options = gemini("\"chunk_config_dict\": " + config);
    EXPECT_ERROR(boost(one_rank(), toy(options), options), WEFT_INVALID_ARGUMENT, "chunk_config_dict",
                 parts...);
  };
  expect_refusal_of_chunks("{\"size\": 3}", "has a \"size\"");
  expect_refusal_of_chunks("{\"chunk_size\": 0}", "positive integer");
  expect_refusal_of_chunks("{\"chunk_size\": 3, \"keep_gathered\": 1}", "nor false");
  // At its default too.
  expect_refusal_of_chunks("{\"chunk_size\": 3, \"keep_gathered\": true}, \"shard_param_frac\": 1",
                           "shard_param_frac", "no effect");
}

TEST(MasterWeights, AreRoundedAfterEveryUpdateWhereThereAreNone) {
  for (const auto& [precision, more] :
       {std::pair{"bf16", ""}, std::pair{"fp16", ", \"offload_optim_frac\": 0.5"},
        std::pair{"bf16", ", \"enable_gradient_accumulation\": true"}}) {
    const auto options = [&, p = precision, m = more](const char* masters) {
      JobOptions chosen = gemini(std::string(R"("chunk_config_dict": {"chunk_size": 120})") + m +
                                     (p == std::string("fp16") ? ", \"initial_scale\": 256" : "") +
                                     ", \"master_weights\": " + masters,
                                 p);
      chosen.max_grad_norm = 0.05;
      return chosen;
    };
    expect_rules_without_masters(options("false"), options("true"), {2});
  }
}

TEST(ForceOutputsFp32, GivesOutputsOfHalfPrecisionInFp32) {
  for (const bool forced : {false, true}) {
    const JobOptions options = gemini(forced ? "\"force_outputs_fp32\": true" : "", "bf16");
    Job job = boost(one_rank(), toy(options), options);
    EXPECT_EQ(job.forward(toy_batch(2, 1)).at("logits").scalar_type(), forced ? at::kFloat : at::kBFloat16);
  }
}

TEST(MaxNorm, ClipsByTheNormOfItsType) {
  for (const char* type : {"2", "1", "\"inf\""}) {
    const JobOptions options = gemini(std::string("\"max_norm\": 1e-3, \"norm_type\": ") + type, "fp64");
    Job job = boost(one_rank(), toy(options, "\"gated\": false"), options);
    const Tensors before = published_values(job);
    job.train_step(toy_batch(2, 1, false));
    std::vector<at::Tensor> updates;
    for (const auto& [name, value] : published_values(job))
      updates.push_back((before.at(name) - value).flatten());
    const double p = std::string(type) == "2" ? 2 : std::string(type) == "1" ? 1 : INFINITY;
    EXPECT_NEAR(at::cat(updates).norm(p).item<double>(), 1e-3, 1e-6) << type;
  }
}

WEFT_RANKS_TEST(GradientAccumulation, IsRefusedWithoutItsOption, 2) {
  {
    JobOptions options = gemini("");
    options.accumulate = 2;
    Job job = boost(world, toy(options), options);
    EXPECT_ERROR(job.train_step(toy_batch(2, 1)), WEFT_FAILED_PRECONDITION, "gemini",
                 "accumulation and no_sync", "enable_gradient_accumulation=true");
  }
  Job job = boost(world, toy(gemini("")), gemini(""));
  job.accumulate_gradients(toy_batch(2, 1));
  EXPECT_ERROR(job.accumulate_gradients(toy_batch(2, 1)), WEFT_FAILED_PRECONDITION, "second backward",
               "zero_grad", "enable_gradient_accumulation=true");
}

WEFT_RANKS_TEST(GradientAccumulation, AddsSynchronisedAndUnsynchronisedBackwards, 2) {
  const JobOptions options = gemini("\"enable_gradient_accumulation\": true", "fp64");
  Job job = boost(world, toy(options, "\"gated\": false"), options);
  job.accumulate_gradients(toy_batch(2, 1, false), false);
  const Tensors first = published_gradients(job);
  job.optimizer.zero_grad();
  job.accumulate_gradients(toy_batch(2, 2, false), true);
  Tensors both = published_gradients(job);
  for (auto& [name, gradient] : both) gradient += first.at(name);
  job.optimizer.zero_grad();
  job.accumulate_gradients(toy_batch(2, 1, false), false);
  job.accumulate_gradients(toy_batch(2, 2, false), true);
  expect_near(published_gradients(job), both, kGradientFp64);
}

// Values, then values, gradients and two moments.
TEST(OffloadOptimFrac, IsThePartThatIsTheHosts) {
  for (const double fraction : {0.0, 0.6, 1.0}) {
    const int64_t host = used(Pool::kHost), accelerator = used(Pool::kAccelerator);
    Job job = boost_even(one_rank(), "\"offload_optim_frac\": " + std::to_string(fraction));
    const auto part = static_cast<int64_t>(fraction * kChunks) * kChunkBytes;
    EXPECT_EQ(used(Pool::kHost) - host, part);
    job.accumulate_gradients(toy_batch(1, 1, false));
    job.optimizer.step();
    EXPECT_NEAR(static_cast<double>(used(Pool::kHost) - host), 4.0 * part, 0.01 * kAll);
    // The working values stay on the accelerator too.
    EXPECT_NEAR(static_cast<double>(used(Pool::kAccelerator) - accelerator), 4.0 * (kAll - part) + part,
                0.01 * kAll);
  }
}

TEST(OffloadParamFrac, IsThePartThatIsBroughtForEachGather) {
  for (const double fraction : {0.0, 0.4, 1.0}) {
    const int64_t accelerator = used(Pool::kAccelerator);
    Job job = boost_even(one_rank(),
                         "\"offload_optim_frac\": 1, \"offload_param_frac\": " + std::to_string(fraction));
    const auto offloaded = static_cast<int64_t>(fraction * kChunks);
    EXPECT_EQ(used(Pool::kAccelerator) - accelerator, (kChunks - offloaded) * kChunkBytes);
    job.train_step(toy_batch(1, 1, false));
    const int64_t before = memory::pool_use(Pool::kAccelerator).received;
    job.train_step(toy_batch(1, 2, false));
    // Chunk 0 is gathered once a step, the others twice; what stays is refreshed once.
    const int64_t brought = offloaded == 0 ? kChunks : 2 * offloaded - 1 + kChunks - offloaded;
    EXPECT_EQ(memory::pool_use(Pool::kAccelerator).received - before, brought * kChunkBytes);
  }
}

TEST(PinMemory, LocksWhatIsTheHosts) {
  const int64_t host = used(Pool::kHost), pinned = used(Pool::kPinned);
  Job job = boost_even(one_rank(), "\"placement_policy\": \"cpu\", \"pin_memory\": true");
  EXPECT_EQ(used(Pool::kHost) - host, 0);
  EXPECT_EQ(used(Pool::kPinned) - pinned, kAll);
}

TEST(ChunkInitDevice, IsWhereValuesAreMade) {
  for (const char* device : {"cpu", "cuda"}) {
    const int64_t down = memory::pool_use(Pool::kHost).received,
                  up = memory::pool_use(Pool::kAccelerator).received;
    Job offloaded = boost_even(
        one_rank(), std::string("\"placement_policy\": \"cpu\", \"chunk_init_device\": \"") + device + "\"");
    EXPECT_EQ(memory::pool_use(Pool::kHost).received - down, std::string(device) == "cpu" ? 0 : kAll);
    Job kept = boost_even(one_rank(), std::string("\"chunk_init_device\": \"") + device + "\"");
    EXPECT_EQ(memory::pool_use(Pool::kAccelerator).received - up, std::string(device) == "cpu" ? kAll : 0);
  }
}

TEST(MinChunkSize, MakesASmallModelOneChunk) {
  on_ranks({2}, [](World& world) {
    const JobOptions options = gemini("");
    Job job = boost(world, toy(options, kEvenToy), options);
    const Batch batch = toy_batch(2, 1, false);
    job.train_step(own_part(batch, world));
    const auto sent = sent_bytes([&] { job.train_step(own_part(batch, world)); });
    const int64_t elements = job.model.num_elements();
    const std::map<std::string, int64_t> expected = {{"all_gather", elements * 2},
                                                     {"reduce_scatter", elements * 2}};
    EXPECT_EQ(sent, expected);
  });
}

WEFT_RANKS_TEST(ChunkSearchOptions, DecideTheSizeOfChunks, 2) {
  const auto gathered = [&](const std::string& members) {
    const JobOptions options = gemini(members);
    Job job = boost(world, toy(options, kEvenToy), options);
    const Batch batch = own_part(toy_batch(2, 1, false), world);
    return sent_bytes([&] { job.train_step(batch); }).at("all_gather");
  };
  // The embedding fits into the least chunk, and so does each layer.
  EXPECT_EQ(gathered(R"("hidden_dim": 37440, "search_range_m": 0, "min_chunk_size_m": 0.01)"),
            (2 * kChunks - 1) * kChunkBytes / 2);
  // Twice as large: 13 chunks, of which the first is gathered once and the last holds half.
  EXPECT_EQ(gathered(R"("hidden_dim": 74880, "search_range_m": 0, "min_chunk_size_m": 0.01)"),
            (2 * 13 - 1) * kChunkBytes);
  // The search prefers what wastes least.
  EXPECT_LE(gathered(R"("hidden_dim": 192, "search_range_m": 0.02, "min_chunk_size_m": 0.07)"),
            (2 * 13 - 1) * kChunkBytes);
}

// The most that gathered chunks take in the second step, which begins with nothing on the accelerator.
int64_t most_gathered(const World& world, const std::string& members) {
  Job job = boost_even(world, "\"placement_policy\": \"cpu\", " + members);
  job.train_step(own_part(toy_batch(2, 1, false), world));
  const int64_t before = used(Pool::kAccelerator);
  memory::reset_peak(Pool::kAccelerator);
  job.train_step(own_part(toy_batch(2, 2, false), world));
  return memory::pool_use(Pool::kAccelerator).peak - before;
}

// Two of a unit and the tied one; with more ahead, as many more.
WEFT_RANKS_TEST(MaxPrefetch, GathersAhead, 2) {
  for (const int64_t ahead : {0, 1, 4})
    EXPECT_EQ(
        most_gathered(world, "\"enable_async_reduce\": false, \"max_prefetch\": " + std::to_string(ahead)),
        (3 + ahead) * kChunkBytes);
}

// One chunk is still being summed while the next unit's are gathered.
WEFT_RANKS_TEST(AsyncReduce, OverlapsWithTheNextUnit, 2) {
  EXPECT_EQ(most_gathered(world, "\"enable_async_reduce\": true"), 4 * kChunkBytes);
}

TEST(Verbose, LogsTheSearchAndTheWarmUp) {
  for (const bool verbose : {false, true}) {
    testing::internal::CaptureStderr();
    Job job = boost_even(one_rank(), std::string("\"placement_policy\": \"auto\", \"verbose\": ") +
                                         (verbose ? "true" : "false"));
    job.train_step(toy_batch(1, 1, false));
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(
        log.find("used number: 0.89 * 2^20, wasted number: 0.00 * 2^20, total wasted percentage is 0.06%") !=
            std::string::npos,
        verbose)
        << log;
    EXPECT_EQ(log.find("warm-up is completed") != std::string::npos, verbose) << log;
  }
}

TEST(Memstats, AreWrittenAfterTheFirstStepAndSpareTheNextJobItsWarmUp) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/statistics.json";
  const std::string options = "\"placement_policy\": \"auto\", \"memstats\": \"" + path + "\"";
  on_ranks({2}, [&](World& world) {
    // The warm-up leaves 20 % to chunks: too little for one step of all, so that chunks are evicted.
    const AcceleratorLimit limit(2 * kAll);
    const Batch batch = toy_batch(2, 1, false);
    const auto first_step = [&] {
      Job job = boost_even(world, options);
      return sent_bytes([&] { job.train_step(own_part(batch, world)); }).at("all_gather");
    };
    const int64_t without = first_step();
    world.communicator().barrier();
    EXPECT_TRUE(std::filesystem::exists(path));
    EXPECT_LT(first_step(), without);
    const JobOptions other = gemini(options);
    Job job = boost(world, toy(other), other);
    EXPECT_ERROR(job.train_step(own_part(batch, world)), WEFT_FAILED_PRECONDITION, "memstats", path,
                 "another model");
  });
}

}  // namespace

}  // namespace weft::test
