// Measures time, processor time, memory and traffic of training steps on one fixed batch per rank. Prints a
// line of JSON per rank.
//   training_step MODE CONFIG BATCH SEQUENCE STEPS [BOOSTER_OPTIONS_JSON] [profile]
// MODE booster trains with weft::Booster. MODE loop trains the same model with the same update rule in a
// hand-written libtorch loop on one rank, to measure the cost of Booster itself. `profile` runs two more
// steps under libtorch's profiler, and adds the time of each kernel and, on a device, the pauses between
// them.
#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randint.h>
#include <sys/resource.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <weft/nn/config_values.hpp>
#include <weft/nn/token_model.hpp>
#include <weft/weft.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "device/device.hpp"

namespace {

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_mib(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(key, 0) == 0) return std::stod(line.substr(line.find(':') + 1)) / 1024;
  return 0;
}

// Returns the MiB that the loopback device has received.
double loopback_mib() {
  std::ifstream devices("/proc/net/dev");
  for (std::string line; std::getline(devices, line);)
    if (const size_t name = line.find("lo:");
        name != std::string::npos && line.find_first_not_of(' ') == name)
      return std::stod(line.substr(name + 3)) / (1 << 20);
  return 0;
}

// An interval in which a kernel ran, in ns.
struct Ran {
  int64_t begin, end;
  std::string name;
};

// Returns the seconds in which no kernel ran between the first and the last, and the longest of these pauses:
// each with its seconds, the kernel before it and the one after it.
nlohmann::json pauses_between(std::vector<Ran> kernels) {
  constexpr size_t kLongest = 12;
  std::sort(kernels.begin(), kernels.end(), [](const Ran& a, const Ran& b) { return a.begin < b.begin; });
  std::vector<std::tuple<double, std::string, std::string>> pauses;
  double idle = 0;
  for (size_t i = 1, last = 0; i < kernels.size(); ++i) {
    const double seconds = 1e-9 * static_cast<double>(kernels[i].begin - kernels[last].end);
    if (seconds > 0) {
      idle += seconds;
      pauses.emplace_back(seconds, kernels[last].name, kernels[i].name);
    }
    if (kernels[i].end > kernels[last].end) last = i;
  }
  std::sort(pauses.rbegin(), pauses.rend());
  pauses.resize(std::min(pauses.size(), kLongest));
  return {{"idle_seconds", idle}, {"longest", pauses}};
}

// Runs `work` under libtorch's profiler. Returns for each name how often it ran and its seconds: of kernels
// of the device, or on the CPU of operators, each with those that it calls; and the pauses of the device.
std::pair<nlohmann::json, nlohmann::json> profile(const std::function<void()>& work) {
  namespace profiler = torch::autograd::profiler;
  const bool on_host = weft::device::current().is_host();
  const std::set<torch::profiler::impl::ActivityType> activities = {
      on_host ? torch::profiler::impl::ActivityType::CPU : torch::profiler::impl::ActivityType::CUDA};
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  work();
  weft::device::synchronise();
  const auto result = profiler::disableProfiler();
  std::map<std::string, std::pair<int64_t, double>> kernels;
  std::vector<Ran> in_order;
  for (const profiler::KinetoEvent& event : result->events()) {
    if ((event.deviceType() == weft::device::kHost) != on_host) continue;
    auto& [count, seconds] = kernels[event.name()];
    ++count;
    seconds += 1e-9 * static_cast<double>(event.durationNs());
    const auto begin = static_cast<int64_t>(event.startNs());
    in_order.push_back({begin, begin + static_cast<int64_t>(event.durationNs()), event.name()});
  }
  nlohmann::json list = nlohmann::json::object();
  for (const auto& [name, measured] : kernels) list[name] = {measured.first, measured.second};
  return {list, on_host ? nlohmann::json() : pauses_between(std::move(in_order))};
}

// Returns labels of every seventh token alone, about as many as masked language models learn from.
at::Tensor masked_labels(const at::Tensor& ids) {
  constexpr int64_t kEvery = 7;
  at::Tensor labels = at::full_like(ids, -100);
  labels.slice(-1, 0, ids.size(-1), kEvery).copy_(ids.slice(-1, 0, ids.size(-1), kEvery));
  return labels;
}

// Random inputs and labels. A model whose inputs are tokens has them as labels too, or every seventh if it
// learns from masked tokens; one that decodes tokens from other inputs has tokens as labels, from which it
// makes the inputs of its decoder; a classifier has classes. `length` is a number of tokens; pixels and
// spectra have the size of the configuration.
weft::Batch fixed_batch(const weft::Model& model, int64_t size, int64_t length, int64_t rank) {
  at::Generator generator = at::detail::createCPUGenerator(1 + static_cast<uint64_t>(rank));
  const weft::Batch example = model.module().example(size, length).value();
  const auto integers = [&](int64_t count, at::IntArrayRef shape) {
    return at::randint(0, count, shape, generator, at::kLong);
  };
  weft::Batch batch;
  for (const auto& [name, values] : example)
    if (values.is_floating_point()) batch.set(name, at::randn(values.sizes(), generator));
  const weft::Config& config = model.module().config();
  const weft::nn::TokenModel* tokens = weft::nn::find_token_model(model.module());
  const int64_t vocabulary =
      tokens != nullptr ? tokens->vocabularies().front().size : config.integer("vocab_size", 0);
  if (const at::Tensor* ids = example.find("input_ids")) {
    batch.set("input_ids", integers(vocabulary, ids->sizes()));
    const std::vector<weft::nn::Objective> objectives = model.module().objectives();
    const bool masked =
        !objectives.empty() && objectives.front().kind == weft::nn::Objective::Kind::kMaskedLm;
    batch.set("labels", masked ? masked_labels(batch.at("input_ids")) : batch.at("input_ids"));
  } else if (const at::Tensor* decoded = example.find("decoder_input_ids")) {
    batch.set("labels", integers(vocabulary, decoded->sizes()));
  } else {
    batch.set("labels", integers(weft::nn::read_labels(config).count, {size}));
  }
  return batch;
}

// A hand-written training step: storage for the parameters, forward, loss, backward, fused AdamW.
class HandWritten {
 public:
  explicit HandWritten(weft::nn::Model& model) : model_(model) {
    for (at::Tensor& parameter : model.parameters()) {
      if (parameter.device() != at::kMeta) continue;
      const at::Tensor storage = at::randn(parameter.sizes()) * 0.02;
      parameter.unsafeGetTensorImpl()->shallow_copy_from(storage.variable_data().getIntrusivePtr());
      parameter.set_requires_grad(true);
      parameters_.push_back(parameter);
      first_.push_back(at::zeros_like(storage));
      second_.push_back(at::zeros_like(storage));
      steps_.push_back(at::zeros({}));
    }
  }
  double step(const weft::Batch& batch) {
    weft::State state = model_.input(batch);
    for (weft::nn::Unit* unit : model_.units()) unit->forward(state);
    const at::Tensor loss = model_.loss(state, batch).front().sum / model_.counts(batch).front().count;
    state = weft::State();
    torch::autograd::backward({loss}, {at::Tensor()});
    at::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    for (at::Tensor& count : steps_) count += 1;
    at::_fused_adamw_(parameters_, gradients, first_, second_, {}, steps_, 1e-3, 0.9, 0.999, 0.01, 1e-8,
                      false, false);
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
    return loss.item<double>();
  }

 private:
  weft::nn::Model& model_;
  std::vector<at::Tensor> parameters_, first_, second_, steps_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 6) {
    std::fprintf(stderr,
                 "usage: training_step booster|loop CONFIG BATCH SEQUENCE STEPS [BOOSTER_OPTIONS_JSON] "
                 "[profile]\n");
    return 2;
  }
  const std::string mode = argv[1];
  const int64_t size = std::stoll(argv[3]), length = std::stoll(argv[4]), steps = std::stoll(argv[5]);
  const weft::World world = weft::launch();
  at::randint(0, 2, {1}).add_(1);  // initializes libtorch
  const double before = resident_mib("VmRSS");

  const auto options = weft::BoosterOptions::parse(argc > 6 ? argv[6] : R"({"strategy": "none"})");
  auto model = weft::Model::open(argv[2], "", options.precision.empty() ? "fp32" : options.precision);
  weft::Batch batch;
  int64_t data_size = 1;
  std::function<double()> step;
  if (mode == "booster") {
    auto optimizer = weft::optim::AdamW(model.parameters(), {.lr = 1e-3, .weight_decay = 0.01});
    weft::Booster booster(options, world);
    batch = fixed_batch(model, size, length, booster.data_rank());
    data_size = booster.data_size();
    auto job = std::make_shared<weft::Job>(booster.boost(model, optimizer));
    step = [job, &batch] { return job->train_step(batch).loss; };
  } else {
    batch = fixed_batch(model, size, length, 0);
    auto loop = std::make_shared<HandWritten>(model.module());
    model.train();
    step = [loop, &batch] { return loop->step(batch); };
  }

  constexpr int64_t kWarmUp = 2;
  std::vector<double> seconds, processor;
  double loss = 0, received = 0;
  for (int64_t i = 0; i < steps; ++i) {
    if (i == kWarmUp) {
      world.block_all();
      received = loopback_mib();
    }
    const auto start = std::chrono::steady_clock::now();
    const double used = processor_seconds();
    loss = step();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    processor.push_back(processor_seconds() - used);
  }
  world.block_all();
  const weft::device::MemoryUse memory = weft::device::memory_use();
  nlohmann::json kernels, pauses;
  if (argc > 7 && std::string(argv[7]) == "profile")
    std::tie(kernels, pauses) = profile([&] {
      step();
      step();
    });
  nlohmann::json line = {{"rank", world.rank()},
                         {"world", world.size()},
                         {"tokens", size * length * data_size},
                         {"seconds", seconds},
                         {"processor_seconds", processor},
                         {"loss", loss},
                         {"resident_mib_before", before},
                         {"resident_mib_peak", resident_mib("VmHWM")},
                         {"loopback_mib", loopback_mib() - received},
                         {"device_mib_peak", static_cast<double>(memory.peak) / (1 << 20)},
                         {"communicated_bytes", weft::communicated_bytes()}};
  if (!kernels.is_null()) line["kernels"] = kernels;
  if (!pauses.is_null()) line["pauses"] = pauses;
  std::printf("%s\n", line.dump().c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "training_step: %s\n", error.what());
  return 1;
}
