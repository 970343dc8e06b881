// Hundreds of chunks in little room: what eviction moves, to the byte, and what deciding it costs.
#include <fmt/format.h>
#include <time.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "plugins/gemini/eviction.hpp"
#include "plugins/gemini/support.hpp"
#include "support/temporary_folder.hpp"

namespace weft::test {

namespace {

using memory::Pool;

// 300 blocks whose chunks take no padding: chunk 0 holds the embedding and the norm of block 0, chunk i the
// linear layer of block i - 1 and the norm of block i.
constexpr int64_t kBlocks = 300, kManyChunks = kBlocks + 1, kElements = 32 * 32 + 3 * 32;
constexpr int64_t kBytes = 4 * kElements;
constexpr const char* kManyToy = R"("gated": false, "blocks": 300, "width": 32, "vocab": 32)";

plugin::gemini::Trace trace() {
  std::vector<plugin::gemini::Chunks> units = {{0}};
  for (size_t i = 1; i <= kBlocks; ++i) units.push_back({i - 1, i});
  units.push_back({0});
  return plugin::gemini::Trace(units, kManyChunks);
}

JobOptions with(const std::string& more) {
  return gemini(R"("chunk_config_dict": {"chunk_size": 1120}, "enable_async_reduce": false, )" + more);
}

// Of this thread, which computes: those of Gloo poll for as long as it waits for another rank.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Measured {
  int64_t gathered = 0, brought = 0;  // bytes of the last step
  double seconds = 0;                 // processor_seconds(), the least of some steps
  std::vector<double> losses;
};

Measured measure(const World& world, const JobOptions& options) {
  Job job = boost(world, toy(options, kManyToy), options, "adamw");
  Measured result;
  result.seconds = 1e9;
  for (int64_t step = 0; step < 4; ++step) {
    const Batch batch = own_part(toy_batch(world.size(), step, false), world);
    const int64_t up = memory::pool_use(Pool::kAccelerator).received;
    const double begin = processor_seconds();
    auto sent = sent_bytes([&] { result.losses.push_back(job.train_step(batch).loss); });
    if (step > 1) result.seconds = std::min(result.seconds, processor_seconds() - begin);
    result.brought = memory::pool_use(Pool::kAccelerator).received - up;
    result.gathered = sent["all_gather"];
  }
  return result;
}

// Writes statistics of a job in which computing takes nothing, so that the room is the share of the limit
// that the test chooses. `measured` is a file that gemini wrote.
void write_without_activations(const std::string& path, const std::string& measured) {
  std::ifstream file(measured);
  nlohmann::json statistics = nlohmann::json::parse(file);
  for (nlohmann::json& bytes : statistics["computing_bytes"]) bytes = 0;
  statistics["most_in_use_bytes"] = 0;
  std::ofstream(path) << statistics.dump();
}

WEFT_RANKS_TEST(ManyChunks, BringWhatLookingAheadBringsToTheByte, 1, 2) {
  const TemporaryFolder own;
  const std::string folder = world.communicator().broadcast_text(own.path(), 0), file = folder + "/none";
  {
    const JobOptions options =
        with(fmt::format(R"("placement_policy": "auto", "memstats": "{}/stats")", folder));
    Job job = boost(world, toy(options, kManyToy), options, "adamw");
    job.train_step(own_part(toy_batch(world.size(), 0, false), world));
  }
  world.communicator().barrier();
  if (world.rank() == 0) write_without_activations(file, folder + "/stats");
  world.communicator().barrier();
  const Measured unlimited = measure(world, with(R"("placement_policy": "auto")"));
  EXPECT_EQ(unlimited.brought, kManyChunks * kBytes / world.size());
  const plugin::gemini::Sizes sizes(kManyChunks, kBytes);
  for (const int64_t room : {3, 150}) {
    SCOPED_TRACE(room);
    const AcceleratorLimit limit(4 * (room + 4) * kBytes);
    const JobOptions options =
        with(fmt::format(R"("placement_policy": "auto", "memstats": "{}", "steady_cuda_cap_ratio": {})", file,
                         static_cast<double>(room) / static_cast<double>(4 * (room + 4)) + 1e-9));
    const Measured evicting = measure(world, options);
    const int64_t moved = plugin::gemini::by_looking_ahead(trace(), sizes, room * kBytes) / 3;
    EXPECT_GT(moved, kManyChunks * kBytes);
    EXPECT_EQ(evicting.brought, moved / world.size());
    EXPECT_EQ(evicting.gathered, moved / world.size() * (world.size() - 1));
    EXPECT_EQ(evicting.losses, unlimited.losses);
    // Each chunk more costs a copy, a gather and a decision among 301 chunks: 2 to 3 times the step.
    EXPECT_LT(evicting.seconds, 6 * unlimited.seconds) << unlimited.seconds;
  }
  world.communicator().barrier();  // the folder goes with rank 0
}

}  // namespace

}  // namespace weft::test
