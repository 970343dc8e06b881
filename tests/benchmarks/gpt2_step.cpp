// Forward, loss and backward of a GPT-2 on one thread, without a strategy or an optimizer: what the model
// library itself costs. Prints milliseconds of the parts (best and median of the steps).
//   OMP_NUM_THREADS=1 build/release/tests/benchmarks/gpt2_step [steps]
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "gpt2_model.hpp"

namespace {

// Of this thread: on a busy machine, waiting for a core is no part of the work.
double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The work of the peers that Weft is held against.
constexpr const char* kConfig =
    R"({"vocab_size": 8192, "n_positions": 256, "n_embd": 384, "n_head": 6, "n_layer": 6, "embd_pdrop": 0, "attn_pdrop": 0,
        "resid_pdrop": 0})";
constexpr int64_t kSamples = 4, kPositions = 256;

void bind_initial(weft::nn::Model& model) {
  at::manual_seed(1);
  for (auto& item : model.named_parameters()) {
    if (!item.value().is_meta()) continue;  // the second name of a tied one
    const weft::nn::Initial initial = model.initial(item.key());
    const at::Tensor value = initial.kind == weft::nn::Initial::Kind::kNormal
                                 ? at::randn(item.value().sizes()) * initial.second
                                 : at::full(item.value().sizes(), initial.first);
    item.value().unsafeGetTensorImpl()->shallow_copy_from(value.variable_data().getIntrusivePtr());
    item.value().set_requires_grad(true);
  }
}

void print(const char* name, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  std::printf("%-10s best %7.1f ms  median %7.1f ms\n", name, 1e3 * seconds.front(),
              1e3 * seconds[seconds.size() / 2]);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 10;
  const auto made =
      weft::gpt2::make_model(weft::Config::parse(kConfig, "benchmark"), "GPT2LMHeadModel", at::kFloat);
  weft::nn::Model& model = *made;
  bind_initial(model);
  const at::Tensor ids = at::randint(8192, {kSamples, kPositions}, at::kLong);
  const weft::Batch batch = {{"input_ids", ids}, {"labels", ids}};
  const double count = model.counts(batch).at(0).count;
  std::vector<double> forward, loss, backward, whole;
  double value = 0;
  for (int step = 0; step < steps + 2; ++step) {
    const double start = cpu_seconds();
    weft::State state = model.input(batch);
    for (weft::nn::Unit* unit : model.units()) unit->forward(state);
    const double forwarded = cpu_seconds();
    const at::Tensor mean = model.loss(state, batch).at(0).sum / count;
    state = {};
    const double lost = cpu_seconds();
    mean.backward();
    for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
    const double end = cpu_seconds();
    value = mean.item<double>();
    if (step < 2) continue;
    forward.push_back(forwarded - start);
    loss.push_back(lost - forwarded);
    backward.push_back(end - lost);
    whole.push_back(end - start);
  }
  print("forward", forward);
  print("loss", loss);
  print("backward", backward);
  print("step", whole);
  std::printf("loss %.4f, %.0f tokens per second of CPU time at best\n", value,
              kSamples * kPositions / *std::min_element(whole.begin(), whole.end()));
}
