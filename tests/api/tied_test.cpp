// Tied parameters in files, which have them under one of their names or under both.
#include "api/checkpoint_test.hpp"
#include "support/expect_error.hpp"

namespace weft::test {
namespace {

class Tied : public CheckpointTest {};

TEST_F(Tied, AnUntiedHeadIsOfItsOwn) {
  options_.model = folder_.file("config.json", config_json({.tied = false}));
  on_ranks({1}, [&](World& world) {
    Booster booster({}, world);
    Job base = make(world, 1, "GPT2Model");
    Job head = make(world, 2);
    booster.save_model(base.model, in("base"));
    booster.save_model(head.model, in("head"));
    EXPECT_TRUE(read_safetensors(in("head/model.safetensors")).contains("lm_head.weight"));
    EXPECT_ERROR(booster.load_model(head.model, in("base")), WEFT_INVALID_ARGUMENT,
                 "missing [lm_head.weight]");
    EXPECT_ERROR(booster.load_model(base.model, in("head")), WEFT_INVALID_ARGUMENT,
                 "unexpected [lm_head.weight]");
    booster.load_model(head.model, in("base"), false);
    EXPECT_TRUE(at::equal(parameter(head, "transformer.wte.weight"), parameter(base, "wte.weight")));
  });
}

TEST_F(Tied, AreReadUnderEitherName) {
  save_changed([](RawTensors& tensors) {
    EXPECT_FALSE(tensors.contains("lm_head.weight"));
    tensors["lm_head.weight"] = std::move(tensors["transformer.wte.weight"]);
    tensors.erase("transformer.wte.weight");
  });
  on_ranks({1}, [&](World& world) { expect_same_model(make(world, 1), make(world, 2, "", in("out"))); });
}

TEST_F(Tied, HaveOneValueUnderBothNames) {
  save_changed([](RawTensors& tensors) { tensors["lm_head.weight"] = tensors.at("transformer.wte.weight"); });
  on_ranks({1}, [&](World& world) { expect_same_model(make(world, 1), make(world, 2, "", in("out"))); });
  save_changed([](RawTensors& tensors) {
    tensors["lm_head.weight"] = tensors.at("transformer.wte.weight");
    tensors["lm_head.weight"].bytes.back() ^= 1;
  });
  on_ranks({2}, [&](World& world) {
    EXPECT_ERROR(make(world, 2, "", in("out")), WEFT_INVALID_ARGUMENT, in("out"), "transformer.wte.weight",
                 "lm_head.weight", "different values", "needs \"tie_word_embeddings\": false", "the entry");
  });
}

// A value that is not equal to itself is the same as its copy.
TEST_F(Tied, MayHaveNanUnderBothNames) {
  const auto put_nan = [](RawTensor& tensor) {
    tensor.bytes.replace(tensor.bytes.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));
  };
  save_changed([&](RawTensors& tensors) {
    put_nan(tensors.at("transformer.wte.weight"));
    tensors["lm_head.weight"] = tensors.at("transformer.wte.weight");
  });
  on_ranks({1}, [&](World& world) {
    const Job job = make(world, 2, "", in("out"));
    const at::Tensor weight = parameter(job, "transformer.wte.weight");
    EXPECT_EQ(weight.isnan().sum().item<int64_t>(), 1);
    EXPECT_TRUE(weight.flatten()[-1].isnan().item<bool>());
  });
  save_changed([&](RawTensors& tensors) {
    tensors["lm_head.weight"] = tensors.at("transformer.wte.weight");
    put_nan(tensors.at("lm_head.weight"));
  });
  on_ranks({1}, [&](World& world) {
    EXPECT_ERROR(make(world, 2, "", in("out")), WEFT_INVALID_ARGUMENT, "lm_head.weight", "different values");
  });
}

}  // namespace
}  // namespace weft::test
