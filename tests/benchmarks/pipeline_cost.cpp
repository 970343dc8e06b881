// Measures the processor time of a pipeline schedule and of a hand-written loop over the same operations. The
// loop runs the units, the loss, the backwards and the messages alone, so the difference is what the engine
// itself costs. Prints a line of JSON per rank.
//   pipeline_cost CONFIG STYLE MICRO_BATCHES STEPS
// It needs at least two ranks, each a stage: of two model chunks if STYLE is interleaved or zbv, of one if it
// is 1f1b or gpipe. A micro-batch is one sequence of 4 tokens. Steps of the schedule and of the loop take
// turns, after both have computed the same norm of the gradients.
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <time.h>
#include <torch/csrc/autograd/autograd.h>
#include <weft/nn/batch_fields.hpp>
#include <weft/nn/token_model.hpp>
#include <weft/weft.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "schedule/schedule.hpp"
#include "training/stages.hpp"

namespace {

using weft::pipeline::Kind;
using weft::pipeline::Operation;
using weft::pipeline::Transfer;

// Returns the processor time of this thread, which runs the schedule and the loop. Gloo has threads of its
// own that poll the network for as long as this one waits.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

weft::Batch random_tokens(const weft::Model& model, int64_t samples) {
  constexpr int64_t kPositions = 4;
  const weft::nn::TokenModel* const tokens = weft::nn::find_token_model(model.module());
  if (tokens == nullptr) throw std::runtime_error(model.architecture() + " does not read tokens alone");
  const int64_t vocabulary = tokens->vocabularies().front().size;
  at::Generator generator = at::detail::createCPUGenerator(/*seed=*/1);
  const at::Tensor ids = at::randint(vocabulary, {samples, kPositions}, generator, at::kLong);
  weft::Batch batch;
  batch.set("input_ids", ids);
  batch.set("labels", ids);
  return batch;
}

std::vector<weft::Batch> single_samples(const weft::Batch& batch) {
  std::vector<weft::Batch> samples(static_cast<size_t>(batch.samples()));
  for (const auto& [name, tensor] : batch)
    for (size_t i = 0; i < samples.size(); ++i)
      samples[i].set(name, tensor.narrow(0, static_cast<int64_t>(i), 1));
  return samples;
}

// The least that runs a schedule: no hooks, no strategy, no checks.
class HandWritten {
 public:
  // Copies the parameters that this rank's units use from `values`, a boosted model of the same class.
  HandWritten(weft::nn::Model& model, const weft::nn::Model& values, weft::World world,
              const weft::PipelineOptions& options, std::vector<weft::Batch> micro)
      : model_(model),
        units_(model.units()),
        world_(std::move(world)),
        micro_(std::move(micro)),
        division_(weft::divide_model(model, options)),
        schedule_(weft::stage_schedule(options, static_cast<int64_t>(micro_.size()))),
        stage_(static_cast<uint32_t>(world_.rank())),
        flights_(micro_.size() * schedule_.chunks),
        turns_(micro_.size() * schedule_.virtual_stages()),
        arriving_(operations().size()) {
    for (const weft::nn::FieldShape& field : model.boundary(micro_.front(), division_.begin(1)))
      if (field.differentiable) shape_ = field.shape;
    double labels = 0;
    for (const weft::Batch& batch : micro_) labels += model.counts(batch).front().count;
    scale_ = 1 / labels;
    copy_parameters(values);
  }

  void run() {
    size_t expected = 0;
    for (size_t place = 0; place < operations().size(); ++place) {
      for (; expected < std::min(place + 2, operations().size()); ++expected) expect(expected);
      const Kind kind = operations()[place].kind;
      // A whole backward takes the place of both halves of a split one.
      if (kind != Kind::weight_gradient) kind == Kind::forward ? forward(place) : backward(place);
    }
    for (weft::Work& work : sent_) work.wait();
    sent_.clear();
  }

  // Returns the norm of the gradients of all ranks. Collective.
  double gradient_norm() const {
    double squares = 0;
    for (const at::Tensor& parameter : parameters_)
      if (parameter.grad().defined())
        squares += parameter.grad().to(at::kDouble).square().sum().item<double>();
    const at::Tensor sum = at::tensor({squares}, at::kDouble);
    if (world_.size() > 1) world_.communicator().all_reduce(sum).wait();
    return std::sqrt(sum.item<double>());
  }
  void zero_gradients() {
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }

 private:
  struct Flight {
    at::Tensor entered, root;  // what backward ends and begins at
  };
  struct Arrival {
    at::Tensor tensor;
    weft::Work work;
  };

  const std::vector<Operation>& operations() const { return schedule_.operations[stage_]; }

  void copy_parameters(const weft::nn::Model& values) {
    const auto known = values.named_parameters();
    for (auto& item : model_.named_parameters()) {
      const at::Tensor* const value = known.find(item.key());
      if (value == nullptr || value->is_meta()) continue;  // of another stage
      at::Tensor parameter = item.value();
      const at::Tensor storage = value->detach().clone();
      parameter.unsafeGetTensorImpl()->shallow_copy_from(storage.variable_data().getIntrusivePtr());
      parameter.set_requires_grad(true);
      parameters_.push_back(parameter);
    }
  }

  void forward(size_t place) {
    const Operation& operation = operations()[place];
    const weft::Batch& batch = micro_[operation.micro_batch];
    const uint32_t own = schedule_.virtual_stage(stage_, operation.chunk);
    Flight& flight = flight_of(operation);
    weft::State state = model_.input(batch);
    if (own > 0) {
      flight.entered = received(place, own - 1);
      flight.entered.set_requires_grad(true);
      state.set(weft::nn::kHidden, flight.entered);
    }
    for (uint32_t unit = division_.begin(own); unit < division_.end(own); ++unit)
      units_[unit]->forward(state);
    if (own + 1 == schedule_.virtual_stages()) {
      flight.root = model_.loss(state, batch).front().sum * scale_;
      loss_ += flight.root.item<double>();
    } else {
      flight.root = state.at(weft::nn::kHidden);
      pass_on(place, own, flight.root.detach());
    }
  }

  void backward(size_t place) {
    const Operation& operation = operations()[place];
    const uint32_t own = schedule_.virtual_stage(stage_, operation.chunk);
    const bool is_last = own + 1 == schedule_.virtual_stages();
    const at::Tensor gradient = is_last ? at::Tensor() : received(place, own);
    const Flight flight = std::exchange(flight_of(operation), Flight());
    torch::autograd::backward({flight.root}, {gradient});
    if (own > 0) pass_on(place, own - 1, flight.entered.grad());
  }

  Flight& flight_of(const Operation& operation) {
    return flights_[operation.micro_batch * schedule_.chunks + operation.chunk];
  }
  // What one chunk of this rank hands over to another at a boundary.
  at::Tensor& turn(const Operation& operation, uint32_t boundary) {
    return turns_[operation.micro_batch * schedule_.virtual_stages() + boundary];
  }

  static uint32_t tag_of(const Transfer& transfer) {
    const uint32_t content = transfer.content == Transfer::Content::gradients ? 1 : 0;
    return (transfer.micro_batch << 8 | transfer.boundary) << 1 | content;
  }
  void expect(size_t place) {
    const auto transfer = receive_of(schedule_, stage_, operations()[place]);
    if (!transfer) return;
    const at::Tensor tensor = at::empty(shape_);
    arriving_[place] = {
        tensor, world_.communicator().recv(tensor, static_cast<int>(transfer->from), tag_of(*transfer))};
  }
  at::Tensor received(size_t place, uint32_t boundary) {
    Arrival arrival = std::exchange(arriving_[place], Arrival());
    if (!arrival.tensor.defined()) return std::exchange(turn(operations()[place], boundary), at::Tensor());
    arrival.work.wait();
    return arrival.tensor;
  }
  void pass_on(size_t place, uint32_t boundary, const at::Tensor& tensor) {
    const auto transfer = send_of(schedule_, stage_, operations()[place]);
    if (!transfer) {
      turn(operations()[place], boundary) = tensor;
      return;
    }
    sent_.push_back(
        world_.communicator().send(tensor.contiguous(), static_cast<int>(transfer->to), tag_of(*transfer)));
  }

  weft::nn::Model& model_;
  const std::vector<weft::nn::Unit*> units_;
  const weft::World world_;
  const std::vector<weft::Batch> micro_;
  const weft::pipeline::StageDivision division_;
  const weft::pipeline::Schedule schedule_;
  const uint32_t stage_;
  std::vector<Flight> flights_;    // by micro-batch and chunk
  std::vector<at::Tensor> turns_;  // by micro-batch and boundary
  std::vector<Arrival> arriving_;  // by operation
  std::vector<weft::Work> sent_;
  std::vector<at::Tensor> parameters_;
  std::vector<int64_t> shape_;
  double scale_ = 0;
  double loss_ = 0;  // read back from each micro-batch, as a training step does
};

void require_equal(double engine, double loop) {
  if (loop > 0 && std::abs(engine - loop) <= 1e-4 * loop) return;
  throw std::runtime_error("the norm of the gradients is " + std::to_string(engine) +
                           " under the schedule, but " + std::to_string(loop) +
                           " in the hand-written loop, so they do not do the same work");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5 || std::stoll(argv[3]) < 1 || std::stoll(argv[4]) < 1) {
    std::fprintf(stderr, "usage: pipeline_cost CONFIG STYLE MICRO_BATCHES STEPS\n");
    return 2;
  }
  const std::string style = argv[2];
  const int64_t count = std::stoll(argv[3]), steps = std::stoll(argv[4]);
  const weft::World world = weft::launch();
  if (world.size() < 2)
    throw std::runtime_error("one rank has no stages; start the program with weft run -n 2");

  const auto size = static_cast<uint32_t>(world.size());
  const uint32_t chunks = style == "interleaved" || style == "zbv" ? 2 : 1;
  const nlohmann::json options = {
      {"strategy", "torch_ddp"},
      {"options", {{"pp_size", size}, {"pp_style", style}, {"microbatch_size", 1}}}};
  const auto model = weft::Model::open(argv[1]);
  weft::Booster booster(weft::BoosterOptions::parse(options.dump()), world);
  weft::Job job = booster.boost(model, weft::optim::AdamW(model.parameters()));
  const weft::Batch batch = random_tokens(model, count);
  const auto run_schedule = [&] {
    booster.execute_pipeline(batch, job.model, {}, job.optimizer, /*return_loss=*/false);
  };
  const auto same = weft::Model::open(argv[1]);
  HandWritten loop(same.module(), job.model.module(), world, {.size = size, .style = style, .chunks = chunks},
                   single_samples(batch));

  run_schedule();
  loop.run();
  const double norm = job.optimizer.clip_grad_by_norm(/*max_norm=*/1e30);
  require_equal(norm, loop.gradient_norm());
  std::vector<double> engine_seconds, loop_seconds;
  for (int64_t step = 0; step < steps; ++step) {
    job.optimizer.zero_grad();
    loop.zero_gradients();
    world.block_all();
    double begin = processor_seconds();
    run_schedule();
    engine_seconds.push_back(processor_seconds() - begin);
    world.block_all();
    begin = processor_seconds();
    loop.run();
    loop_seconds.push_back(processor_seconds() - begin);
  }
  const weft::pipeline::Schedule schedule =
      weft::stage_schedule({.size = size, .style = style, .chunks = chunks}, count);
  const nlohmann::json line = {{"rank", world.rank()},
                               {"operations", schedule.operations[static_cast<size_t>(world.rank())].size()},
                               {"engine_seconds", engine_seconds},
                               {"loop_seconds", loop_seconds}};
  world.block_all();
  std::printf("%s\n", line.dump().c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "pipeline_cost: %s\n", error.what());
  return 1;
}
