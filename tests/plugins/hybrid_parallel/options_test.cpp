// What the options of hybrid_parallel do, and what is refused.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "plugins/support/parity.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

JobOptions hybrid(const std::string& options) {
  return {.strategy = "hybrid_parallel", .options = options};
}

Model of_heads(int64_t heads) {
  return tiny_gpt2(TinyGpt2{.width = 12, .heads = heads});
}

TEST(Options, RefuseSizesThatDoNotDivideAndNameThoseThatDo) {
  on_ranks({4}, [](World& world) {
    EXPECT_ERROR(boost(world, of_heads(4), hybrid(R"({"tp_size": 3})")), WEFT_INVALID_ARGUMENT,
                 "tp_size is 3", "the 4 ranks");
    EXPECT_ERROR(boost(world, of_heads(6), hybrid(R"({"tp_size": 4})")), WEFT_INVALID_ARGUMENT,
                 "\"n_head\" is 6", "multiple of 4", "3 and 6");
  });
}

TEST(Options, RefuseWhatThisVersionDoesNotDo) {
  on_ranks({2}, [](World& world) {
    EXPECT_ERROR(boost(world, of_heads(4), hybrid(R"({"pp_size": 2, "zero_stage": 2})")), WEFT_UNIMPLEMENTED,
                 "hybrid_parallel: zero_stage is 2 with pp_size 2", "set zero_stage to 1");
    EXPECT_ERROR(boost(world, of_heads(4), hybrid(R"({"pp_size": 3})")), WEFT_INVALID_ARGUMENT,
                 "hybrid_parallel: pp_size is 3", "the 2 ranks");
    const char* const chunks = R"({"pp_size": 2, "pp_style": "interleaved", "num_model_chunks": 5})";
    EXPECT_ERROR(boost(world, of_heads(4), hybrid(chunks)), WEFT_INVALID_ARGUMENT, "has 4 units",
                 "pp_size 2 with 5 model chunks", "needs 10");
    EXPECT_ERROR(boost(world, of_heads(4), hybrid(R"({"tp_size": 2, "custom_policy": "gpt9"})")),
                 WEFT_NOT_FOUND, "gpt9");
    EXPECT_ERROR(boost(world, of_heads(4), hybrid(R"({"tp_size": 2, "custom_policy": "none/there.json"})")),
                 WEFT_NOT_FOUND, "custom_policy: cannot open none/there.json");
  });
}

TEST(Options, APolicyMayBeAFile) {
  const JobOptions options = hybrid(R"({"tp_size": 2, "custom_policy": ")" WEFT_JSON_POLICY "\"}");
  on_ranks({2}, [&](World& world) {
    Job job = boost(world, of_heads(4), options);
    const Bindings& bindings = job.model.shared().bindings();
    EXPECT_EQ(bindings.find_param("transformer.h.0.mlp.c_fc.weight")->local, (std::vector<int64_t>{12, 24}));
    EXPECT_EQ(bindings.find_param("transformer.h.0.attn.c_attn.weight")->local,
              (std::vector<int64_t>{12, 36}));
  });
  expect_gradients_of_one_rank(options, {2, 4},
                               {.tolerance = 5e-5, .model = [](const JobOptions&) { return of_heads(4); }});
}

TEST(Options, APolicyFileMustBeTheSameOnAllRanks) {
  // Equal paths, equal plans, other bytes.
  const std::string folder = testing::TempDir() + "weft_policy_" + std::to_string(getpid());
  for (const int rank : {0, 1}) {
    const std::string own = folder + "/" + std::to_string(rank);
    std::filesystem::create_directories(own);
    std::ofstream(own + "/policy.json") << R"({"name": "idle", "entries": []})" << std::string(rank, ' ');
  }
  on_ranks({2}, [&](World& world) {
    std::filesystem::current_path(folder + "/" + std::to_string(world.rank()));
    EXPECT_ERROR(boost(world, of_heads(4), hybrid(R"({"tp_size": 2, "custom_policy": "policy.json"})")),
                 WEFT_FAILED_PRECONDITION, "shard policy: rank 0 has shard_policy idle", "SHA-256");
  });
  std::filesystem::remove_all(folder);
}

// Every rank tells it, the failing one and those that have the file.
TEST(Options, APolicyFileMustBeOnAllRanks) {
  const std::string folder = testing::TempDir() + "weft_policy_" + std::to_string(getpid());
  const auto expect_refused = [&](int without, const char* file, weft_status status, const char* text) {
    for (const int rank : {0, 1}) {
      const std::string own = folder + "/" + std::to_string(rank);
      std::filesystem::create_directories(own);
      std::filesystem::remove(own + "/policy.json");
      if (rank != without)
        std::ofstream(own + "/policy.json") << R"({"name": "idle", "entries": []})";
      else if (file != nullptr)
        std::ofstream(own + "/policy.json") << file;
    }
    on_ranks({2}, [&](World& world) {
      std::filesystem::current_path(folder + "/" + std::to_string(world.rank()));
      const std::string who = world.rank() == without ? "" : "rank " + std::to_string(without) + " failed: ";
      EXPECT_ERROR(boost(world, of_heads(4), hybrid(R"({"tp_size": 2, "custom_policy": "policy.json"})")),
                   status, who + text);
    });
  };
  for (const int without : {0, 1}) {
    expect_refused(without, nullptr, WEFT_NOT_FOUND, "custom_policy: cannot open policy.json");
    expect_refused(without, "{", WEFT_INVALID_ARGUMENT, "policy file policy.json: not valid JSON");
    expect_refused(without,
                   R"({"name": "idle", "entries": [{"on": "wpx", "operation": "weft.embedding/1"}]})",
                   WEFT_INVALID_ARGUMENT, "plan: policy \"idle\" on GPT2LMHeadModel");
  }
  std::filesystem::remove_all(folder);
}

TEST(Options, ParallelOutputKeepsLogitsSplit) {
  const Batch batch = gpt2_batch(3, 1);
  Job alone = boost(one_rank(), of_heads(4), {});
  const at::Tensor expected = alone.forward(batch).at("logits");
  const double loss = alone.evaluate(batch).loss();
  on_ranks({2}, [&](World& world) {
    Job split = boost(world, of_heads(4), hybrid(R"({"tp_size": 2})"));
    const int64_t begin = world.rank() == 0 ? 0 : 12, count = world.rank() == 0 ? 12 : 11;
    EXPECT_TRUE(is_near(split.forward(batch).at("logits"), expected.narrow(-1, begin, count), 1e-5));
    EXPECT_NEAR(split.evaluate(batch).loss(), loss, 1e-5);
    Job whole = boost(world, of_heads(4), hybrid(R"({"tp_size": 2, "parallel_output": false})"));
    EXPECT_TRUE(is_near(whole.forward(batch).at("logits"), expected, 1e-5));
    EXPECT_NEAR(whole.evaluate(batch).loss(), loss, 1e-5);
  });
}

TEST(Options, GatheredLogitsHaveTheSameGradients) {
  expect_gradients_of_one_rank(hybrid(R"({"tp_size": 2, "parallel_output": false})"), {2, 4},
                               {.tolerance = 5e-5, .model = [](const JobOptions&) { return of_heads(4); }});
}

TEST(Options, AVocabularyIsSplitAtMultiples) {
  on_ranks({2}, [](World& world) {
    Job job = boost(world, of_heads(4), hybrid(R"({"tp_size": 2, "make_vocab_size_divisible_by": 8})"));
    const weft_param& wte = *job.model.shared().bindings().find_param("transformer.wte.weight");
    EXPECT_EQ(wte.local, (std::vector<int64_t>{world.rank() == 0 ? 16 : 7, 12}));
  });
  // A rank may be left without any row.
  expect_gradients_of_one_rank(hybrid(R"({"tp_size": 4, "make_vocab_size_divisible_by": 16})"), {4},
                               {.tolerance = 5e-5, .model = [](const JobOptions&) { return of_heads(4); }});
}

TEST(Options, DropoutMasksAgreeOnWhatIsWhole) {
  on_ranks({2}, [](World& world) {
    JobOptions options = hybrid(R"({"tp_size": 2})");
    Job job = boost(world, tiny_gpt2(TinyGpt2{.width = 12, .heads = 4, .dropout = 0.3}), options);
    for (int64_t step = 0; step < 3; ++step) job.train_step(gpt2_batch(3, step));
    // Replicated parameters stay bitwise equal only if the residual stream does.
    for (const auto& param : job.model.shared().bindings().params()) {
      if (param->partition_axes != 0) continue;
      const at::Tensor both = at::empty({2, param->count()});
      world.communicator().all_gather(both, param->tensor.detach().flatten(), true).wait();
      EXPECT_TRUE(both[0].equal(both[1])) << param->name;
    }
  });
}

}  // namespace

}  // namespace weft::test
