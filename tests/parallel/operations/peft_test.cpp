// PEFT opens an adapter that was trained on two tensor-parallel ranks.
#include <cstdlib>
#include <filesystem>

#include "parallel/operations/libraries.hpp"
#include "support/oracle_python.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

void save_numbers(const TemporaryFolder& folder, const char* name, const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kFloat).contiguous();
  folder.file(name, {static_cast<const char*>(values.const_data_ptr()), values.nbytes()});
}

// Saves the base model, trains the adapter for some steps and saves it, and saves the logits of both for the
// same ids.
void train_and_save(World& world, const TemporaryFolder& folder, const std::string& operation) {
  BoosterOptions options;
  options.strategy = "hybrid_parallel";
  options.options = R"({"tp_size": 2, "parallel_output": false})";
  Booster booster(options, world);
  const Trial trial = gpt2_trial("GPT2LMHeadModel", "fp32");
  const Batch ids = {{"input_ids", trial.batch(0).at("input_ids")}};
  {
    const Job base = booster.boost(trial.model({}));
    booster.save_model(base.model, folder.path() + "/base");
  }
  Model model = Model::open(folder.path() + "/base");
  model.adapt(low_rank(kGpt2Layers, 3, operation));
  Job job = booster.boost(model, optim::AdamW(model.parameters(), {.lr = 1e-2}));
  const at::Tensor before = job.forward(ids).at("logits");
  for (int64_t step = 0; step < 5; ++step) job.train_step(trial.batch(step));
  booster.save_training(job, folder.path() + "/adapted");
  const at::Tensor after = job.forward(ids).at("logits");
  EXPECT_GT((after - before).abs().max().item<double>(), 1e-2);
  Model again = Model::open(folder.path() + "/base");
  again.adapt(low_rank(kGpt2Layers, 3, operation));
  Job resumed = booster.boost(again, optim::AdamW(again.parameters(), {.lr = 1e-2}));
  booster.load_training(resumed, folder.path() + "/adapted");
  EXPECT_TRUE(resumed.forward(ids).at("logits").equal(after));
  if (!world.is_master()) return;
  save_numbers(folder, "ids.bin", ids.begin()->second);
  save_numbers(folder, "before.bin", before);
  save_numbers(folder, "after.bin", after);
}

void expect_peft_reads(const std::string& operation) {
  const TemporaryFolder folder;
  on_ranks({2}, [&](World& world) { train_and_save(world, folder, operation); });
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors", "model.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(folder.path() + "/adapted/" + file)) << file;
  WEFT_NEEDS_ORACLE();
  const std::string command = oracle_python() + " " + WEFT_PEFT_SCRIPT + " " + folder.path();
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

TEST(Adapter, IsSavedAsPeftReadsIt) {
  expect_peft_reads("sample.low_rank/1");
}

TEST(StableAdapter, IsSavedAsPeftReadsIt) {
  expect_peft_reads("sample.low_rank_stable/1");
}

TEST(DoraAdapter, IsSavedAsPeftReadsIt) {
  expect_peft_reads("test.dora/1");
}

}  // namespace

}  // namespace weft::test
