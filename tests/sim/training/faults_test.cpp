// Mistakes that a device would punish, planted in training: each is found.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "device/random.hpp"
#include "device/tensors.hpp"
#include "plugins/support/parity.hpp"
#include "sim/sim_test.hpp"
#include "sim/training/sim_ranks.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"
#include "support/slice.hpp"
#include "train/training/boosted.hpp"

namespace weft::test {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using testing::PrintToString;

// A work for which nobody waits, though everybody believes to have done so.
class Unwaited final : public c10d::Work {
 public:
  explicit Unwaited(WorkPtr work) : work_(std::move(work)) {}
  bool wait(std::chrono::milliseconds) override { return true; }
  void synchronize() override {}

 private:
  const WorkPtr work_;
};

// Orders nothing behind the messages of a collective.
class Forgetful final : public c10d::Backend {
 public:
  explicit Forgetful(c10::intrusive_ptr<Backend> backend)
      : Backend(backend->getRank(), backend->getSize()), backend_(std::move(backend)) {}
  const std::string getBackendName() const override { return "forgetful"; }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override { backend_->startCoalescing(); }
  WorkPtr endCoalescing() override {
    works_.push_back(backend_->endCoalescing());  // its tensors live until the end
    return c10::make_intrusive<Unwaited>(works_.back());
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return backend_->allreduce(tensors, options);
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return backend_->broadcast(tensors, options);
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override { return backend_->send(tensors, to, tag); }
  WorkPtr recv(Tensors& tensors, int from, int tag) override { return backend_->recv(tensors, from, tag); }

 private:
  const c10::intrusive_ptr<Backend> backend_;
  std::vector<WorkPtr> works_;
};

const device::Kind kForgetful = [] {
  device::Kind kind = kSim;
  kind.make_backend = [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                         std::chrono::milliseconds timeout,
                         const c10::intrusive_ptr<c10d::Backend>& host) -> c10::intrusive_ptr<c10d::Backend> {
    return c10::make_intrusive<Forgetful>(kSim.make_backend(store, rank, size, timeout, host));
  };
  return kind;
}();

std::vector<std::string> reports_of_training(const World& world, const device::Kind& kind) {
  const OnSim sim(world, kind);
  const JobOptions options = {.strategy = "torch_fsdp"};
  Job job = boost(world, toy(options), options);
  job.train_step(toy_batch(2, 1));
  sim::synchronise(sim.index());
  return sim::take_reports();
}

// Trains on two ranks until rank 1 leaves in the backward of the third step, killed or without end, and
// expects that rank 0 is told when it waits for the device.
void expect_told_of_a_peer(const JobOptions& options, bool hangs) {
  const auto outcomes = run_ranks(
      2,
      [&](int rank) {
        World world = launch(std::chrono::seconds(hangs ? 8 : 30));
        sim::install();
        sim::fail_silently();
        const OnSim sim(world);
        Job job = boost(world, toy(options), options);
        const Batch batch = own_part(toy_batch(2, 1), job);
        for (int step = 0; step < 2; ++step) job.train_step(batch);
        const std::string other = world.communicator().broadcast_text(std::to_string(getpid()), 1);
        const auto leave = [&](const at::Tensor&) { hangs ? (void)pause() : (void)raise(SIGKILL); };
        const std::vector<at::Tensor> parameters = job.model.module().parameters();
        const bool staged = options.strategy == "hybrid_parallel";  // the first half is not on rank 1
        if (rank == 1)
          parameters[staged ? parameters.size() - 1 : parameters.size() / 2].register_hook(leave);
        try {
          job.train_step(batch);
          ADD_FAILURE() << "nobody was told";
        } catch (const Error& error) {
          EXPECT_EQ(error.status(), WEFT_UNAVAILABLE) << error.what();
          EXPECT_FALSE(sim::failure().empty());
          EXPECT_THAT(std::string(error.what()),
                      testing::ContainsRegex("communicator \".*\": rank 0 of 2: [a-z]"));
        }
        if (hangs) kill(std::stoi(other), SIGKILL);
        sim::take_reports();
      },
      {.timeout = std::chrono::seconds(120)});
  EXPECT_TRUE(outcomes[0].passed) << outcomes[0].how << outcomes[0].output;
}

TEST(SimFaults, APeerThatDiesOrHangsIsAnErrorThatNamesTheCollective) {
  const std::vector<JobOptions> jobs = {
      {.strategy = "torch_ddp"},
      {.strategy = "torch_fsdp"},
      {.strategy = "torch_fsdp", .options = R"({"cpu_offload": true})"},
      {.strategy = "low_level_zero", .options = R"({"stage": 2})"},
      {.strategy = "gemini"},
      {.strategy = "hybrid_parallel", .options = R"({"pp_size": 2, "num_microbatches": 2})"}};
  for (const JobOptions& options : slice("SimFaults peers", jobs, 2))
    for (const bool hangs : {false, true}) {
      SCOPED_TRACE(options.strategy + options.options + (hangs ? " hangs" : " dies"));
      expect_told_of_a_peer(options, hangs);
    }
}

TEST(SimFaults, AMissingEventBetweenAGatherAndItsUseIsReported) {
  on_sim_ranks(2, [](World& world) {
    const std::vector<std::string> lines = reports_of_training(world, kForgetful);
    const auto tells = [](const std::string& line) {
      return line.find("without waiting for receive from rank 1") != std::string::npos ||
             line.find("without waiting for receive from rank 0") != std::string::npos;
    };
    EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), tells)) << PrintToString(lines);
  });
  on_sim_ranks(2,
               [](World& world) { EXPECT_EQ(reports_of_training(world, kSim), std::vector<std::string>()); });
}

// Trains with a criterion that makes the mistake.
void train_with(const World& world, const Criterion& mistaken) {
  const OnSim sim(world);
  const JobOptions options = {.strategy = "none"};
  Job job = boost(world, toy(options), options);
  job.criterion = mistaken;
  job.train_step(toy_batch(2, 1));
}

TEST(SimFaults, AHostThatReadsTheDeviceEndsTheProcessWithTheOperatorsName) {
  const auto train = [](bool reads) {
    return run_ranks(1,
                     [reads](int) {
                       sim::install();
                       train_with(one_rank(), [reads](const State& outputs, const Batch&) {
                         const at::Tensor& logits = outputs.at("logits");
                         const auto* const first =
                             static_cast<const volatile float*>(logits.const_data_ptr());
                         return logits.sum() * (reads ? *first : 1);
                       });
                     })
        .front();
  };
  EXPECT_TRUE(train(false).passed);
  const RankOutcome outcome = train(true);
  EXPECT_FALSE(outcome.passed);
  EXPECT_NE(outcome.how.find("signal 11"), std::string::npos) << outcome.how;
  EXPECT_NE(outcome.output.find("the host reads memory of a device: byte 0 of"), std::string::npos)
      << outcome.output;
}

TEST(SimFaults, AReductionOnAFreedBufferIsAnError) {
  on_sim_ranks(2, [](World& world) {
    const OnSim sim(world);
    const at::Tensor sum = at::ones({64}, device::current().options(at::kFloat));
    device::resize_storage(sum, 0);
    EXPECT_ERROR(world.communicator().subset({0, 1}).all_reduce(sum), WEFT_UNAVAILABLE, "all_reduce",
                 "was freed");
  });
}

TEST(SimFaults, ABufferThatIsFreedWhileItIsReducedIsReported) {
  on_sim_ranks(2, [](World& world) {
    const OnSim sim(world);
    const at::Tensor sum = at::ones({64}, device::current().options(at::kFloat));
    Work work = world.communicator().all_reduce(sum);
    device::resize_storage(sum, 0);
    work.wait();
    const std::vector<std::string> lines = sim::take_reports();
    ASSERT_EQ(lines.size(), 1u) << PrintToString(lines);
    EXPECT_NE(lines[0].find("is freed on"), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find("while all_reduce"), std::string::npos) << lines[0];
  });
}

TEST(SimFaults, AGeneratorOfTheWrongDeviceIsAnError) {
  on_sim_ranks(1, [](World& world) {
    const auto draw = [&](const at::Generator& generator) {
      train_with(world, [&](const State& outputs, const Batch&) {
        at::Tensor mask = at::empty_like(outputs.at("logits").detach());
        mask.bernoulli_(0.5, generator);
        return (outputs.at("logits") * mask).sum();
      });
    };
    sim::expect_throw("the generator is of cpu, must be of sim:", [&] { draw(device::host_generator(1)); });
    const at::Generator other = at::globalContext().defaultGenerator(sim::device(0));
    sim::expect_throw("the generator is of sim:0, must be of sim:", [&] { draw(other); });
  });
}

}  // namespace

}  // namespace weft::test
