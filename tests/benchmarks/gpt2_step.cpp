// Forward, loss and backward of a GPT-2 on one thread, without a strategy or an optimizer: what the model
// library itself costs. Prints milliseconds of the parts (best and median of the steps).
//   OMP_NUM_THREADS=1 build/release/tests/benchmarks/gpt2_step [steps]
#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gpt2_model.hpp"

namespace {

using Clock = std::chrono::steady_clock;

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
  weft::gpt2::Gpt2Model model(weft::Config::parse(kConfig, "benchmark"),
                              weft::gpt2::find_architecture("GPT2LMHeadModel"), at::kFloat);
  bind_initial(model);
  const at::Tensor ids = at::randint(8192, {kSamples, kPositions}, at::kLong);
  const weft::Batch batch = {{"input_ids", ids}, {"labels", ids}};
  const double count = model.counts(batch).at(0).count;
  std::vector<double> forward, loss, backward, whole;
  double value = 0;
  for (int step = 0; step < steps + 2; ++step) {
    const auto start = Clock::now();
    weft::State state = model.input(batch);
    for (weft::nn::Unit* unit : model.units()) unit->forward(state);
    const auto forwarded = Clock::now();
    const at::Tensor mean = model.loss(state, batch).at(0).sum / count;
    state = {};
    const auto lost = Clock::now();
    mean.backward();
    for (const at::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
    const auto end = Clock::now();
    value = mean.item<double>();
    if (step < 2) continue;
    const auto seconds = [](auto from, auto to) { return std::chrono::duration<double>(to - from).count(); };
    forward.push_back(seconds(start, forwarded));
    loss.push_back(seconds(forwarded, lost));
    backward.push_back(seconds(lost, end));
    whole.push_back(seconds(start, end));
  }
  print("forward", forward);
  print("loss", loss);
  print("backward", backward);
  print("step", whole);
  std::printf("loss %.4f, %.0f tokens/s at best\n", value,
              kSamples * kPositions / *std::min_element(whole.begin(), whole.end()));
}
