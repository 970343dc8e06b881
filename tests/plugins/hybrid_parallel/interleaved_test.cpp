// What belongs to one forward travels with it: micro-batches of different lengths that take turns in one
// model.
#include <cstdlib>

#include "apply/make_context.hpp"
#include "plugins/support/parity.hpp"
#include "plugins/support/sequence_modes.hpp"
#include "policies/gpt2/gpt2_trial.hpp"
#include "policies/llama/llama_trial.hpp"
#include "policies/t5/tiny_t5.hpp"
#include "support/slice.hpp"
#include "weft/nn/head.hpp"

namespace weft::test {

namespace {

// Of the strategy `scripted`, whose schedule is: A forward, B forward, A backward, B backward.
[[maybe_unused]] const int path = setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1);

struct Family {
  std::string name;
  std::function<Model(const JobOptions&)> model;
  std::vector<Batch> batches;
};

Batch tokens(int64_t samples, int64_t positions, int64_t labels, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  Batch batch = {{"input_ids", at::randint(20, {samples, positions}, at::kLong)},
                 {"labels", at::randint(20, {samples, labels}, at::kLong)}};
  batch.at("labels").narrow(1, 0, 1).fill_(-100);
  return batch;
}

std::vector<Family> families() {
  const std::vector<Batch> decoded = {tokens(3, 7, 7, 1), tokens(2, 5, 5, 2)};
  return {{"GPT-2", gpt2_trial("GPT2LMHeadModel", "fp64").model, decoded},
          {"Llama", llama_trial({"LlamaForCausalLM", 2, true}, "fp64").model, decoded},
          {"T5", t5_trial(kGeneration, kTied).model, {tokens(3, 9, 5, 3), tokens(2, 6, 7, 4)}}};
}

// The gradients of the mean over the labels of all `batches`, each of them alone in the model.
Tensors each_alone(const Family& family) {
  const JobOptions options = {.precision = "fp64"};
  const Job job = boost(one_rank(), family.model(options), options);
  Training& training = *job.model.shared().training;
  Bindings& bindings = training.bindings();
  Tensors sum;
  double labels = 0;
  for (const Batch& batch : family.batches) {
    training.run_step({batch});
    const double count = bindings.model().counts(batch)[0].count;
    for (const auto& [name, gradient] : published_gradients(job))
      sum[name] = sum.contains(name) ? sum[name] + gradient * count : gradient * count;
    labels += count;
    bindings.zero_gradients();
  }
  for (auto& [name, gradient] : sum) gradient.div_(labels);
  return sum;
}

void expect_each_alone(World& world, const JobOptions& options, const std::vector<Family>& families,
                       const std::vector<Tensors>& expected) {
  for (size_t f = 0; f < families.size(); ++f)
    for (const char* recompute : {"off", "all"}) {
      SCOPED_TRACE(families[f].name + ", recompute " + recompute);
      JobOptions chosen = options;
      chosen.recompute = recompute;
      const Job job = boost(world, families[f].model(chosen), chosen);
      job.model.shared().training->run_step(families[f].batches);
      expect_near(published_gradients(job), expected[f], 1e-10);
    }
}

std::vector<Tensors> each_alone(const std::vector<Family>& families) {
  std::vector<Tensors> expected;
  for (const Family& family : families) expected.push_back(each_alone(family));
  return expected;
}

class Interleaved : public testing::TestWithParam<Split> {};

TEST_P(Interleaved, MicroBatchesHaveTheGradientsOfEachAlone) {
  const std::vector<Family> all = families();
  const std::vector<Tensors> expected = each_alone(all);
  const std::string axes = std::string(GetParam().axes) + R"("schedule": "all_forward", )";
  on_ranks({GetParam().ranks}, [&](World& world) {
    expect_each_alone(world, in_mode(GetParam().mode, axes, "fp64", "scripted"), all, expected);
  });
}

// Between an embedding and its block there is nothing but the state: the block runs on a rank that has never
// run the embedding.
TEST_P(Interleaved, ABlockNeedsNoPrologue) {
  Batch batch = tokens(2, 7, 7, 5);
  batch.erase("labels");
  const JobOptions plain = {.precision = "fp64"};
  const auto model = gpt2_trial("GPT2Model", "fp64").model;
  const at::NoGradGuard no_grad;
  const Job alone = boost(one_rank(), model(plain), plain);
  State entering = alone.model.module().input(batch), leaving;
  {
    const auto context = parallel::make_context(alone.model.module(), batch, nullptr);
    const nn::RunningUnit running(*context, 0);
    alone.model.module().units()[0]->forward(entering);
    leaving = entering;
    alone.model.module().units()[1]->forward(leaving);
  }
  on_ranks({GetParam().ranks}, [&](World& world) {
    const JobOptions options = in_mode(GetParam().mode, GetParam().axes);
    const Job job = boost(world, model(options), options);
    const Bindings& bindings = job.model.shared().bindings();
    const auto context = parallel::make_context(bindings.model(), batch, bindings.plan());
    const auto own = [&](const at::Tensor& whole) {
      std::vector<at::Tensor> parts;
      for (const weft::Run& run : context->sequence("").own)
        parts.push_back(whole.narrow(1, run.begin, run.count));
      return at::cat(parts, 1);
    };
    State state = entering;
    state.set(nn::kHidden, own(entering.at(nn::kHidden)));
    const nn::RunningUnit running(*context, 1);
    bindings.model().units()[1]->forward(state);
    EXPECT_TRUE(is_near(state.at(nn::kHidden), own(leaving.at(nn::kHidden)), 1e-10));
  });
}

// Adds the mean square of the channels that leave the last block, at every position that this rank has.
class AddsLoss final : public nn::IdentityOperation {
 public:
  explicit AddsLoss(std::shared_ptr<nn::IdentityOperation> inner) : inner_(std::move(inner)) {}
  at::Tensor forward(const at::Tensor& x) const override {
    nn::ForwardContext::current().add_loss({"square", 0.3, x.square().mean(-1).sum(), ""});
    return inner_ ? inner_->forward(x) : x;
  }

 private:
  const std::shared_ptr<nn::IdentityOperation> inner_;
};

double add_loss_and_backward(const Job& job, const std::vector<Batch>& batches) {
  for (const auto& item : job.model.module().named_modules())
    if (auto* end = dynamic_cast<nn::Identity*>(item.value().get()))
      if (item.key().ends_with("stream_end")) end->operation = std::make_shared<AddsLoss>(end->operation);
  const Training::StepLoss loss = job.model.shared().training->run_step(batches);
  EXPECT_EQ(loss.names.back(), "square");
  const at::Tensor total = at::tensor({loss.total()}, at::kDouble);
  const World& world = job.model.shared().bindings().world();
  if (world.size() > 1) world.communicator().all_reduce(total, ReduceOp::kSum, true).wait();
  return total.item<double>();
}

TEST_P(Interleaved, AuxiliaryLossesAreThoseOfOneRank) {
  const Family family = families()[0];
  const JobOptions plain = {.precision = "fp64"};
  const Job alone = boost(one_rank(), family.model(plain), plain);
  const double loss = add_loss_and_backward(alone, family.batches);
  const Tensors expected = published_gradients(alone);
  on_ranks({GetParam().ranks}, [&](World& world) {
    for (const char* recompute : {"off", "all"}) {
      JobOptions options = in_mode(GetParam().mode, GetParam().axes);
      options.recompute = recompute;
      const Job job = boost(world, family.model(options), options);
      EXPECT_NEAR(add_loss_and_backward(job, family.batches), loss, 1e-10 * loss);
      expect_near(published_gradients(job), expected, 1e-10);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Modes, Interleaved, testing::ValuesIn(slice("Interleaved", kSplits, 4)), name_of);

TEST(InterleavedWholes, MicroBatchesHaveTheGradientsOfEachAlone) {
  const std::vector<Family> all = families();
  const std::vector<Tensors> expected = each_alone(all);
  for (const int ranks : {1, 2, 4})
    on_ranks({ranks}, [&](World& world) {
      JobOptions options = {.strategy = "scripted", .precision = "fp64"};
      options.options = fmt::format(R"({{"tp_size": {}, "schedule": "all_forward"}})", ranks);
      expect_each_alone(world, options, all, expected);
    });
}

}  // namespace

}  // namespace weft::test
