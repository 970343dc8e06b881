// Trains a model under a strategy that is named at run time.
//   train_gpt2 MODEL_FOLDER_OR_CONFIG DATA OUT [BOOSTER_OPTIONS_JSON]
//   weft run -n 2 train_gpt2 config.json corpus.txt out '{"strategy": "torch_ddp", "options":
//   {"bucket_cap_mb": 10}}'
#include <weft/weft.hpp>

#include <cstdio>
#include <string>

int main(int argc, char** argv) try {
  if (argc < 4) {
    std::fprintf(stderr, "usage: train_gpt2 MODEL DATA OUT [BOOSTER_OPTIONS_JSON]\n");
    return 2;
  }
  const weft::BoosterOptions options = weft::BoosterOptions::parse(argc > 4 ? argv[4] : "{}");
  weft::World world = weft::launch();  // torchrun, SLURM, Open MPI or weft run; one rank without any

  auto model = weft::Model::open(argv[1]);  // shapes only; boost() allocates the memory
  auto optimizer = weft::optim::AdamW(model.parameters(), {.lr = 1e-3, .weight_decay = 0.1});
  const int64_t total_steps = 30;
  weft::optim::Scheduler schedule(
      optimizer, weft::optim::schedule("cosine_warmup", {.warmup_steps = 5, .total_steps = total_steps}));

  weft::Booster booster(options, world);  // boost() finds, checks and loads the strategy
  auto data = booster.prepare_dataloader(weft::data::text(argv[2], 64), /*batch_size=*/4, /*shuffle=*/true);
  auto job = booster.boost(model, optimizer, {}, data, schedule);  // {}: the model's own loss

  const weft::StopSignals signals(job);  // Ctrl-C, SIGTERM and SIGHUP end the training after the current step
  bool stop = false;
  while (!stop && optimizer.steps() < total_steps)
    for (const weft::Batch& batch : job.data) {
      const weft::StepResult step = job.train_step(batch);  // forward, backward, communication and update
      world.print_on_master("step " + std::to_string(step.index) + " loss " + std::to_string(step.loss));
      stop = step.stop;
      if (stop || optimizer.steps() == total_steps) break;
    }
  booster.save_model(job.model, argv[3], {.shard = true});  // opens in transformers
  return stop ? 128 + signals.agree(world).signal : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "train_gpt2: %s\n", error.what());
  return 1;
}
