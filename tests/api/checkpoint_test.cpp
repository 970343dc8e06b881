// Saves and loads models, optimizers and schedules through the Booster in every format.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/checkpoint_test.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Checkpoint : public CheckpointTest {};

// Saves with `options` at `path`, then loads into a model with other values, after boost() and before it.
struct Form {
  const char* name;
  const char* path;
  SaveOptions options;
  std::vector<std::string> files;
};

void PrintTo(const Form& form, std::ostream* out) {
  *out << form.name;
}

class ModelForm : public Checkpoint, public testing::WithParamInterface<Form> {};

TEST_P(ModelForm, ComesBackBeforeAndAfterBoost) {
  // One tensor of more than 1 MB: two shards.
  options_.model = folder_.file("config.json", config_json({.vocabulary = 30000}));
  on_ranks({2}, [&](World& world) {
    Booster booster({}, world);
    Job saved = make(world, 1);
    booster.save_model(saved.model, in(GetParam().path), GetParam().options);
    if (fs::is_directory(in(GetParam().path))) EXPECT_EQ(names_in(in(GetParam().path)), GetParam().files);

    Job after = make(world, 2);
    EXPECT_FALSE(
        at::equal(parameter(saved, "transformer.wte.weight"), parameter(after, "transformer.wte.weight")));
    booster.load_model(after.model, in(GetParam().path));
    expect_same_model(saved, after);

    Booster third({.strategy = "torch_ddp", .seed = 3}, world);
    Model model = Model::open(options_.model);
    third.load_model(model, in(GetParam().path));
    expect_same_model(saved, third.boost(model));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Forms, ModelForm,
    testing::Values(Form{"Folder", "out", {}, {"config.json", "model.safetensors"}},
                    Form{"FolderWithADotInItsName", "gpt2-0.1", {}, {"config.json", "model.safetensors"}},
                    Form{"Shards",
                         "out",
                         {.shard = true, .size_per_shard = 1},
                         {"config.json", "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors", "model.safetensors.index.json"}},
                    Form{"Prefix", "out", {.prefix = "ema"}, {"config.json", "model.ema.safetensors"}},
                    Form{"PyTorch", "out", {.use_safetensors = false}, {"config.json", "pytorch_model.bin"}},
                    Form{"PyTorchShards",
                         "out",
                         {.shard = true, .size_per_shard = 1, .use_safetensors = false},
                         {"config.json", "pytorch_model-00001-of-00002.bin",
                          "pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"}},
                    Form{"OneFile", "weights.safetensors", {}, {}},
                    Form{"OnePyTorchFile", "weights.bin", {.use_safetensors = false}, {}}),
    [](const auto& form) { return std::string(form.param.name); });

TEST_F(Checkpoint, ASaveReplacesTheWeightsAndKeepsEverythingElse) {
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job first = make(world, 1);
    Job second = make(world, 2);
    booster.save_model(first.model, in("out"), {.shard = true, .size_per_shard = 1});
    booster.save_model(first.model, in("out"), {.prefix = "ema"});
    for (const char* name : {"out/tokenizer.json", "out/adapter.safetensors"})
      std::ofstream(in(name)) << "kept";
    fs::create_directories(in("out/step-3"));
    std::ofstream(in("out/step-3/note")) << "kept";
    booster.save_model(second.model, in("out"));
    EXPECT_EQ(names_in(in("out")),
              (std::vector<std::string>{"adapter.safetensors", "config.json", "model.ema.safetensors",
                                        "model.safetensors", "step-3", "tokenizer.json"}));
    EXPECT_EQ(read_bytes(in("out/step-3/note")), "kept");
    booster.load_model(first.model, in("out"));
    expect_same_model(first, second);
  });
}

TEST_F(Checkpoint, ASaveGoesToWhereALinkPointsAndClearsAwayWhatKilledSavesLeft) {
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job job = make(world, 1);
    fs::create_directories(in("disk/out"));
    fs::create_directories(in("disk/.out.saving-0badf00d"));
    fs::create_directory_symlink(in("disk/out"), in("link"));
    booster.save_model(job.model, in("link"));
    EXPECT_TRUE(fs::is_symlink(in("link")));
    EXPECT_TRUE(fs::exists(in("disk/out/model.safetensors")));
    EXPECT_EQ(names_in(in("disk")), (std::vector<std::string>{"out"}));
  });
}

TEST_F(Checkpoint, RefusesPlacesThatCannotBeReplaced) {
  on_ranks({2}, [&](World& world) {
    Booster booster({}, world);
    Job job = make(world, 1);
    if (world.is_master()) folder_.file("file", "text");
    world.block_all();
    EXPECT_ERROR(booster.save_model(job.model, in("file")), WEFT_ALREADY_EXISTS, "/file is", "name another");
    EXPECT_ERROR(booster.save_model(job.model, "/proc"), WEFT_INVALID_ARGUMENT, "/proc", "mount point",
                 "/proc/model");
    EXPECT_ERROR(booster.save_model(job.model, "."), WEFT_INVALID_ARGUMENT, "process works");
    EXPECT_ERROR(booster.save_model(job.model, ""), WEFT_INVALID_ARGUMENT, "empty");
    EXPECT_ERROR(booster.save_model(job.model, in("out"), {.shard = true, .size_per_shard = 0}),
                 WEFT_INVALID_ARGUMENT, "size_per_shard is 0 MB");
    EXPECT_ERROR(booster.save_model(Model::open(options_.model), in("out")), WEFT_FAILED_PRECONDITION,
                 "save_model", "boosted");
    EXPECT_FALSE(fs::exists(in("out")));
  });
}

class Strict : public CheckpointTest {};

TEST_F(Strict, NamesMissingAndUnexpectedEntries) {
  save_changed([](RawTensors& tensors) {
    tensors.erase("transformer.h.1.ln_1.bias");
    tensors["transformer.h.7.ln_1.bias"] = float_tensor({12}, std::vector<float>(12));
  });
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job job = make(world, 2);
    const at::Tensor before = parameter(job, "transformer.wte.weight").clone();
    EXPECT_ERROR(booster.load_model(job.model, in("out")), WEFT_INVALID_ARGUMENT, "GPT2LMHeadModel",
                 "missing [transformer.h.1.ln_1.bias]", "unexpected [transformer.h.7.ln_1.bias]",
                 "strict=false");
    EXPECT_TRUE(at::equal(parameter(job, "transformer.wte.weight"), before));
    Model unboosted = Model::open(options_.model);
    EXPECT_ERROR(booster.load_model(unboosted, in("out")), WEFT_INVALID_ARGUMENT,
                 "missing [transformer.h.1.ln_1.bias]");

    booster.load_model(job.model, in("out"), /*strict=*/false);
    EXPECT_FALSE(at::equal(parameter(job, "transformer.wte.weight"), before));
    // A parameter that the file lacks keeps its initial value.
    const Job fresh = make(world, 2);
    EXPECT_TRUE(at::equal(parameter(job, "transformer.h.1.ln_1.bias"),
                          parameter(fresh, "transformer.h.1.ln_1.bias")));
  });
}

TEST_F(Strict, RefusesWrongShapesAlways) {
  save_changed([](RawTensors& tensors) {
    tensors["transformer.ln_f.bias"] = float_tensor({3, 4}, std::vector<float>(12));
  });
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job job = make(world, 2);
    Model unboosted = Model::open(options_.model);
    for (const bool strict : {true, false}) {
      EXPECT_ERROR(booster.load_model(job.model, in("out"), strict), WEFT_INVALID_ARGUMENT,
                   "transformer.ln_f.bias", "(3, 4)", "(12)");
      EXPECT_ERROR(booster.load_model(unboosted, in("out"), strict), WEFT_INVALID_ARGUMENT, "(3, 4)");
    }
    EXPECT_ERROR(make(world, 3, "", in("out")), WEFT_INVALID_ARGUMENT, "transformer.ln_f.bias", "(3, 4)",
                 "(12)");
  });
}

TEST_F(Strict, RefusesACheckpointOfSomethingElse) {
  save_changed([](RawTensors& tensors) { tensors = {{"conv.weight", float_tensor({1}, {1})}}; });
  on_ranks({1}, [&](World& world) {
    EXPECT_ERROR(make(world, 3, "", in("out")), WEFT_INVALID_ARGUMENT, "no parameter", "GPT2LMHeadModel",
                 "conv.weight", "transformer.wte.weight");
  });
}

TEST_F(Strict, RefusesWhatIsNotThere) {
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job job = make(world, 2);
    Model unboosted = Model::open(options_.model);
    EXPECT_ERROR(booster.load_model(job.model, in("nowhere")), WEFT_NOT_FOUND, "nowhere");
    for (const bool strict : {true, false})
      EXPECT_ERROR(booster.load_model(unboosted, in("nowhere"), strict), WEFT_NOT_FOUND, "nowhere");
    booster.boost(unboosted);  // the failed load left nothing behind
  });
}

TEST_F(Checkpoint, ShardsWithoutTheirIndexAreNoInitialValues) {
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job job = make(world, 1);
    booster.save_model(job.model, in("out"), {.shard = true, .size_per_shard = 1});
    fs::remove(in("out/model.safetensors.index.json"));
    EXPECT_ERROR(make(world, 1, "", in("out")), WEFT_NOT_FOUND, "no checkpoint",
                 "model.safetensors.index.json");
  });
}

TEST_F(Checkpoint, TheBaseModelOpensInAHeadAndTheOtherWayRound) {
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job base = make(world, 1, "GPT2Model");
    Job head = make(world, 2);
    booster.save_model(base.model, in("base"));
    booster.save_model(head.model, in("head"));

    const Job from_base = make(world, 3, "GPT2LMHeadModel", in("base"));
    EXPECT_TRUE(at::equal(parameter(from_base, "transformer.h.0.mlp.c_fc.weight"),
                          parameter(base, "h.0.mlp.c_fc.weight")));
    EXPECT_TRUE(at::equal(parameter(from_base, "transformer.wte.weight"), parameter(base, "wte.weight")));
    const Job from_head = make(world, 4, "GPT2Model", in("head"));
    EXPECT_TRUE(
        at::equal(parameter(from_head, "h.1.ln_2.bias"), parameter(head, "transformer.h.1.ln_2.bias")));
    EXPECT_TRUE(at::equal(parameter(from_head, "wpe.weight"), parameter(head, "transformer.wpe.weight")));
    // A tied head has no parameter of its own, so both models are complete.
    booster.load_model(base.model, in("head"));
    booster.load_model(head.model, in("base"));
  });
}

// transformers converts what it reads to the dtype that config.json names.
TEST_F(Checkpoint, TheConfigurationNamesTheDtypeOfTheWeights) {
  options_.model =
      folder_.file("config.json", config_json({.more = R"("torch_dtype": "float16", "dtype": "bfloat16",)"}));
  on_ranks({1}, [&](World& world) {
    Booster({}, world).save_model(make(world, 1).model, in("out"));
    const auto saved = nlohmann::json::parse(read_bytes(in("out/config.json")));
    EXPECT_EQ(saved.at("torch_dtype"), "float32");
    EXPECT_EQ(saved.at("dtype"), "float32");
    EXPECT_EQ(read_safetensors(in("out/model.safetensors")).at("transformer.wte.weight").dtype, "F32");
    JobOptions options = options_;
    options.precision = "bf16";
    Booster({}, world).save_model(make_job(world, options).model, in("half"));
    EXPECT_EQ(nlohmann::json::parse(read_bytes(in("half/config.json"))).at("dtype"), "bfloat16");
    EXPECT_EQ(read_safetensors(in("half/model.safetensors")).at("transformer.wte.weight").dtype, "BF16");
  });
}

// After loading, the next step equals the next step of the saved job.
class OptimizerForm : public CheckpointTest, public testing::WithParamInterface<Form> {};

TEST_P(OptimizerForm, ComesBack) {
  on_ranks({2}, [&](World& world) {
    options_.hyper = {{"lr", 0.01}};
    Booster booster({}, world);
    Job saved = make(world, 1);
    saved.train_step(batch());
    saved.train_step(batch());
    booster.save_model(saved.model, in("model"));
    booster.save_optimizer(saved.optimizer, in(GetParam().path), GetParam().options);
    booster.save_lr_scheduler(saved.schedule, in("schedule.json"));

    options_.hyper = {{"lr", 0.02}};
    Job loaded = make(world, 2);
    booster.load_model(loaded.model, in("model"));
    booster.load_optimizer(loaded.optimizer, in(GetParam().path));
    booster.load_lr_scheduler(loaded.schedule, in("schedule.json"));
    EXPECT_EQ(loaded.optimizer.steps(), 2);
    EXPECT_EQ(loaded.schedule.last_step(), 2);
    EXPECT_EQ(loaded.optimizer.groups()[0].options, saved.optimizer.groups()[0].options);
    saved.train_step(batch());
    loaded.train_step(batch());
    expect_same_model(saved, loaded);
  });
}

INSTANTIATE_TEST_SUITE_P(Forms, OptimizerForm,
                         testing::Values(Form{"File", "optimizer.safetensors", {}, {}},
                                         Form{
                                             "Folder", "optimizer", {.shard = true, .size_per_shard = 1}, {}},
                                         Form{"PyTorch", "optimizer.bin", {.use_safetensors = false}, {}}),
                         [](const auto& form) { return std::string(form.param.name); });

TEST_F(Checkpoint, AnOptimizerRefusesAnothersState) {
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job saved = make(world, 1);
    saved.train_step(batch());
    booster.save_optimizer(saved.optimizer, in("adamw.safetensors"));
    booster.save_model(saved.model, in("model"));

    optim::Optimizer unboosted("adamw", saved.model.parameters());
    EXPECT_ERROR(booster.save_optimizer(unboosted, in("x.safetensors")), WEFT_FAILED_PRECONDITION,
                 "not boosted");
    EXPECT_ERROR(booster.load_optimizer(unboosted, in("adamw.safetensors")), WEFT_FAILED_PRECONDITION,
                 "not boosted");
    EXPECT_ERROR(booster.load_optimizer(saved.optimizer, in("nowhere.safetensors")), WEFT_NOT_FOUND,
                 "nowhere.safetensors");
    EXPECT_ERROR(booster.load_optimizer(saved.optimizer, in("model")), WEFT_INVALID_ARGUMENT,
                 "optimizer state");

    options_.optimizer = "adam";
    Job adam = make(world, 1);
    EXPECT_ERROR(booster.load_optimizer(adam.optimizer, in("adamw.safetensors")), WEFT_INVALID_ARGUMENT,
                 "optimizer \"adamw\"", "uses \"adam\"");
    options_.optimizer = "adamw";
    Job base = make(world, 1, "GPT2Model");
    EXPECT_ERROR(booster.load_optimizer(base.optimizer, in("adamw.safetensors")), WEFT_INVALID_ARGUMENT,
                 "group 0");
    EXPECT_EQ(base.optimizer.steps(), 0);
  });
}

TEST_F(Checkpoint, AScheduleLoadsBeforeAndAfterBoostAndRefusesAnothers) {
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job job = make(world, 1);
    job.schedule.seek(1);
    booster.save_lr_scheduler(job.schedule, in("schedule.json"));

    optim::Optimizer optimizer("adamw", job.model.parameters());
    optim::Scheduler same(optimizer, optim::schedule("cosine_warmup", {2, 20, 0}));
    booster.load_lr_scheduler(same, in("schedule.json"));
    EXPECT_EQ(same.last_step(), 1);
    EXPECT_DOUBLE_EQ(optimizer.groups()[0].options.at("lr"), 0.5e-3);

    optim::Scheduler other(optimizer, optim::schedule("cosine_warmup", {3, 20, 0}));
    EXPECT_ERROR(booster.load_lr_scheduler(other, in("schedule.json")), WEFT_INVALID_ARGUMENT,
                 "was \"cosine_warmup warmup_steps=2", "has \"cosine_warmup warmup_steps=3");
    folder_.file("text", "[1]");
    EXPECT_ERROR(booster.load_lr_scheduler(same, in("text")), WEFT_INVALID_ARGUMENT,
                 "no learning-rate schedule of Weft");
    folder_.file("damaged", R"({"weft": "lr_scheduler", "identity": 3})");
    EXPECT_ERROR(booster.load_lr_scheduler(same, in("damaged")), WEFT_DATA_LOSS, "damaged is");
    EXPECT_ERROR(booster.load_lr_scheduler(same, in("nowhere")), WEFT_NOT_FOUND, "nowhere");
  });
}

}  // namespace
}  // namespace weft::test
