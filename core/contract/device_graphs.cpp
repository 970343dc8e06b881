// Rules of devices: captured work.
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include "base/text.hpp"
#include "contract/device_rules.hpp"
#include "contract/tensors.hpp"
#include "device/graph.hpp"
#include "device/random.hpp"
#include "device/stream.hpp"
#include "device/tensors.hpp"

namespace weft::contract {

namespace {

constexpr const char* kValues = "a replay computes what eager work computes";

void check_replays(device::GraphCapturer& capturer, Findings& findings) {
  const at::Tensor host = host_values({64}), x = there(host);
  at::Tensor twice;
  const auto graph = device::capture(capturer, [&] {
    twice = x * 2;
    x.copy_(twice + 1);
  });
  findings.look("what is captured does not run", exact_difference(x, host));
  at::Tensor expected = host;
  for (const char* const when : {"the first replay", "the second replay", "the third replay"}) {
    graph->replay();
    const at::Tensor before = expected;
    expected = before * 2 + 1;
    findings.look(kValues, within(when, exact_difference(x, expected)));
    findings.look(kValues,
                  within(fmt::format("{}, memory of the graph", when), exact_difference(twice, before * 2)));
  }
  const at::Tensor others = host_values({64}, at::kFloat, 2);
  x.copy_(others);
  graph->replay();
  findings.look("a replay reads the values that its inputs have then", exact_difference(x, others * 2 + 1));
}

// Two graphs of one step share a memory pool: what one computed is used before the next one is replayed.
void check_two(device::GraphCapturer& capturer, Findings& findings) {
  const at::Tensor x = at::ones({1000}, on_it()), sum = at::zeros({1000}, on_it());
  at::Tensor between;
  const auto first = device::capture(capturer, [&] { between = x * 3; });
  const auto second = device::capture(capturer, [&] {
    const at::Tensor more = between + 1;
    sum.add_(more);
  });
  for (int round = 1; round < 4; ++round) {
    first->replay();
    second->replay();
    x.add_(1);
    const double expected[] = {0, 4, 11, 21};  // 3 x + 1 for x = 1, 2, 3
    findings.look("graphs that are replayed in the order of their captures work together",
                  exact_difference(sum, at::full({1000}, expected[round])));
  }
}

// Forward and backward, which runs in threads of autograd.
void check_backward(device::GraphCapturer& capturer, Findings& findings) {
  const at::Tensor host_x = host_values({8, 16}), host_w = host_values({16, 4}, at::kFloat, 2);
  const auto loss_of = [](const at::Tensor& x, const at::Tensor& w) {
    return at::matmul(x, w).tanh().square().sum();
  };
  const auto prepared = [](const at::Tensor& tensor) {
    at::Tensor leaf = tensor.detach().requires_grad_(true);
    leaf.mutable_grad() = at::zeros_like(tensor);
    return leaf;
  };
  const at::Tensor w = prepared(there(host_w)), x = there(host_x);
  loss_of(x, w).backward();  // eagerly, as the engine does: libraries get their workspace
  at::Tensor loss;
  const auto graph = device::capture(capturer, [&] {
    w.mutable_grad().zero_();
    loss = loss_of(x, w);
    loss.backward();
  });
  for (const uint64_t seed : {3, 4}) {
    const at::Tensor given = host_values({8, 16}, at::kFloat, seed);
    x.copy_(given);
    graph->replay();
    const at::Tensor right = prepared(host_w.to(at::kDouble)),
                     right_loss = loss_of(given.to(at::kDouble), right);
    right_loss.backward();
    findings.look("a replay of forward and backward has the gradients of eager work",
                  difference("the gradient", device::on_host(w.grad()).to(at::kDouble), right.grad(), 1e-4));
    findings.look("a replay of forward and backward has the gradients of eager work",
                  difference("the loss", device::value_of<double>(loss.detach()),
                             device::value_of<double>(right_loss.detach()), 1e-4));
  }
}

void check_draws(device::GraphCapturer& capturer, Findings& findings) {
  const at::Tensor drawn = at::zeros({256}, on_it());
  device::seed_random(4);
  const auto graph = device::capture(capturer, [&] { drawn.copy_(at::rand({256}, on_it())); });
  graph->replay();
  const at::Tensor first = drawn.clone();
  graph->replay();
  findings.look("each replay draws other random numbers",
                exact_difference(first, drawn).empty() ? "two replays drew the same" : "");
}

}  // namespace

void check_graphs(const World&, Findings& findings) {
  if (device::current().kind().make_graph_capturer == nullptr)
    return findings.note("graphs", "not offered: --enable-cuda-graph is refused");
  const auto capturer = device::make_graph_capturer();
  const device::OnStream side(device::Stream::make());
  check_replays(*capturer, findings);
  check_two(*capturer, findings);
  check_backward(*capturer, findings);
  check_draws(*capturer, findings);
}

}  // namespace weft::contract
