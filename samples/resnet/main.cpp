// Trains a ResNet-18 that this program defines itself, on CIFAR-10 or on digits that it draws.
//   weft run -n 2 resnet --data cifar-10-batches-bin --epochs 30 --sync --output trained
#include <weft/data/image_changes.hpp>
#include <weft/torch/dtypes.hpp>
#include <weft/weft.hpp>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "images.hpp"
#include "resnet.hpp"

namespace {

// The options by their names. Those that a run does not give have the values here.
std::map<std::string, std::string> options_of(int argc, char** argv) {
  std::map<std::string, std::string> options = {{"--data", ""},         {"--epochs", "5"}, {"--steps", "0"},
                                                {"--batch-size", "64"}, {"--width", "64"}, {"--lr", "0.1"},
                                                {"--sync", "0"},        {"--output", ""},  {"--resume", ""},
                                                {"--booster", "{}"},    {"--plain", "0"},  {"--stop", "0"}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto known = options.find(name);
    if (known == options.end()) throw weft::Error(WEFT_INVALID_ARGUMENT, name + " is no option");
    if (name == "--sync" || name == "--plain") {
      known->second = "1";
    } else if (++i < argc) {
      known->second = argv[i];
    } else {
      throw weft::Error(WEFT_INVALID_ARGUMENT, name + " has no value");
    }
  }
  return options;
}

// Prints the loss and the accuracy on held-out images.
void evaluate(const weft::World& world, weft::Job& job, weft::data::Loader& held_out) {
  double loss = 0, labels = 0, right = 0;
  held_out.seek({});
  for (const weft::Batch& batch : held_out) {
    const weft::Evaluation evaluation = job.evaluate(batch);
    loss += evaluation.loss() * evaluation.labels();
    labels += evaluation.labels();
    for (const weft::Measure& measure : evaluation.measures())
      if (measure.name == "accuracy") right += measure.value * measure.count;
  }
  char line[80];
  std::snprintf(line, sizeof(line), "held out: loss %.9g accuracy %.4f", loss / labels, right / labels);
  world.print_on_master(line);
}

void train(const std::map<std::string, std::string>& options) {
  const auto text = [&](const char* name) { return options.at(name); };
  const auto number = [&](const char* name) { return std::stoll(options.at(name)); };
  const weft::World world = weft::launch();
  weft::Booster booster(weft::BoosterOptions::parse(text("--booster")), world);
  const std::string folder = text("--data");
  auto images = folder.empty() ? resnet::digits(2000, 1) : resnet::cifar10(folder, true);
  const auto held_out = folder.empty() ? resnet::digits(400, 2) : resnet::cifar10(folder, false);
  // A digit that is mirrored is another one or none.
  if (number("--plain") == 0)
    images = weft::data::with_image_changes(images, {.crop_padding = 4, .random_flip = !folder.empty()});

  const int64_t own = number("--batch-size") / booster.data_size();
  auto loader = booster.prepare_dataloader(images, own, /*shuffle=*/true, /*seed=*/1024, /*drop_last=*/true);
  auto tests = booster.prepare_dataloader(held_out, own);
  const int64_t wanted =
      number("--steps") > 0 ? number("--steps") : number("--epochs") * loader.batches_per_epoch();
  auto model = weft::Model::adopt(
      resnet::make_model({.width = number("--width"), .synchronised = number("--sync") != 0},
                         *weft::dtype_named(booster.precision())));
  auto optimizer = weft::optim::SGD(model.parameters(),
                                    {.lr = std::stod(text("--lr")), .momentum = 0.9, .weight_decay = 5e-4});
  auto schedule = weft::optim::Scheduler(
      optimizer,
      weft::optim::schedule("cosine_warmup", {.warmup_steps = wanted / 20, .total_steps = wanted}));
  weft::Job job = booster.boost(model, optimizer, {}, loader, schedule);
  if (!text("--resume").empty()) booster.load_training(job, text("--resume"));

  const int64_t last = number("--stop") > 0 ? std::min<int64_t>(number("--stop"), wanted) : wanted;
  while (job.optimizer.steps() < last)
    for (const weft::Batch& batch : job.data) {
      const weft::StepResult step = job.train_step(batch);
      char line[80];
      std::snprintf(line, sizeof(line), "step %lld loss %.9g", static_cast<long long>(step.index), step.loss);
      world.print_on_master(line);
      if (step.index >= last) break;
    }
  evaluate(world, job, tests);
  if (!text("--output").empty()) booster.save_training(job, text("--output"));
}

}  // namespace

int main(int argc, char** argv) try {
  train(options_of(argc, argv));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "resnet: %s\n", error.what());
  return 1;
}
