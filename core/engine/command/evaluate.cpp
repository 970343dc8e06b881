// `weft evaluate` and `weft forward`.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <cmath>
#include <cstdio>

#include "base/text.hpp"
#include "checkpoint/format.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"

namespace weft::command {

namespace {

data::Loader sequential_loader(std::shared_ptr<data::Dataset> dataset, int64_t batch_size, const World& world) {
  data::LoaderOptions options;
  options.batch_size = batch_size;
  options.rank = world.rank();
  options.ranks = world.size();
  return data::Loader(std::move(dataset), options);
}

struct Opened {
  World world;
  Job job;
  std::shared_ptr<data::Dataset> dataset;
};

Opened open_job(const json& arguments, const char* data_key, const World& world) {
  const BoosterOptions options = booster_options(arguments, world.size() == 1 ? "none" : "");
  Model model = open_model(arguments, options.precision);
  auto dataset = open_data(arguments, data_key, model);
  Booster booster(options, world);
  return {world, booster.boost(std::move(model)), std::move(dataset)};
}

// The rows of every rank, in order, on the master: ranks hold `rows[r]` each. Collective.
at::Tensor gather_rows(const at::Tensor& mine, bool empty, const World& world) {
  if (world.size() == 1) return mine;
  const Communicator& all = world.communicator();
  const at::Tensor counts = at::empty({world.size()}, at::kLong);
  all.all_gather(counts, at::full({1}, empty ? 0 : mine.size(0), at::kLong), true).wait();
  const int64_t most = counts.max().item<int64_t>();
  std::vector<int64_t> shape = mine.sizes().vec();
  shape[0] = most;
  const at::Tensor padded = at::zeros(shape, mine.options());
  if (!empty) padded.narrow(0, 0, mine.size(0)).copy_(mine);
  shape[0] = most * world.size();
  const at::Tensor gathered = at::empty(shape, mine.options());
  all.all_gather(gathered, padded, true).wait();
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < world.size(); ++rank)
    parts.push_back(gathered.narrow(0, rank * most, counts[rank].item<int64_t>()));
  return at::cat(parts);
}

}  // namespace

int evaluate(const json& arguments) {
  check_device(arguments);
  const World world = launch();
  Opened opened = open_job(arguments, "data", world);
  data::Loader loader = sequential_loader(opened.dataset, integer(arguments, "batch_size", 8), world);
  Evaluation total;
  for (const Batch& batch : loader) total += opened.job.evaluate(batch);
  if (!world.is_master()) return 0;
  const double loss = total.loss();
  if (flag(arguments, "json"))
    std::printf("%s\n", json{{"loss", loss}, {"perplexity", std::exp(loss)}, {"labels", total.labels()},
                             {"samples", opened.dataset->size()}}.dump().c_str());
  else
    std::printf("loss %.4f  perplexity %.3f  (%.0f labels, %lld samples)\n", loss, std::exp(loss), total.labels(),
                static_cast<long long>(opened.dataset->size()));
  return 0;
}

int forward(const json& arguments) {
  check_device(arguments);
  const World world = launch();
  Opened opened = open_job(arguments, "inputs", world);
  const int64_t batch_size = integer(arguments, "batch_size", std::max<int64_t>(opened.dataset->size(), world.size()));
  data::Loader loader = sequential_loader(opened.dataset, batch_size, world);
  std::map<std::string, std::vector<at::Tensor>> parts;
  std::vector<std::string> names;
  Evaluation total;
  bool labelled = true;
  for (const Batch& batch : loader) {
    const State outputs = opened.job.forward(batch);
    for (const auto& [name, tensor] : outputs) {
      if (tensor.dim() == 0) continue;
      if (parts.find(name) == parts.end()) names.push_back(name);
      parts[name].push_back(gather_rows(tensor.contiguous(), batch.empty, world));
    }
    labelled = labelled && !opened.job.model.module().counts(batch).empty();
    if (labelled) total += opened.job.evaluate(batch);
  }
  if (!world.is_master()) return 0;
  std::vector<checkpoint::Entry> entries;
  std::vector<at::Tensor> tensors;
  for (const std::string& name : names) tensors.push_back(at::cat(parts[name]));
  if (labelled) {
    names.push_back("loss");
    tensors.push_back(at::full({}, total.loss(), tensors.front().options()));
  }
  for (size_t i = 0; i < names.size(); ++i) entries.push_back({names[i], tensors[i].scalar_type(), tensors[i].sizes().vec()});
  checkpoint::Writer writer(text(arguments, "output"), {}, entries);
  for (size_t i = 0; i < names.size(); ++i) writer.write(i, 0, tensors[i].view(-1));
  writer.commit();
  return 0;
}

}  // namespace weft::command
