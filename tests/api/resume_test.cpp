// A run that is saved and resumed in new processes equals an uninterrupted run bit for bit.
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <map>

#include "api/job.hpp"
#include "files/parts.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 8, kInterruptedAt = 4;

// 17 samples are batches of 8, 8 and 1; on two ranks, one rank runs a stand-in in the last batch.
class Resume : public testing::Test {
 protected:
  Resume() {
    options_.model = folder_.file("config.json", config_json({.dropout = 0.1}));
    options_.data = folder_.file("data.txt", sample_text(17 * 32 + 3));
    options_.accumulate = 2;
    options_.max_grad_norm = 0.5;
  }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  // In new processes, resumes `from` unless it is empty, trains, saves `to`, and writes the losses to the
  // file `to`.losses.
  void run(int ranks, int64_t steps, const std::string& from, const std::string& to) const {
    on_ranks({ranks}, [&](World& world) {
      Booster booster({}, world);
      Job job = make_job(world, options_);
      if (!from.empty()) booster.load_training(job, in(from));
      const std::vector<double> losses = train(job, steps);
      booster.save_training(job, in(to));
      if (world.is_master()) std::ofstream(in(to) + ".losses") << nlohmann::json(losses).dump();
    });
  }
  std::vector<double> losses(const std::string& name) const {
    return nlohmann::json::parse(read_bytes(in(name) + ".losses"));
  }

  void expect_same_state(const std::string& one, const std::string& other) const {
    for (const char* file : {"model.safetensors", "training_state/index.json",
                             "training_state/part-00000.safetensors", "training_state/random.safetensors"})
      EXPECT_TRUE(read_bytes(in(one) + "/" + file) == read_bytes(in(other) + "/" + file)) << file;
  }

  TemporaryFolder folder_;
  JobOptions options_;
};

void expect_exact_resume(int ranks, const std::vector<double>& whole, const std::vector<double>& begin,
                         const std::vector<double>& rest) {
  std::vector<double> resumed = begin;
  resumed.insert(resumed.end(), rest.begin(), rest.end());
  EXPECT_EQ(resumed, whole) << ranks << " ranks";
}

TEST_F(Resume, IsBitwiseExact) {
  for (const int ranks : {1, 2}) {
    run(ranks, kSteps, "", "whole");
    run(ranks, kInterruptedAt, "", "begin");
    run(ranks, kSteps - kInterruptedAt, "begin", "rest");
    expect_exact_resume(ranks, losses("whole"), losses("begin"), losses("rest"));
    expect_same_state("whole", "rest");
  }
}

// Also the bits of a training that is not: on the CPU the option only refuses operations.
TEST_F(Resume, IsBitwiseExactWhenDeterministic) {
  for (const int ranks : {1, 2}) {
    options_.deterministic = false;
    run(ranks, kSteps, "", "usual");
    options_.deterministic = true;
    run(ranks, kSteps, "", "whole");
    run(ranks, kSteps, "", "twice");
    run(ranks, kInterruptedAt, "", "begin");
    run(ranks, kSteps - kInterruptedAt, "begin", "rest");
    expect_exact_resume(ranks, losses("whole"), losses("begin"), losses("rest"));
    for (const char* other : {"rest", "twice", "usual"}) expect_same_state("whole", other);
  }
}

TEST_F(Resume, IsExactAtTheEndOfAnEpochWithoutAStrategyAndWithSgd) {
  options_.strategy = "none";
  options_.optimizer = "sgd";
  options_.hyper = {{"momentum", 0.9}, {"lr", 0.1}};
  run(1, 6, "", "whole");
  run(1, 3, "", "begin");
  run(1, 3, "begin", "rest");
  expect_exact_resume(1, losses("whole"), losses("begin"), losses("rest"));
  expect_same_state("whole", "rest");
}

TEST_F(Resume, IsExactWithStatesOfRowsAndColumnsAndAScheduleThatFollowsTheLoss) {
  options_.optimizer = "came";
  options_.hyper = {{"lr", 1e-3}};
  options_.schedule = "plateau_warmup";
  run(2, 6, "", "whole");
  run(2, 3, "", "begin");
  run(2, 3, "begin", "rest");
  expect_exact_resume(2, losses("whole"), losses("begin"), losses("rest"));
  expect_same_state("whole", "rest");
}

TEST_F(Resume, WorksOnAnotherNumberOfRanks) {
  options_.model = folder_.file("config.json", config_json());  // dropout draws by rank
  run(2, kSteps, "", "whole");
  run(2, kInterruptedAt, "", "begin");
  run(1, kSteps - kInterruptedAt, "begin", "rest");
  const std::vector<double> whole = losses("whole"), rest = losses("rest");
  for (size_t i = 0; i < rest.size(); ++i) EXPECT_NEAR(rest[i], whole[kInterruptedAt + i], 1e-5);
}

TEST_F(Resume, WorksInAnotherPrecision) {
  run(1, kSteps, "", "whole");
  run(1, kInterruptedAt, "", "begin");
  options_.precision = "fp64";
  options_.model = folder_.file("config.json", config_json());
  run(1, kSteps - kInterruptedAt, "begin", "rest");
  EXPECT_EQ(losses("rest").size(), losses("whole").size() - kInterruptedAt);
}

// The errors of a job that loads a state of a different job.
class ResumeRefusal : public Resume {
 protected:
  void SetUp() override { run(1, 3, "", "saved"); }
  // Expects that `changed` cannot resume the state and that its job is not modified.
  void expect_refusal(const JobOptions& changed, weft_status status,
                      std::initializer_list<std::string> pieces) const {
    on_ranks({1}, [&](World& world) {
      Booster booster({}, world);
      Job job = make_job(world, changed);
      EXPECT_TRUE(throws_error([&] { booster.load_training(job, in("saved")); }, status, pieces));
      if (job.data) EXPECT_EQ(job.data.position().batch, 0);
      if (job.optimizer) EXPECT_EQ(job.optimizer.steps(), 0);
    });
  }
  template <class Change>
  void expect_refusal_with(const Change& change, std::initializer_list<std::string> pieces) const {
    JobOptions changed = options_;
    change(changed);
    expect_refusal(changed, WEFT_INVALID_ARGUMENT, pieces);
  }
  void rewrite_state(const std::string& key, const nlohmann::json& value) const {
    const std::string path = in("saved") + "/training_state/state.json";
    nlohmann::json state = nlohmann::json::parse(read_bytes(path));
    state[key] = value;
    std::ofstream(path) << state.dump();
  }
};

TEST_F(ResumeRefusal, NamesAnotherOptimizer) {
  expect_refusal_with([](JobOptions& o) { o.optimizer = "sgd"; }, {"optimizer \"adamw\"", "uses \"sgd\""});
}

TEST_F(ResumeRefusal, NamesAnotherSchedule) {
  expect_refusal_with([](JobOptions& o) { o.schedule = "constant"; },
                      {"was \"cosine_warmup warmup_steps=2", "\"constant warmup_steps=2"});
  expect_refusal_with([](JobOptions& o) { o.schedule = ""; }, {"a schedule"});
}

TEST_F(ResumeRefusal, SaysHowTheDataDiffer) {
  const std::string other = folder_.file("other.txt", sample_text(17 * 32 + 3, 2));
  const std::string longer = folder_.file("longer.txt", sample_text(20 * 32));
  expect_refusal_with([&](JobOptions& o) { o.data = other; }, {"other data", "samples (17)"});
  expect_refusal_with([&](JobOptions& o) { o.data = longer; }, {"17 samples", "batches of 8", "has 20"});
  expect_refusal_with([](JobOptions& o) { o.sequence_length = 31; }, {"other data"});
  expect_refusal_with([](JobOptions& o) { o.batch_size = 4; }, {"batches of 8", "has 17", "batches of 4"});
  expect_refusal_with([](JobOptions& o) { o.shuffle = false; }, {"shuffled samples", "not shuffle"});
  expect_refusal_with([](JobOptions& o) { o.drop_last = true; }, {"without drop_last", "on"});
  expect_refusal_with([](JobOptions& o) { o.data_seed = 8; }, {"seed 7", "is 8"});
}

TEST_F(ResumeRefusal, NamesAParameterOfAnotherShape) {
  const std::string deeper = folder_.file("deeper.json", config_json({.positions = 64}));
  expect_refusal_with([&](JobOptions& o) { o.model = deeper; },
                      {"transformer.wpe.weight", "(32, 12)", "(64, 12)"});
}

TEST_F(ResumeRefusal, NamesTheTrainingStateThatIsMissing) {
  fs::remove_all(in("saved") + "/training_state");
  expect_refusal(options_, WEFT_NOT_FOUND, {"saved/training_state/state.json", "--output"});
}

TEST_F(ResumeRefusal, NamesTheTensorsThatTheStateLacks) {
  const std::string state = in("saved") + "/training_state/";
  const std::string index = read_bytes(state + "index.json");
  fs::rename(state + "part-00000.safetensors", state + "away");
  expect_refusal(options_, WEFT_NOT_FOUND, {"part-00000.safetensors"});
  fs::remove(state + "index.json");
  expect_refusal(options_, WEFT_NOT_FOUND, {"training_state/index.json"});
  // The boxes of the embedding do not cover its last row.
  nlohmann::json changed = nlohmann::json::parse(index);
  changed["tensors"]["transformer.wte.weight/exp_avg"]["parts"][0]["extent"][0] = 255;
  std::ofstream(state + "index.json") << changed.dump();
  const std::string uncovered = "parts of transformer.wte.weight/exp_avg";
  expect_refusal(options_, WEFT_DATA_LOSS, {"the 1 " + uncovered});
  // Of the right number of elements: the upper half twice, the lower half never.
  nlohmann::json& parts = changed["tensors"]["transformer.wte.weight/exp_avg"]["parts"];
  parts[0]["extent"][0] = 128;
  parts.push_back(parts[0]);
  std::ofstream(state + "index.json") << changed.dump();
  expect_refusal(options_, WEFT_DATA_LOSS, {"the 2 " + uncovered});
  changed = nlohmann::json::parse(index);
  changed["tensors"]["transformer.wte.weight/exp_avg"]["parts"][0]["file"] = "../model.safetensors";
  std::ofstream(state + "index.json") << changed.dump();
  expect_refusal(options_, WEFT_DATA_LOSS, {"no file"});
}

// Trained a little more, or an element of one tensor changed: the shapes are the same.
TEST_F(ResumeRefusal, ComesWhenTheWeightsHaveChanged) {
  const std::string weights = in("saved") + "/model.safetensors", saved = read_bytes(weights);
  run(1, 1, "saved", "later");
  fs::copy_file(in("later") + "/model.safetensors", weights, fs::copy_options::overwrite_existing);
  expect_refusal(options_, WEFT_INVALID_ARGUMENT,
                 {"state.json", "weights in " + in("saved"), "not those", "--model"});
  std::string changed = saved;
  changed.back() ^= 1;
  std::ofstream(weights, std::ios::binary) << changed;
  expect_refusal(options_, WEFT_INVALID_ARGUMENT, {"not those"});
  // The same tensors in another file are the same weights.
  std::ofstream(weights, std::ios::binary) << saved;
  const RawTensors tensors = read_safetensors(weights);
  std::ofstream(weights, std::ios::binary) << safetensors_bytes(tensors);
  ASSERT_NE(read_bytes(weights), saved);
  run(1, 1, "saved", "again");
  expect_same_state("later", "again");
}

TEST_F(ResumeRefusal, NamesNumbersThatAreNoIntegers) {
  const std::string path = in("saved") + "/training_state/state.json";
  const nlohmann::json state = nlohmann::json::parse(read_bytes(path));
  const auto expect_refusal_of_state = [&](const nlohmann::json::json_pointer& key,
                                           const nlohmann::json& value, const std::string& piece) {
    nlohmann::json changed = state;
    changed[key] = value;
    std::ofstream(path) << changed.dump();
    expect_refusal(options_, WEFT_DATA_LOSS, {"state.json", piece});
  };
  using Key = nlohmann::json::json_pointer;
  expect_refusal_of_state(Key("/data/batch"), 1.5, "\"batch\" is 1.5");
  expect_refusal_of_state(Key("/data/batch"), -1, "\"batch\" is -1");
  expect_refusal_of_state(Key("/data/epoch"), true, "\"epoch\" is true");
  expect_refusal_of_state(Key("/version"), 2.5, "\"version\" is 2.5");
  expect_refusal_of_state(Key("/schedule/last_step"), 2.5, "\"last_step\" is 2.5");
  expect_refusal_of_state(Key("/optimizer/steps"), 2.5, "\"steps\" is 2.5");
  expect_refusal_of_state(Key("/optimizer/parameter_steps/transformer.wte.weight"), 2.5,
                          "\"parameter_steps\" is 2.5");
}

TEST_F(ResumeRefusal, ComesForAnotherVersionAndForDamage) {
  rewrite_state("version", 1);
  expect_refusal(options_, WEFT_FAILED_PRECONDITION, {"state.json", "version 1", "reads 2"});
  rewrite_state("version", "one");
  expect_refusal(options_, WEFT_DATA_LOSS, {"state.json", "\"version\" is \"one\""});
  rewrite_state("version", 2);
  rewrite_state("data", 3);
  expect_refusal(options_, WEFT_DATA_LOSS, {"state.json is damaged"});
  folder_.file("saved/training_state/state.json", "{\"version\": 2,");
  expect_refusal(options_, WEFT_INVALID_ARGUMENT, {"state.json"});
}

// A strategy's own tensors.
class KeptTensors : public Resume {
 protected:
  KeptTensors() {
    options_.model = folder_.file("plain.json", config_json());
    options_.strategy = "slices";
    options_.strategy_options = R"({"average": true})";
    options_.batch_size = 6;
    options_.accumulate = 1;
  }
  // Returns the tensors whose names begin so, from a training state.
  std::map<std::string, at::Tensor> saved(const std::string& name, const std::string& begin) const {
    const checkpoint::PartsReader reader(in(name) + "/training_state");
    std::map<std::string, at::Tensor> found;
    for (size_t i = 0; i < reader.entries().size(); ++i)
      if (reader.entries()[i].name.starts_with(begin)) found[reader.entries()[i].name] = reader.read(i);
    return found;
  }
  static double distance(const std::map<std::string, at::Tensor>& a,
                         const std::map<std::string, at::Tensor>& b) {
    double most = 0;
    for (const auto& [name, tensor] : a)
      most = std::max(most, (tensor - b.at(name)).abs().max().item<double>());
    return most;
  }
};

TEST_F(KeptTensors, AreReadOnAnyNumberOfRanks) {
  run(2, 6, "", "whole");
  run(2, 3, "", "begin");
  run(2, 3, "begin", "rest");
  run(3, 3, "begin", "others");
  expect_same_state("whole", "rest");
  const auto whole = saved("whole", "strategy/slices/average/"),
             others = saved("others", "strategy/slices/average/"),
             begin = saved("begin", "strategy/slices/average/");
  EXPECT_EQ(whole.size(), others.size());
  EXPECT_GT(whole.size(), 10u);
  EXPECT_LT(distance(whole, others), 1e-5);
  EXPECT_GT(distance(whole, begin), 1e-2) << "they change, so what begins anew is another one";
}

TEST_F(KeptTensors, AreTakenOverByAStrategyOfTheSameName) {
  run(2, 3, "", "begin");
  on_ranks({2}, [&](World& world) {
    Job job = make_job(world, options_);
    train(job, 3);
    BoosterOptions turned;
    turned.strategy = "slices";
    turned.options = R"({"average": true, "turn": 1})";
    Booster next(turned, world);
    next.take_over(job);
    next.save_training(job, in("moved"));
  });
  const auto before = saved("begin", "strategy/"), moved = saved("moved", "strategy/");
  EXPECT_EQ(before.size(), moved.size());
  EXPECT_EQ(distance(before, moved), 0);
}

TEST_F(KeptTensors, BeginAnewWhereTheyWereNotSavedAndAreLeftOutWhereNobodyKeepsThem) {
  run(2, 3, "", "begin");
  options_.strategy_options = R"({"average": true, "name": "other"})";
  run(2, 1, "begin", "other");
  EXPECT_TRUE(saved("other", "strategy/slices/average/").empty());
  const auto once = saved("other", "strategy/slices/other/"),
             before = saved("begin", "strategy/slices/average/");
  EXPECT_EQ(once.size(), before.size());
  options_.strategy = "torch_ddp";
  options_.strategy_options = "{}";
  run(2, 1, "other", "plain");
  EXPECT_TRUE(saved("plain", "strategy/").empty());
}

TEST_F(KeptTensors, AreRefusedUnlessTheyAreWholeAndHaveAPlainName) {
  on_ranks({2}, [&](World& world) {
    JobOptions options = options_;
    options.strategy_options = R"({"average": true, "fail": "kept"})";
    EXPECT_ERROR(make_job(world, options), WEFT_INTERNAL, "slices: the ranges of \"average\"", "elements");
    options.strategy_options = R"({"average": true, "name": "../x"})";
    EXPECT_ERROR(make_job(world, options), WEFT_INVALID_ARGUMENT, "../x", "letters");
  });
}

}  // namespace
}  // namespace weft::test
