// How often the host waits for the simulated accelerator in a step, and the memory that a job takes there.
#include <set>

#include "plugins/support/bytes.hpp"
#include "plugins/support/parity.hpp"
#include "sim/sim_device.hpp"
#include "sim/training/sim_ranks.hpp"

namespace weft::test {

namespace {

struct Counted {
  int64_t waits = 0, launches = 0, peak = 0;
  friend bool operator==(const Counted&, const Counted&) = default;
};

// Of the third step and of one after it: the first two also compare the ranks (check_agreement).
std::pair<Counted, Counted> steps_of(const World& world, c10::DeviceIndex index, Model model,
                                     const JobOptions& options) {
  Job job = boost(world, std::move(model), options, "adamw");
  const Batch batch = own_part(gpt2_batch(6, 1), job);
  for (int step = 0; step < 2; ++step) job.train_step(batch);
  const auto count = [&] {
    sim::synchronise(index);
    sim::reset_counters(index);
    job.train_step(batch);
    const sim::Counters counters = sim::counters(index);
    return Counted{counters.host_waits, counters.launches, counters.peak_bytes};
  };
  const Counted first = count();
  return {first, count()};
}

Model gpt2_of(const JobOptions& options, int64_t layers) {
  return tiny_gpt2(TinyGpt2{.precision = options.precision, .width = 16, .heads = 4, .layers = layers});
}

// The ids go to the device for the first unit, and ids and labels for the loss; the host reads the loss of
// all micro-batches at once.
int64_t expected_waits(int64_t micro_batches) {
  return 3 * micro_batches + 1;
}

TEST(SimWaits, DependOnTheMicroBatchesAlone) {
  on_sim_ranks(2, [](World& world) {
    const OnSim sim(world);
    for (const JobOptions& options :
         {JobOptions{.strategy = "torch_ddp"},
          {.strategy = "torch_ddp", .accumulate = 3},
          {.strategy = "torch_fsdp"},
          {.strategy = "torch_fsdp", .recompute = "all"},
          {.strategy = "low_level_zero", .options = R"({"stage": 1})"},
          {.strategy = "low_level_zero", .options = R"({"stage": 2})", .accumulate = 2},
          {.strategy = "gemini"},
          {.strategy = "hybrid_parallel", .options = R"({"zero_stage": 1})"}})
      for (const int64_t layers : {1, 3}) {
        SCOPED_TRACE(options.strategy + options.options);
        const auto [first, second] = steps_of(world, sim.index(), gpt2_of(options, layers), options);
        EXPECT_EQ(first.waits, expected_waits(options.accumulate));
        EXPECT_EQ(second, first);
      }
  });
}

// The host computes the loss of a sharded vocabulary: logits and labels come to it, and the loss goes back;
// so do their gradients.
TEST(SimWaits, OfAShardedVocabularyAreFiveMoreForEachMicroBatch) {
  on_sim_ranks(2, [](World& world) {
    const OnSim sim(world);
    for (const int64_t micro_batches : {1, 2}) {
      const JobOptions options = {
          .strategy = "hybrid_parallel", .options = R"({"tp_size": 2})", .accumulate = micro_batches};
      const auto [first, second] = steps_of(world, sim.index(), gpt2_of(options, 2), options);
      EXPECT_EQ(first.waits, expected_waits(micro_batches) + 5 * micro_batches);
      EXPECT_EQ(second, first);
    }
  });
}

// The norm for clipping is computed on the host, and so are the masks of dropout.
TEST(SimWaits, OfClippingAndDropoutAreOneForEachTensor) {
  on_sim_ranks(1, [](World& world) {
    const OnSim sim(world);
    JobOptions options = {.strategy = "none"};
    const auto waits = [&](const TinyGpt2& gpt2) {
      return steps_of(world, sim.index(), tiny_gpt2(gpt2), options).second.waits;
    };
    const TinyGpt2 plain{.width = 16, .heads = 4, .layers = 2};
    TinyGpt2 drops = plain;
    drops.dropout = 0.1;
    EXPECT_EQ(waits(plain), expected_waits(1));
    // The embeddings, and after attention and MLP of each layer. The dropout of attention is the device's.
    EXPECT_EQ(waits(drops), expected_waits(1) + 1 + 2 * plain.layers);
    options.max_grad_norm = 1;
    std::set<const c10::TensorImpl*> parameters;  // without the second name of the tied one
    for (const at::Tensor& parameter : tiny_gpt2(plain).module().parameters())
      parameters.insert(parameter.unsafeGetTensorImpl());
    EXPECT_EQ(waits(plain), expected_waits(1) + static_cast<int64_t>(parameters.size()));
  });
}

// What `weft plan` prints, against what the device counts.
TEST(SimMemory, IsWhatThePlanSays) {
  on_sim_ranks(2, [](World& world) {
    const OnSim sim(world);
    for (const JobOptions& options :
         {JobOptions{.strategy = "torch_ddp"},
          {.strategy = "torch_fsdp", .precision = "bf16"},
          {.strategy = "low_level_zero", .options = R"({"stage": 2})"},
          {.strategy = "low_level_zero", .options = R"({"stage": 1, "cpu_offload": true})"},
          {.strategy = "gemini", .options = R"({"chunk_config_dict": {"chunk_size": 37440}})"}}) {
      SCOPED_TRACE(options.strategy + options.options);
      expect_estimate_is_counted(world, options);
    }
  });
}

}  // namespace

}  // namespace weft::test
