// Pipeline stages against one rank on the same global batches.
#include <fmt/format.h>

#include <array>

#include "plugins/support/bytes.hpp"
#include "policies/gpt2/gpt2_trial.hpp"
#include "policies/llama/llama_trial.hpp"
#include "policies/t5/tiny_t5.hpp"
#include "policies/tiny_models.hpp"
#include "support/slice.hpp"

namespace weft::test {

namespace {

// A strategy with its options beside those of the schedule.
struct Layout {
  const char* strategy;
  const char* options;
};

constexpr Layout kOn2[] = {{"torch_ddp", R"("pp_size": 2)"},
                           {"low_level_zero", R"("pp_size": 2)"},
                           {"hybrid_parallel", R"("pp_size": 2, "zero_stage": 1)"}};
constexpr Layout kOn4[] = {
    {"torch_ddp", R"("pp_size": 4)"},
    {"torch_ddp", R"("pp_size": 2)"},
    {"low_level_zero", R"("pp_size": 2, "stage": 1)"},
    {"hybrid_parallel", R"("pp_size": 2, "zero_stage": 0)"},
    {"hybrid_parallel", R"("pp_size": 2, "zero_stage": 1)"},
    {"torch_ddp", R"("pp_size": 2, "tp_size": 2)"},
    {"low_level_zero", R"("pp_size": 2, "tp_size": 2)"},
    {"hybrid_parallel", R"("pp_size": 2, "tp_size": 2)"},
    {"hybrid_parallel", R"("pp_size": 2, "tp_size": 2, "enable_sequence_parallelism": true,
                           "sequence_parallelism_mode": "split_gather")"},
    {"hybrid_parallel", R"("pp_size": 2, "sp_size": 2, "enable_sequence_parallelism": true,
                           "sequence_parallelism_mode": "all_to_all")"}};
constexpr Layout kOn8[] = {{"hybrid_parallel", R"("pp_size": 2, "tp_size": 2, "zero_stage": 1)"}};

// Of 7 samples on a rank: whole, ragged, and fewer samples than micro-batches.
constexpr const char* kMicroBatches[] = {R"("num_microbatches": 1)", R"("num_microbatches": 2)",
                                         R"("num_microbatches": 4)", R"("num_microbatches": 5)",
                                         R"("num_microbatches": 8)", R"("microbatch_size": 2)",
                                         R"("microbatch_size": 3)",  R"("num_microbatches": null)"};

// GPT-2 with tied embeddings on the first and the last stage, and many labels in the first samples only.
Trial tied_trial(const std::string& precision) {
  Trial trial = gpt2_trial("GPT2LMHeadModel", precision);
  trial.batch = [](int64_t step) { return gpt2_batch(7, step); };
  return trial;
}

// The same with a unit for each of 8 virtual stages.
Trial deep_trial(const std::string& precision) {
  Trial trial = tied_trial(precision);
  trial.model = [](const JobOptions& options) {
    return tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4, .layers = 6});
  };
  return trial;
}

JobOptions in_stages(const Layout& layout, const std::string& more, const std::string& precision) {
  return {.strategy = layout.strategy,
          .options = fmt::format("{{{}{}{}}}", layout.options, more.empty() ? "" : ", ", more),
          .precision = precision};
}

// Every layout under every schedule with every number of micro-batches, and with changing recomputation,
// accumulation and precision.
template <size_t N>
std::vector<Case> all_cases(const Layout (&layouts)[N]) {
  std::vector<Case> cases;
  for (const Layout& layout : layouts)
    for (const std::string style : {"1f1b", "interleaved", "zbh1", "zbv", "gpipe"})
      for (const char* micro : kMicroBatches) {
        const size_t i = cases.size();
        const bool has_chunks = style == "interleaved" || style == "zbv";
        const std::string precision = i % 4 == 3 ? "fp32" : "fp64";
        JobOptions options =
            in_stages(layout, fmt::format(R"("pp_style": "{}", {})", style, micro), precision);
        options.recompute = std::array{"off", "all", "2"}[i % 3];
        options.accumulate = 1 + static_cast<int64_t>(i % 5 == 4);
        cases.push_back({std::move(options), has_chunks ? deep_trial(precision) : tied_trial(precision),
                         has_chunks ? "deep gpt2" : "gpt2"});
      }
  return cases;
}

// Models whose stages pass several fields: an encoder and a decoder with position biases and masks of some
// micro-batches only, a field that no unit changes but boundary() does not say so, auxiliary losses.
std::vector<Case> model_cases(const std::vector<Layout>& layouts) {
  const Trial toy_trial = {
      .model = [](const JobOptions& options) { return toy(options, R"("balance": 0.1, "gated": false)"); },
      .batch = [](int64_t step) { return toy_batch(7, step, false); }};
  std::vector<Case> cases;
  for (const Layout& layout : layouts) {
    const auto add = [&](const char* name, const Trial& trial, const char* style = "1f1b") {
      JobOptions options =
          in_stages(layout, fmt::format(R"("num_microbatches": 3, "pp_style": "{}")", style), "fp64");
      options.recompute = cases.size() % 2 == 0 ? "off" : "all";
      cases.push_back({std::move(options), trial, name});
    };
    add("llama", llama_trial({"LlamaForCausalLM", 2, false}, "fp64"));
    add("tied t5", t5_trial(kGeneration, kTied, 1e-10));
    add("untied t5", t5_trial(kGeneration, kUntied, 1e-10));
    if (std::string(layout.options).find(R"("pp_size": 4)") == std::string::npos)
      for (const char* style : {"interleaved", "zbv"})
        add("t5 in chunks", t5_trial(kGeneration, kTied, 1e-10), style);
    const bool splits = std::string(layout.options).find("tp_size") != std::string::npos ||
                        std::string(layout.options).find("sp_size") != std::string::npos;
    if (!splits) add("toy", toy_trial);
  }
  return cases;
}

// Runs `count` of `layouts` and `model_count` of `models`; in a full run all of them.
void expect_drawn(int ranks, const std::vector<Case>& layouts, size_t count,
                  const std::vector<Case>& models = {}, size_t model_count = 0) {
  std::vector<Case> cases = slice(fmt::format("pipeline stages on {}", ranks), layouts, count);
  const std::vector<Case> drawn = slice(fmt::format("models in stages on {}", ranks), models, model_count);
  cases.insert(cases.end(), drawn.begin(), drawn.end());
  expect_gradients_of_one_rank(cases, ranks);
}

TEST(PipelineStages, HaveTheGradientsOfOneRankOn2) {
  expect_drawn(2, all_cases(kOn2), 12, model_cases({kOn2[0]}), 4);
}

TEST(PipelineStages, HaveTheGradientsOfOneRankOn4) {
  expect_drawn(4, all_cases(kOn4), 12, model_cases({kOn4[0], kOn4[3], kOn4[7], kOn4[8], kOn4[9]}), 6);
}

TEST(PipelineStages, HaveTheGradientsOfOneRankOn8) {
  expect_drawn(8, all_cases(kOn8), 1);
}

// Split backwards with what takes part in them: ZeRO, recomputation, sums over tensor ranks, and inputs that
// are gathered again for the gradients of weights.
TEST(PipelineStages, HaveTheGradientsOfOneRankWithSplitBackwards) {
  struct Split {
    Layout layout;
    const char* recompute;
  };
  std::vector<Case> cases;
  for (const auto& [layout, recompute] : {Split{kOn4[0], "off"}, Split{kOn4[2], "all"}, Split{kOn4[7], "2"},
                                          Split{kOn4[8], "off"}, Split{kOn4[8], "all"}}) {
    JobOptions options = in_stages(layout, R"("num_microbatches": 5, "pp_style": "zbv")", "fp64");
    options.recompute = recompute;
    cases.push_back({std::move(options), deep_trial("fp64"), "zbv"});
  }
  expect_gradients_of_one_rank(cases, 4);
}

TEST(PipelineStages, TrainAsOneRankWithClippingAndAccumulation) {
  JobOptions options = in_stages({"torch_ddp", R"("pp_size": 2)"}, R"("num_microbatches": 2)", "fp32");
  options.max_grad_norm = 0.05;
  options.accumulate = 2;
  expect_steps_of_one_rank(options, {2, 4}, tied_trial("fp32"));
}

// Stages compute what one rank computes with the same micro-batches, whatever the schedule and the precision:
// the same products, in the same order. Only the sum of a tied gradient has another order.
TEST(PipelineStages, AreBitForBitThoseOfOneRank) {
  const auto model = [](const JobOptions& options) {
    return tiny_gpt2(TinyGpt2{.precision = options.precision, .dropout = 0.1});
  };
  const std::string tied = "transformer.wte.weight";
  struct Precision {
    const char *precision, *mixed;
  };
  const std::vector<Precision> precisions = {{"fp32", ""}, {"bf16", ""}, {"fp32", "bf16"}};
  std::vector<std::pair<double, Tensors>> alone;
  for (const auto& [precision, mixed] : precisions) {
    const JobOptions options = {.accumulate = 4, .precision = precision, .mixed_precision = mixed};
    Job job = boost(one_rank(), model(options), options);
    const double loss = job.accumulate_gradients(gpt2_batch(7, 1));
    alone.emplace_back(loss, published_gradients(job));
    alone.back().second.erase(tied);
  }
  on_ranks({2}, [&](World& world) {
    for (size_t i = 0; i < precisions.size(); ++i) {
      for (const char* style : {"1f1b", "interleaved", "zbh1", "zbv", "gpipe"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", precisions[i].precision, precisions[i].mixed, style));
        JobOptions options =
            in_stages(kOn2[0], fmt::format(R"("num_microbatches": 4, "pp_style": "{}")", style),
                      precisions[i].precision);
        options.mixed_precision = precisions[i].mixed;
        Job job = boost(world, model(options), options);
        EXPECT_EQ(job.accumulate_gradients(gpt2_batch(7, 1)), alone[i].first);
        Tensors gradients = published_gradients(job);
        gradients.erase(tied);
        expect_equal(gradients, alone[i].second);
      }
    }
  });
}

TEST(PipelineStages, EvaluateAsOneRank) {
  const Batch batch = gpt2_batch(7, 1);
  Job alone = boost(one_rank(), tiny_gpt2("fp64"), JobOptions{.precision = "fp64"});
  const double expected = alone.evaluate(batch).loss();
  const at::Tensor logits = alone.forward(batch).at("logits");
  on_ranks({2, 4}, [&](World& world) {
    // The stage that runs the last unit has the outputs.
    for (const auto& [style, last] : {std::pair{"1f1b", 1u}, std::pair{"zbh1", 1u}, std::pair{"zbv", 0u}}) {
      SCOPED_TRACE(style);
      Job job = boost(world, tiny_gpt2("fp64"),
                      in_stages(kOn2[0], fmt::format(R"("pp_style": "{}")", style), "fp64"));
      const Batch own = own_part(batch, job);
      EXPECT_NEAR(job.evaluate(own).loss(), expected, 1e-12);
      const State outputs = job.forward(own);
      const Mesh& mesh = job.model.shared().bindings().mesh();
      if (mesh.place(Mesh::stages()).rank != last) {
        EXPECT_TRUE(outputs.empty());
      } else {
        const int64_t begin = 7 * mesh.data_rank() / mesh.data_size();
        EXPECT_TRUE(is_near(outputs.at("logits"), logits.narrow(0, begin, own.samples()), 1e-12));
      }
      // Training goes on after it.
      EXPECT_NEAR(job.train_step(own).loss, expected, 1e-12);
    }
    world.communicator().barrier();
  });
}

// A boundary carries the fields that units made, and back the gradients of the differentiable ones: what
// comes from the batch alone stays. Both holders of a tied gradient take part in its sum; in a V there is
// one. A stage has a boundary in front of each of its chunks and one behind it. The turn of a V sends
// nothing.
TEST(PipelineStages, SendTheBytesOfTheFormula) {
  constexpr int64_t kSamples = 7, kPositions = 7, kWidth = 12, kVocabulary = 23, kReal = 8;
  on_ranks({2, 4}, [&](World& world) {
    for (const std::string style : {"1f1b", "interleaved", "zbh1", "zbv", "gpipe"}) {
      SCOPED_TRACE(style);
      const bool vee = style == "zbv";
      const Layout layout = {"torch_ddp", world.size() == 2 ? R"("pp_size": 2)" : R"("pp_size": 4)"};
      Job job =
          boost(world, tiny_gpt2(TinyGpt2{.precision = "fp64", .layers = 6}),
                in_stages(layout, fmt::format(R"("num_microbatches": 3, "pp_style": "{}")", style), "fp64"));
      Batch batch = gpt2_batch(kSamples, 1);
      batch.set("attention_mask", at::ones({kSamples, kPositions}, at::kLong));
      batch.at("attention_mask").narrow(0, 0, 2).narrow(1, 5, 2).zero_();
      for (int step = 0; step < 2; ++step) job.train_step(batch);  // the first two compare ranks
      const int64_t hidden = kSamples * kPositions * kWidth * kReal;
      const bool first = world.rank() == 0, last = world.rank() + 1 == world.size();
      const int64_t chunks = vee || style == "interleaved" ? 2 : 1;
      const int64_t forwards = (chunks - (last || (vee && first) ? 1 : 0)) * hidden,
                    backwards = (chunks - (first || (vee && last) ? 1 : 0)) * hidden;
      std::map<std::string, int64_t> expected = {{"send", forwards + backwards}};
      if (!vee && (first || last))
        expected["all_reduce"] = kVocabulary * kWidth * kReal;  // 2 (P - 1) / P of it, P = 2
      EXPECT_EQ(sent_bytes([&] { job.train_step(batch); }), expected);
      EXPECT_EQ(sent_bytes([&] { job.evaluate(batch); })["send"], forwards);
    }
  });
}

}  // namespace

}  // namespace weft::test
