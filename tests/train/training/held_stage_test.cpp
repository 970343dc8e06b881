// What a rank of a pipeline stage holds: the units and parameters of its stage, and its share of the
// gradients of parameters that other stages use, too.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>

#include "device/counting_allocator.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "train/training/recorder.hpp"
#include "training/hooks.hpp"

namespace weft::test {

namespace {

TrainingOptions in_stages(uint32_t size) {
  TrainingOptions options;
  options.host.pipeline.size = size;
  return options;
}

// Makes a training of the toy model in stages; the other ranks are data-parallel.
std::shared_ptr<Training> make_stage(const World& world, uint32_t size, Recorder& recorder,
                                     const std::string& keys = "") {
  recorder.describe_mesh = [&world](weft_mesh* mesh) {
    mesh->size[axis::kData] = static_cast<uint32_t>(world.size()) / mesh->size[axis::kStages];
  };
  return make_training(world, make_toy(keys), recorder, in_stages(size));
}

weft_param_info info_of(weft_param* param) {
  weft_param_info info{};
  info.struct_size = sizeof(info);
  call([&](weft_error* e) { return model_services().param_info(param, &info, e); });
  return info;
}

int64_t elements_of(const weft_param& param) {
  return std::accumulate(param.shape.begin(), param.shape.end(), int64_t{1}, std::multiplies<>());
}

bool is_used_in(const weft_param& param, uint32_t begin, uint32_t end) {
  return std::any_of(param.units.begin(), param.units.end(),
                     [&](uint32_t unit) { return begin <= unit && unit < end; });
}

WEFT_RANKS_TEST(HeldStage, IsRefusedWhereItCannotBeMade, 4) {
  Recorder recorder;
  EXPECT_ERROR(make_stage(world, 4, recorder, R"("blocks": 1)"), WEFT_INVALID_ARGUMENT,
               "ToyModel has 3 units", "pp_size 4", "set pp_size to 3 or less");
  EXPECT_ERROR(make_stage(world, 3, recorder), WEFT_INVALID_ARGUMENT, "pp_size is 3", "the 4 ranks");
  for (const uint32_t size : {0U, 1U}) {
    recorder.describe_mesh = [size](weft_mesh* mesh) {
      call([&](weft_error* e) { return mesh_services()->set_size(mesh, axis::kStages, size, e); });
    };
    EXPECT_ERROR(make_training(world, make_toy(), recorder, in_stages(2)), WEFT_INVALID_ARGUMENT, "the axis",
                 "cannot have size " + std::to_string(size));
  }
  recorder.run_step = [](weft_step*) {};
  EXPECT_ERROR(make_stage(world, 2, recorder), WEFT_UNIMPLEMENTED, "pp_size is 2", "schedules units");
}

WEFT_RANKS_TEST(HeldStage, IsAllThatAStrategySees, 2, 4) {
  Recorder recorder;
  const auto training = make_stage(world, 2, recorder);
  weft_training* const t = recorder.training;
  const uint32_t stage = t->mesh().coordinate(axis::kStages);
  ASSERT_EQ(t->stages().virtual_stages(), 2u);
  const uint32_t begin = t->stages().begin(stage), end = t->stages().end(stage);

  const weft_model_services& services = model_services();
  ASSERT_EQ(services.unit_count(t), end - begin);
  EXPECT_EQ(services.unit(t, end - begin), nullptr);
  for (uint32_t u = 0; u < end - begin; ++u) {
    EXPECT_EQ(services.unit(t, u), t->units()[begin + u].get());
    EXPECT_EQ(services.unit_index(services.unit(t, u)), u);
  }
  for (uint32_t p = 0; p < services.param_count(t); ++p) {
    weft_param* const param = services.param(t, p);
    const weft_param_info info = info_of(param);
    SCOPED_TRACE(param->name);
    EXPECT_EQ(info.index, p);
    EXPECT_TRUE(services.param_used_by(param, services.unit(t, info.first_unit)));
    for (uint32_t u = 0; u < info.first_unit; ++u)
      EXPECT_FALSE(services.param_used_by(param, services.unit(t, u)));
    EXPECT_EQ(info.across_stages, param->name == "wte.weight" ? 1u : 0u);
    EXPECT_NE(info.partition_axes >> axis::kStages & 1, 0u);
  }
  uint32_t held = 0;
  for (const auto& param : t->params()) {
    SCOPED_TRACE(param->name);
    const bool here = is_used_in(*param, begin, end);
    held += here;
    EXPECT_EQ(param->here, here);
    EXPECT_EQ(param->bound, here);
    EXPECT_EQ(param->tensor.is_meta(), !here);
    EXPECT_EQ(param->count(), here ? param->tensor.numel() : 0);
  }
  EXPECT_EQ(services.param_count(t), held);
  EXPECT_LT(held, t->params().size());
}

// Notes of which parameters a training reads values.
class NotingSource final : public ParameterSource {
 public:
  bool read(const std::string& name, const Box&, const at::Tensor& destination) override {
    names.insert(name);
    destination.zero_();
    return true;
  }
  std::set<std::string> names;
};

WEFT_RANKS_TEST(HeldStage, ReadsItsParametersAlone, 2) {
  Recorder recorder;
  recorder.describe_mesh = [](weft_mesh* mesh) { mesh->size[axis::kData] = 1; };
  const auto source = std::make_shared<NotingSource>();
  const auto training = make_training(world, make_toy(), recorder, in_stages(2), {}, source);
  std::set<std::string> own;
  for (const weft_param* param : recorder.training->own_params()) own.insert(param->name);
  EXPECT_EQ(source->names, own);
}

WEFT_RANKS_TEST(HeldStage, TakesTheMemoryOfItsParametersAlone, 2) {
  count_memory();
  Recorder recorder;
  const int64_t before = allocated_bytes();
  reset_peak_allocated_bytes();
  const auto training = make_stage(world, 2, recorder, R"("width": 96, "vocab": 64, "blocks": 8)");
  const int64_t peak = peak_allocated_bytes() - before;
  int64_t own = 0, all = 0;  // bytes
  for (const auto& param : recorder.training->params()) {
    own += 4 * param->count();
    all += 4 * elements_of(*param);
  }
  EXPECT_LT(own, all * 2 / 3);
  EXPECT_LT(peak, own + own / 5) << "of " << all << " bytes";
}

WEFT_RANKS_TEST(HeldStage, IsCountedOnceOverAllRanks, 2, 4) {
  Recorder recorder;
  const auto training = make_stage(world, 2, recorder);
  weft_training* const t = recorder.training;
  std::vector<int64_t> own(t->params().size());
  for (const Shard& shard : t->publish(WEFT_REASON_CHECK)) own[shard.param->index] += shard.counted_count;
  const at::Tensor counted = at::tensor(own, at::kLong);
  world.communicator().all_reduce(counted).wait();
  for (const auto& param : t->params())
    EXPECT_EQ(counted[param->index].item<int64_t>(), elements_of(*param)) << param->name;
  t->check_replicas(Bindings::Origin::kBoosted);
  weft_param* const tied = t->find_param("head.weight");
  if (t->mesh().coordinate(axis::kStages) == 1) tied->tensor.detach().add_(1);
  EXPECT_ERROR(t->check_replicas(Bindings::Origin::kTrained), WEFT_INTERNAL, "wte.weight", "same elements");
}

// Every rank multiplies the tied parameter by its own factor, so its own gradient has this value.
void run_backward(Hooks& hooks, weft_param& param, double factor, bool synchronise,
                  const std::function<void()>& send = {}) {
  std::vector<at::Tensor> roots;
  if (factor != 0) roots.push_back((param.tensor * factor).sum());
  const weft_pass pass = param.bindings->pass(WEFT_PASS_TRAINING, 0, 1, synchronise);
  hooks.backward(roots, std::vector<at::Tensor>(roots.size()), pass, hooks.make_record(), send);
}

WEFT_RANKS_TEST(SharedGradients, AreReadyOnceTheSumIsComplete, 2, 4) {
  Recorder recorder;
  const auto training = make_stage(world, 2, recorder);
  weft_training* const t = recorder.training;
  weft_param* const tied = t->find_param("wte.weight");
  recorder.sums = false;
  Hooks hooks(*t);
  const bool first = t->mesh().coordinate(axis::kStages) == 0;
  recorder.events.clear();
  run_backward(hooks, *tied, first ? 1 : 10, false);
  run_backward(hooks, *tied, first ? 2 : 0, false);  // the other stage does not use it
  EXPECT_TRUE(recorder.of("gradient_ready").empty());
  EXPECT_FALSE(tied->tensor.grad().defined());
  recorder.events.clear();
  run_backward(hooks, *tied, first ? 4 : 0, true, [&] { recorder.note("send"); });
  EXPECT_EQ(recorder.events,
            (std::vector<std::string>{"begin_backward 0 of 1 synchronised", "send",
                                      "gradient_ready wte.weight", "end_backward 0 of 1 synchronised"}));
  ASSERT_TRUE(tied->tensor.grad().defined());
  EXPECT_TRUE(tied->tensor.grad().eq(17).all().item<bool>());

  // What the strategy has stays, and the new sum is added to it.
  run_backward(hooks, *tied, first ? 100 : 0, true);
  EXPECT_TRUE(tied->tensor.grad().eq(117).all().item<bool>());
}

WEFT_RANKS_TEST(SharedGradients, AreNotReadyWhereNobodyUsedTheParameter, 2) {
  Recorder recorder;
  const auto training = make_stage(world, 2, recorder);
  Hooks hooks(*recorder.training);
  weft_param* const tied = recorder.training->find_param("wte.weight");
  recorder.events.clear();
  run_backward(hooks, *tied, 0, true);
  EXPECT_TRUE(recorder.of("gradient_ready").empty());
  EXPECT_FALSE(tied->tensor.grad().defined());
}

WEFT_RANKS_TEST(SharedGradients, AreForgottenWithTheOthers, 2) {
  Recorder recorder;
  const auto training = make_stage(world, 2, recorder);
  recorder.sums = false;
  Hooks hooks(*recorder.training);
  weft_param* const tied = recorder.training->find_param("wte.weight");
  run_backward(hooks, *tied, 3, false);
  recorder.training->zero_gradients();
  run_backward(hooks, *tied, 1, true);
  EXPECT_TRUE(tied->tensor.grad().eq(2).all().item<bool>());
}

}  // namespace

}  // namespace weft::test
