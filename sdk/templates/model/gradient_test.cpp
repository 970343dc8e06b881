// Compares each gradient with the slope of the loss: moves a parameter along a random direction d, and checks
// that (loss(w + h d) - loss(w - h d)) / 2h is the product of gradient and d.
//   gradient_test CONFIG DATA
#include <weft/nn/model.hpp>
#include <weft/weft.hpp>

#include <ATen/ops/randn_like.h>

#include <cmath>
#include <cstdio>

namespace {

double loss_of(weft::Job& job, const weft::Batch& batch) {
  return job.evaluate(batch).loss();
}

// Returns how many parameters have a wrong gradient.
int check_gradients(weft::Job& job, const weft::Batch& batch) {
  constexpr double kStep = 1e-5, kTolerance = 1e-6;
  const at::NoGradGuard no_grad;
  int wrong = 0;
  for (const auto& named : job.model.module().named_parameters()) {
    at::Tensor value = named.value().detach();
    const at::Tensor direction = at::randn_like(value);
    const double expected = (named.value().grad() * direction).sum().item<double>();
    value.add_(direction, kStep);
    const double above = loss_of(job, batch);
    value.sub_(direction, 2 * kStep);
    const double below = loss_of(job, batch);
    value.add_(direction, kStep);
    const double slope = (above - below) / (2 * kStep);
    const bool good = std::abs(slope - expected) <= kTolerance * (0.1 + std::abs(expected));
    std::printf("%s %s: gradient %.9g, slope %.9g\n", good ? "right" : "WRONG", named.key().c_str(), expected,
                slope);
    wrong += !good;
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: gradient_test CONFIG DATA\n");
    return 2;
  }
  weft::Booster booster(weft::BoosterOptions::parse(R"({"strategy": "none", "precision": "fp64"})"));
  weft::Model model = weft::Model::open(argv[1], "", booster.precision());
  auto optimizer = weft::optim::SGD(model.parameters());
  auto data = booster.prepare_dataloader(weft::data::text(argv[2], 16), /*batch_size=*/4);
  weft::Job job = booster.boost(model, optimizer, {}, data);
  weft::Batch batch;
  job.data.next(batch);
  job.accumulate_gradients(batch);
  return check_gradients(job, batch) == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gradient_test: %s\n", error.what());
  return 1;
}
