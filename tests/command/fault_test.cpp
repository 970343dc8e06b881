// What `weft train` refuses. Each error ends the command at once and names what was asked, what was found and
// what to do.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "command/command.hpp"
#include "support/small_disk.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

constexpr int kUsage = 2, kFailed = 1;

class Fault : public CommandTest {
 protected:
  // Returns the command line of a training on one rank without a strategy, with more flags.
  testing::AssertionResult refused(const Words& more, const std::vector<std::string>& pieces) const {
    return refuses(train(Words{"--strategy", "none", "--steps", "1"} + more), kFailed, pieces);
  }
  testing::AssertionResult refused_model(const std::string& model,
                                         const std::vector<std::string>& pieces) const {
    return refuses({"train", "--model", model, "--data", data_, "--strategy", "none", "--steps", "1"},
                   kFailed, pieces);
  }
  testing::AssertionResult refused_data(const std::string& data, const Words& more,
                                        const std::vector<std::string>& pieces) const {
    return refuses(
        Words{"train", "--model", config_, "--data", data, "--strategy", "none", "--steps", "1"} + more,
        kFailed, pieces);
  }
};

TEST_F(Fault, UsageErrorsExitWithTwo) {
  EXPECT_TRUE(refuses({"train", "--data", data_}, kUsage, {"weft: train: ", "--model", "required"}));
  EXPECT_TRUE(
      refuses(train({"--stpes", "3"}), kUsage, {"there is no flag --stpes; did you mean \"--steps\"?"}));
  EXPECT_TRUE(refuses({"trian"}, kUsage, {"there is no verb \"trian\"; did you mean \"train\"?"}));
}

TEST_F(Fault, ArgumentsThatAreNotUtf8) {
  for (const std::string flag : {"--output", "--lr-scheduler"})
    EXPECT_TRUE(refuses(train({"--steps", "1", flag, "a\xff"}), kUsage,
                        {"weft: train: " + flag + " is \"a\\ufffd\", which is not UTF-8"}));
  EXPECT_TRUE(refuses(train({"--steps", "1", "-o", "a=\xff"}), kUsage, {"-o,--option is \"a=\\ufffd\""}));
  EXPECT_TRUE(refuses({"convert", "a\xff", "b"}, kUsage, {"weft: convert: INPUT is \"a\\ufffd\""}));
}

// JSON has no such numbers, so that they would come as the defaults.
TEST_F(Fault, OptionsThatAreNotFinite) {
  EXPECT_TRUE(refused({"--optimizer-option", "weight_decay=nan"}, {"weight_decay is nan"}));
  EXPECT_TRUE(refused({"--optimizer-option", "beta1=nan"}, {"beta1 is nan"}));
  EXPECT_TRUE(refused({"--optimizer-option", "beta2=inf"}, {"beta2 is inf"}));
  EXPECT_TRUE(refused({"--lr-scheduler", "exponential", "--lr-scheduler-option", "gamma=inf"},
                      {"schedule exponential: gamma is inf, must be a number"}));
  EXPECT_TRUE(refuses(train({"--steps", "1", "-o", "bucket_cap_mb=nan"}), kFailed,
                      {"bucket_cap_mb is nan, must be"}));
  const std::string file = folder_.file("booster.json", R"({"strategy": "none", "max_grad_norm": NaN})");
  EXPECT_TRUE(refuses(train({"--booster", file}), kFailed, {"booster.json", "not valid JSON"}));
}

TEST_F(Fault, UnknownNamesComeWithTheNearest) {
  EXPECT_TRUE(
      refuses(train({"--strategy", "torch_dpp"}), kFailed, {"torch_dpp", "did you mean", "torch_ddp"}));
  EXPECT_TRUE(
      refuses(train({"-o", "bucket_cap=3"}), kFailed, {"bucket_cap", "did you mean", "bucket_cap_mb"}));
  EXPECT_TRUE(refuses(train({"-o", "bucket_cap_mb=big"}), kFailed, {"bucket_cap_mb", "big"}));
  EXPECT_TRUE(refused({"-o", "bucket_cap_mb=3"}, {"no strategy (\"none\")", "bucket_cap_mb"}));
  EXPECT_TRUE(refused({"--architecture", "GPT2LMHead"},
                      {"no model library for the architecture \"GPT2LMHead\"", "gpt2"}));
  EXPECT_TRUE(refused({"--optimizer", "adamm"}, {"no optimizer is called \"adamm\"", "adamw"}));
  EXPECT_TRUE(refused({"--lr-scheduler", "cosine"},
                      {"no learning-rate schedule is called \"cosine\"", "cosine_warmup"}));
}

TEST_F(Fault, BadValuesOfFlags) {
  EXPECT_TRUE(refused({"--epochs", "1"}, {"--steps and --epochs exclude each other"}));
  EXPECT_TRUE(refuses(train({"--steps", "0"}), kFailed, {"--steps is 0", "at least 1"}));
  EXPECT_TRUE(refuses(train({"--epochs", "-1"}), kFailed, {"--epochs is -1"}));
  EXPECT_TRUE(refused({"--batch-size", "0"}, {"--batch-size is 0"}));
  EXPECT_TRUE(refused({"--accumulate", "0"}, {"--accumulate is 0"}));
  EXPECT_TRUE(refused({"--accumulate", "9"}, {"--batch-size 8 over 1 ranks", "--accumulate 9"}));
  EXPECT_TRUE(refused({"--sequence-length", "33"}, {"--sequence-length is 33", "at most 32 positions"}));
  EXPECT_TRUE(refused({"--sequence-length", "0"}, {"--sequence-length is 0"}));
  EXPECT_TRUE(refused({"--sequence-length", "1"},
                      {"--sequence-length is 1", "predicts the next token", "give at least 2"}));
  EXPECT_TRUE(refuses(train({"--strategy", "none", "--epochs", "9223372036854775807"}), kFailed,
                      {"--epochs", "9223372036854775807", "must be at most"}));
  EXPECT_TRUE(refused({"--token-type", "uint8"}, {"--token-type is \"uint8\"", "uint16, uint32"}));
  EXPECT_TRUE(refused({"--device", "tpu"}, {"no library provides the device \"tpu\"", "Found: "}));
  EXPECT_TRUE(refused({"--allow-tf32"}, {"allow_tf32 is true, but has no effect", "device cpu has no TF32"}));
  EXPECT_TRUE(refused({"--allow-tf32", "--precision", "bf16"}, {"has no effect", "the precision is bf16"}));
  EXPECT_TRUE(
      refused({"--enable-cuda-graph"}, {"enable_cuda_graph is true, but the device cpu has no graphs"}));
  EXPECT_TRUE(refused({"--precision", "fp8"}, {"precision is \"fp8\""}));
  EXPECT_TRUE(refused({"--micro-batch-size", "2"},
                      {"--micro-batch-size is 2, but strategy none has no pipeline stages", "--accumulate"}));
  EXPECT_TRUE(refused({"--check-agreement", "-2"}, {"--check-agreement is -2", "at least -1"}));
  EXPECT_TRUE(refused({"--max-grad-norm", "-1"}, {"--max-grad-norm is -1", "at least 0"}));
  EXPECT_TRUE(refused({"--warmup-steps", "5", "--lr-scheduler", "cosine_warmup"},
                      {"warmup_steps is 5", "at most the 1 steps"}));
  EXPECT_TRUE(refused({"--lr", "-1"}, {"lr is -1"}));
  EXPECT_TRUE(refused({"--betas", "0.9"}, {"--betas takes two numbers"}));
  EXPECT_TRUE(refused({"--betas", "0.9,1"}, {"beta2 is 1"}));
  EXPECT_TRUE(refused({"--momentum", "0.9"}, {"optimizer adamw", "momentum"}));
  EXPECT_TRUE(refused({"--optimizer-option", "weight_decy=1"}, {"adamw", "did you mean \"weight_decay\""}));
  EXPECT_TRUE(refused({"--optimizer-option", "eps"}, {"\"eps\" is not of the form key=value"}));
  EXPECT_TRUE(refused({"--optimizer-option", "eps=small"}, {"\"small\" must be a number"}));
  EXPECT_TRUE(refused({"--lr", "1", "--optimizer-option", "lr=1"},
                      {"--optimizer-option lr=1 sets lr, which another flag sets too"}));
  EXPECT_TRUE(refused({"--optimizer", "came"}, {"came", "lr must be given"}));
  EXPECT_TRUE(refused({"--optimizer", "came", "--lr", "1", "--betas", "0.9,0.9"}, {"three numbers"}));
  EXPECT_TRUE(refused({"--lr-scheduler", "step", "--lr-scheduler-option", "gama=0.5"},
                      {"--lr-scheduler-option: schedule step", "did you mean \"gamma\""}));
  EXPECT_TRUE(refused({"--lr-scheduler", "step", "--warmup-steps", "1"}, {"no warm-up", "step_warmup"}));
  EXPECT_TRUE(refused({"--lr-scheduler", "multi_step"}, {"milestones must be given"}));
  EXPECT_TRUE(refused({"--recompute", "9"}, {"recompute is \"9\""}));
  EXPECT_TRUE(refused({"--save-every", "1"}, {"--save-every needs --output"}));
  EXPECT_TRUE(refused({"--save-every", "0", "--output", in("out")}, {"--save-every is 0"}));
  EXPECT_FALSE(fs::exists(in("out")));
}

TEST_F(Fault, IsToldWhereRanksDoNotFit) {
  EXPECT_TRUE(refuses(train({"--steps", "1", "-n", "2", "--strategy", "none"}), kFailed,
                      {"one rank", "there are 2"}));
  EXPECT_TRUE(refuses(train({"--steps", "1", "-n", "2", "--batch-size", "3"}), kFailed,
                      {"batch of 3 samples cannot be divided by the 2", "2 or 4"}));
  EXPECT_TRUE(refuses(train({"--steps", "1", "-n", "2", "--batch-size", "9223372036854775807"}), kFailed,
                      {"multiple of 2, 9223372036854775806 for example"}));
  EXPECT_TRUE(refuses(train({"--steps", "1", "-n", "2", "--accumulate", "5"}), kFailed,
                      {"--batch-size 8 over 2 ranks leaves 4 samples a rank"}));
  const std::string weft = WEFT_PROGRAM, flags = " train --model " + config_ + " --data " + data_ +
                                                 " --steps 1 --lr 0.00$((RANK+1))";
  EXPECT_TRUE(refuses({"run", "-n", "2", "sh", "-c", "exec " + weft + flags}, kFailed,
                      {"ranks 0 and 1 were not started alike", "--lr: rank 0 has 0.001, rank 1 has 0.002"}));
}

TEST_F(Fault, IsToldWhereMicroBatchesDoNotFitStages) {
  const auto refused_size = [&](const Words& more, const std::vector<std::string>& pieces) {
    return refuses(train(Words{"--steps", "1", "--micro-batch-size"} + more), kFailed, pieces);
  };
  const Words on_2_stages = {"2", "--strategy", "torch_ddp", "-o", "pp_size=2"};
  EXPECT_TRUE(refused_size(
      {"2", "--strategy", "torch_fsdp"},
      {"--micro-batch-size is 2, but strategy torch_fsdp has no pipeline stages", "use --accumulate"}));
  EXPECT_TRUE(refused_size({"2", "--strategy", "torch_ddp"},
                           {"--micro-batch-size is 2, but has no effect: it needs", "pp_size is 1",
                            "give -o pp_size=P for P pipeline stages, or use --accumulate"}));
  EXPECT_TRUE(refused_size(on_2_stages + Words{"-o", "microbatch_size=3"},
                           {"--micro-batch-size 2 and -o microbatch_size=3 both divide the batch"}));
  EXPECT_TRUE(refused_size(on_2_stages + Words{"-o", "num_microbatches=4"},
                           {"--micro-batch-size 2 and -o num_microbatches=4 both divide the batch"}));
  // It divides nothing, so nothing contradicts the flag.
  expect_success(train(Words{"--steps", "1", "-n", "2", "--micro-batch-size"} + on_2_stages +
                       Words{"-o", "num_microbatches=null"}));
  EXPECT_TRUE(refused_size({"0", "--strategy", "torch_ddp", "-o", "pp_size=2"},
                           {"--micro-batch-size: microbatch_size is 0, must be an integer from 1 to"}));
  EXPECT_TRUE(refused_size({"2", "--booster", folder_.file("booster.json", R"({"strategy": "torch_ddp"})")},
                           {"--booster", "--micro-batch-size"}));
}

TEST_F(Fault, NamesTheBoosterFile) {
  const auto refused_file = [&](const std::string& text, const Words& more,
                                const std::vector<std::string>& pieces) {
    return refuses(train(Words{"--booster", folder_.file("booster.json", text), "--steps", "1"} + more),
                   kFailed, pieces);
  };
  EXPECT_TRUE(refused_file(R"({"stratgey": "none"})", {},
                           {"booster.json", "stratgey", "did you mean \"strategy\"?"}));
  EXPECT_TRUE(refused_file(R"({"strategy": "none",})", {}, {"booster.json"}));
  EXPECT_TRUE(
      refused_file(R"({"strategy": "torch_ddp", "options": {"bucket": 1}})", {}, {"torch_ddp", "bucket"}));
  EXPECT_TRUE(refused_file(R"({"strategy": "none"})", {"--strategy", "none"},
                           {"--booster", "--strategy", "exclude"}));
  EXPECT_TRUE(refuses(train({"--booster", in("no.json")}), kFailed, {"no.json"}));
}

TEST_F(Fault, NamesTheDataAndThePlace) {
  EXPECT_TRUE(refused_data(in("none.txt"), {}, {"none.txt: no such data file"}));
  std::filesystem::create_directory(in("folder"));
  EXPECT_TRUE(refused_data(in("folder"), {}, {"the folder has no text", "*.log"}));
  EXPECT_TRUE(refused_data(folder_.file("empty.txt", ""), {}, {"empty.txt: the file is empty"}));
  EXPECT_TRUE(refused_data(folder_.file("short.txt", "short"), {},
                           {"short.txt: 5 tokens, shorter than one sample of 32"}));
  EXPECT_TRUE(refused_data(folder_.file("zero.txt", std::string("a\0b", 3) + sample_text(99)), {},
                           {"not text", ".bin"}));
  EXPECT_TRUE(refused_data(folder_.file("odd.bin", "abc"), {}, {"odd.bin: 3 bytes", "--token-type"}));
  EXPECT_TRUE(refused_data(folder_.file("big.bin", std::string(66, '\1')), {},
                           {"token 257 at position 0", "0 to 255", "--token-type"}));
  folder_.file("narrow.json", config_json({.vocabulary = 50}));
  EXPECT_TRUE(refuses({"train", "--model", in("narrow.json"), "--data", data_, "--steps", "1"}, kFailed,
                      {"data.txt: token", "at position 0", "0 to 49"}));
}

TEST_F(Fault, NamesTheTensorOfSafetensorsData) {
  const auto refused_tensors = [&](const RawTensors& tensors, const std::vector<std::string>& pieces) {
    return refused_data(folder_.file("data.safetensors", safetensors_bytes(tensors)), {}, pieces);
  };
  const RawTensors good = language_samples(8, 6);
  RawTensors tensors = good;
  tensors.erase("labels");
  EXPECT_TRUE(refused_tensors(tensors, {"GPT2LMHeadModel", "no labels to train on"}));
  tensors = good;
  tensors["labels"] = int64_tensor({8, 6}, std::vector<int64_t>(48, -100));
  EXPECT_TRUE(refused_tensors(tensors, {"no label counts in 201 batches"}));
  tensors["labels"] = int64_tensor({8, 6}, std::vector<int64_t>(48, 256));
  EXPECT_TRUE(refused_tensors(tensors, {"labels", "256", "255"}));
  tensors["labels"] = int64_tensor({8, 5}, std::vector<int64_t>(40));
  EXPECT_TRUE(refused_tensors(tensors, {"labels", "[8, 5]", "[8, 6]"}));
  tensors["labels"] = int64_tensor({7, 6}, std::vector<int64_t>(42));
  EXPECT_TRUE(refused_tensors(tensors, {"\"labels\" has 7 samples", "has 8"}));
  tensors = good;
  tensors["label"] = tensors["labels"];
  EXPECT_TRUE(refused_tensors(tensors, {"no input \"label\"; did you mean \"labels\"?"}));
  tensors = good;
  tensors["input_ids"] = float_tensor({8, 6}, std::vector<float>(48));
  EXPECT_TRUE(refused_tensors(tensors, {"input_ids", "Float", "int64"}));
  tensors["input_ids"] = int64_tensor({8, 6}, std::vector<int64_t>(48, 300));
  EXPECT_TRUE(refused_tensors(tensors, {"token 300", "\"input_ids\", sample 0, position 0"}));
  const std::string bytes = safetensors_bytes(good);
  EXPECT_TRUE(refused_data(folder_.file("cut.safetensors", bytes.substr(0, bytes.size() - 8)), {},
                           {"cut.safetensors"}));
}

TEST_F(Fault, NamesTheKeyOfAConfiguration) {
  EXPECT_TRUE(refused_model(in("none"), {"none"}));
  EXPECT_TRUE(refused_model(folder_.file("text.json", "no JSON"), {"text.json"}));
  EXPECT_TRUE(
      refused_model(folder_.file("bare.json", "{}"), {"bare.json", "architectures", "--architecture"}));
  EXPECT_TRUE(refused_model(
      folder_.file("less.json", R"({"architectures": ["GPT2LMHeadModel"], "n_head": 5, "n_embd": 12})"),
      {"less.json", "n_embd", "n_head"}));
  EXPECT_TRUE(
      refused_model(folder_.file("kind.json", R"({"architectures": ["GPT2LMHeadModel"], "n_layer": "two"})"),
                    {"kind.json", "n_layer"}));
  for (const char* key : {"n_layer", "num_hidden_layers"})
    EXPECT_TRUE(refused_model(folder_.file("deep.json", R"({"architectures": ["GPT2LMHeadModel"], ")" +
                                                            std::string(key) + "\": 20000000}"),
                              {"deep.json", key, "is 20000000, must be at most 4096"}));
  EXPECT_TRUE(refused_model(folder_.file("other.json", R"({"architectures": ["MambaForCausalLM"]})"),
                            {"MambaForCausalLM"}));
}

// A model folder with a broken file.
class BrokenModel : public Fault {
 protected:
  void SetUp() override { copy_trained_model(); }
  std::string weights() const { return read_bytes(in("out/model.safetensors")); }
};

TEST_F(BrokenModel, IsRefused) {
  const std::string whole = weights();
  folder_.file("out/model.safetensors", whole.substr(0, whole.size() - 100));
  EXPECT_TRUE(refused_model(in("out"), {"model.safetensors"}));
  folder_.file("out/model.safetensors", "");
  EXPECT_TRUE(refused_model(in("out"), {"model.safetensors"}));
  folder_.file("out/model.safetensors", whole);
  folder_.file("out/config.json", config_json({.positions = 16}));
  EXPECT_TRUE(refused_model(in("out"), {"transformer.wpe.weight", "(32, 12)", "(16, 12)"}));
  fs::remove(in("out/config.json"));
  EXPECT_TRUE(refused_model(in("out"), {"config.json"}));
}

// The last row of the embedding is on rank 1 alone.
TEST_F(BrokenModel, WithWeightsThatAreNotFiniteIsRefused) {
  RawTensors tensors = read_safetensors(in("out/model.safetensors"));
  std::string& bytes = tensors.at("transformer.wte.weight").bytes;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - sizeof(nan), &nan, sizeof(nan));
  folder_.file("out/model.safetensors", safetensors_bytes(tensors));
  const std::vector<std::string> pieces = {in("out"), "parameter transformer.wte.weight", "not finite",
                                           "earlier step"};
  EXPECT_TRUE(refused_model(in("out"), pieces));
  EXPECT_TRUE(refuses({"train", "--model", in("out"), "--data", data_, "--strategy", "hybrid_parallel", "-o",
                       "tp_size=2", "-n", "2", "--steps", "1"},
                      kFailed, pieces));
  expect_success({"train", "--model", config_, "--data", data_, "--strategy", "none", "--steps", "1"});
}

TEST_F(BrokenModel, WithAMissingShardIsRefused) {
  folder_.file("out/model.safetensors.index.json",
               R"({"weight_map": {"transformer.wte.weight": "model-00001-of-00002.safetensors"}})");
  fs::remove(in("out/model.safetensors"));
  EXPECT_TRUE(refused_model(in("out"), {"model-00001-of-00002.safetensors"}));
  fs::rename(in("out/model.safetensors.index.json"), in("out/model-00001-of-00002.safetensors"));
  EXPECT_TRUE(refused_model(in("out"), {"no checkpoint in the folder", "model.safetensors.index.json"}));
}

TEST_F(Fault, NamesThePlaceThatCannotBeWritten) {
  EXPECT_TRUE(refused({"--metrics", in("no/where.jsonl")},
                      {"--metrics", "no/where.jsonl", "No such file or directory"}));
  EXPECT_TRUE(refuses(train({"--steps", "1", "-n", "2", "--metrics", folder_.path()}), kFailed,
                      {"--metrics", "Is a directory"}));
  EXPECT_TRUE(refused({"--output", data_}, {"data.txt is a file", "name another"}));
  for (const char* flag : {"--output", "--resume", "--metrics"})
    EXPECT_TRUE(refused({flag, ""}, {std::string(flag) + " is empty"}));
  EXPECT_TRUE(refused({"--output", data_ + "/out"}, {"data.txt is no folder"}));
  EXPECT_TRUE(refuses(train({"--steps", "1", "-n", "2", "--output", "/proc"}), kFailed,
                      {"/proc is a mount point", "/proc/model"}));
}

// It is told before the first step, not after the last.
TEST_F(Fault, APlaceThatCannotBeWrittenToIsTriedFirst) {
  const std::string long_name(250, 'x');
  const std::vector<std::pair<std::string, std::string>> places = {
      {"/proc/1/out", "No such file or directory"}, {in(long_name), "File name too long"}};
  for (const auto& [place, why] : places) {
    EXPECT_TRUE(refuses(train({"--steps", "2", "-n", "2", "--output", place, "--metrics", in("m")}), kFailed,
                        {"cannot save to " + place, "cannot create", why}));
    EXPECT_FALSE(fs::exists(in("m")) && !read_bytes(in("m")).empty());
  }
  expect_success(train({"--steps", "1", "--strategy", "none", "--output", in("new/folder")}));
  EXPECT_TRUE(refused({"--output", in("other/folder"), "--lr", "-1"}, {"lr is -1"}));
  EXPECT_FALSE(fs::exists(in("other")));
}

TEST_F(Fault, WithoutRoomOnTheDiskTheJobFailsAndKeepsTheLastSave) {
  fs::create_directory(in("disk"));
  const auto passed = passes_on_small_disk(in("disk"), 200 << 10, [&] {
    const Words same = {"-n", "2", "--output", in("disk/out")};
    expect_success(train(Words{"--steps", "1"} + same));
    const std::string before = read_bytes(in("disk/out/model.safetensors"));
    EXPECT_TRUE(
        refuses(train(Words{"--steps", "2"} + same), kFailed, {"disk/.out.saving-", "No space left"}));
    EXPECT_EQ(read_bytes(in("disk/out/model.safetensors")), before);
    expect_success(train({"--strategy", "none", "--steps", "2", "--resume", in("disk/out")}));
  });
  if (!passed) GTEST_SKIP() << "a small disk cannot be mounted here";
  EXPECT_TRUE(*passed);
}

TEST_F(Fault, AFullDiskFailsTheJobAndKeepsTheLastSave) {
  copy_trained_model();
  const std::string before = read_bytes(in("out/model.safetensors"));
  const std::string flags =
      " train --model " + config_ + " --data " + data_ + " --steps 2 -n 2 --output " + in("out");
  const launch::Output output = launch::Process({"sh", "-c", "ulimit -f 16; exec " WEFT_PROGRAM + flags},
                                                {.environment = {{"OMP_NUM_THREADS", "1"}}})
                                    .finish();
  EXPECT_EQ(output.exit_code, kFailed) << output.error;
  EXPECT_THAT(output.error, testing::HasSubstr("model.safetensors"));
  EXPECT_THAT(output.error, testing::HasSubstr("File too large"));
  EXPECT_EQ(read_bytes(in("out/model.safetensors")), before);
  expect_success(train({"--strategy", "none", "--steps", "21", "--resume", in("out")}));
}

// The address space is limited, not the memory of this host.
TEST_F(Fault, NamesTheMemoryThatIsLacking) {
  const std::string config = folder_.file(
      "large.json",
      R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 256, "n_positions": 32, "n_embd": 65536, "n_layer": 1,
          "n_head": 2})");
  const std::string flags = " train --model " + config + " --data " + data_ + " --steps 1 ";
  for (const std::string ranks : {"--strategy none", "-n 2"}) {
    const launch::Output output =
        launch::Process({"sh", "-c", "ulimit -v 12000000; exec " WEFT_PROGRAM + flags + ranks},
                        {.environment = {{"OMP_NUM_THREADS", "1"}}})
            .finish();
    EXPECT_EQ(output.exit_code, kFailed) << output.error;
    const std::string& error = output.error;
    EXPECT_THAT(error,
                testing::HasSubstr(
                    "out of memory in the preparation of GPT2LMHeadModel: there is no room for another "));
    EXPECT_THAT(error, testing::HasSubstr("`ulimit -v` allows a process 11.4 GiB"));
    EXPECT_THAT(error, testing::HasSubstr("use a smaller --batch-size"));
    EXPECT_THAT(error, testing::Not(testing::HasSubstr("frame #")));
    EXPECT_THAT(error, testing::Not(testing::HasSubstr("bad_alloc")));
  }
}

TEST_F(Fault, NamesTheTimeThatIsOutOfRange) {
  EXPECT_TRUE(refuses(train({"--steps", "1", "-n", "2", "--grace", "0"}), kUsage, {"--grace is 0 s"}));
  EXPECT_TRUE(refuses({"evaluate", "--model", config_, "--data", data_, "--grace", "5"}, kUsage,
                      {"--grace is for the ranks that -n starts"}));
  for (const char* time : {"-1", "1e9"})
    EXPECT_TRUE(refuses(train({"--steps", "1", "--timeout", time}), kUsage,
                        {"--timeout is ", " s, but must be more than 0 and at most a year"}));
}

}  // namespace
}  // namespace weft::test
