// What the bases of models carry beside decoders of text: a model of images without a vocabulary, and an
// encoder of tokens with types of their own, norms after the residual, a pooler, a tied decoder with its own
// bias and two losses.
#include <ATen/ops/conv2d.h>

#include "base/text.hpp"
#include "booster/estimate.hpp"
#include "opening/model_data.hpp"
#include "plugins/support/parity.hpp"
#include "support/expect_error.hpp"
#include "support/temporary_folder.hpp"
#include "weft/nn/classifiers.hpp"
#include "weft/nn/language_head.hpp"
#include "weft/nn/masks.hpp"
#include "weft/nn/row_labels.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::test {

namespace {

constexpr int64_t kWidth = 16, kInner = 20, kClasses = 3, kPatches = 4, kVocabulary = 23, kLongest = 9;

at::Tensor on_meta(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

class EncoderAttention final : public nn::Attention {
 public:
  explicit EncoderAttention(at::ScalarType dtype) {
    qkv = register_module("qkv", std::make_shared<nn::Linear>(kWidth, 3 * kWidth, true, dtype));
    out = register_module("out", std::make_shared<nn::Linear>(kWidth, kWidth, true, dtype));
  }
  std::vector<std::pair<std::string_view, int64_t*>> attributes() override {
    return {{"num_heads", &num_heads}};
  }
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const {
    const at::Tensor mixed = (*qkv)(x);
    return (*out)(attend(mixed.view({mixed.size(0), mixed.size(1), 3, num_heads, 4}), mask, {}));
  }

  int64_t num_heads = 4;
  std::shared_ptr<nn::Linear> qkv, out;
};

// Norms before the layers, or after the residual.
struct EncoderBlock final : torch::nn::Module {
  EncoderBlock(bool norms_first, at::ScalarType dtype) : norms_first(norms_first) {
    const auto norm = [&](const char* name) {
      return register_module(name, std::make_shared<nn::LayerNorm>(kWidth, 1e-5, dtype));
    };
    norm_1 = norm("norm_1");
    norm_2 = norm("norm_2");
    attention = register_module("attention", std::make_shared<EncoderAttention>(dtype));
    up = register_module("up", std::make_shared<nn::Linear>(kWidth, kInner, true, dtype));
    act = register_module("act", std::make_shared<nn::Activation>("gelu"));
    down = register_module("down", std::make_shared<nn::Linear>(kInner, kWidth, true, dtype));
  }
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& mask) const {
    const auto mlp = [&](const at::Tensor& y) { return (*down)((*act)((*up)(y))); };
    if (norms_first) {
      const at::Tensor attended = x + (*attention)((*norm_1)(x), mask);
      return attended + mlp((*norm_2)(attended));
    }
    const at::Tensor attended = (*norm_1)(x + (*attention)(x, mask));
    return (*norm_2)(attended + mlp(attended));
  }

  const bool norms_first;
  std::shared_ptr<nn::LayerNorm> norm_1, norm_2;
  std::shared_ptr<EncoderAttention> attention;
  std::shared_ptr<nn::Linear> up, down;
  std::shared_ptr<nn::Activation> act;
};

std::vector<std::unique_ptr<nn::Unit>> add_blocks(torch::nn::Module& base, bool norms_first,
                                                  at::ScalarType dtype) {
  const auto list = base.register_module("blocks", std::make_shared<torch::nn::Module>("blocks"));
  std::vector<std::unique_ptr<nn::Unit>> units;
  for (const char* name : {"0", "1"}) {
    const auto block = list->register_module(name, std::make_shared<EncoderBlock>(norms_first, dtype));
    units.push_back(
        nn::make_unit(std::string("blocks.") + name, {block.get()}, [block = block.get()](State& state) {
          const at::Tensor mask = nn::find_or_undefined(state, nn::kAttentionMask);
          state.set(nn::kHidden, (*block)(state.at(nn::kHidden), mask));
        }));
  }
  return units;
}

nn::Initial initial_of(std::string_view parameter) {
  const bool scales = parameter.find("norm") != std::string_view::npos && parameter.ends_with("weight");
  return scales ? nn::Initial::constant(1) : nn::Initial::normal(0, 0.3);
}

// Patches by convolution, a class token before them, positions learned for all.
struct ImageEmbeddings final : torch::nn::Module {
  explicit ImageEmbeddings(at::ScalarType dtype) {
    weight = register_parameter("weight", on_meta({kWidth, 3, 2, 2}, dtype));
    bias = register_parameter("bias", on_meta({kWidth}, dtype));
    class_token = register_parameter("class_token", on_meta({1, 1, kWidth}, dtype));
    positions = register_parameter("positions", on_meta({1, kPatches + 1, kWidth}, dtype));
  }
  at::Tensor operator()(const at::Tensor& pixels) const {
    const at::Tensor patches = at::conv2d(pixels, weight, bias, /*stride=*/2).flatten(2).transpose(1, 2);
    return at::cat({class_token.expand({pixels.size(0), 1, kWidth}), patches}, 1) + positions;
  }

  at::Tensor weight, bias, class_token, positions;
};

// Classifies an image by its class token.
class ImageHead final : public nn::Head {
 public:
  ImageHead(torch::nn::Module& model, at::ScalarType dtype) {
    classifier_ =
        model.register_module("classifier", std::make_shared<nn::Linear>(kWidth, kClasses, true, dtype));
  }
  std::vector<std::string> fields() const override { return {nn::kLabels}; }
  void prepare(const nn::BatchFields& batch, at::IntArrayRef positions, State&) const override {
    labels_.check(batch, positions[0]);
  }
  std::vector<torch::nn::Module*> modules() const override { return {classifier_.get()}; }
  void forward(const Finish& finish, State& state) const override {
    state.set("logits", (*classifier_)(finish(nn::take(state, nn::kHidden).select(1, 0))));
  }
  std::vector<nn::LossTerm> loss(const State& outputs, const Batch& batch) const override {
    return labels_.loss(outputs.at("logits"), batch);
  }
  std::vector<nn::LossCount> counts(const Batch& batch, at::IntArrayRef) const override {
    return labels_.counts(batch);
  }

 private:
  const nn::ClassLabels labels_{{kClasses, ""}};
  std::shared_ptr<nn::Linear> classifier_;
};

class ImageModel final : public nn::StackModel {
 public:
  explicit ImageModel(at::ScalarType dtype)
      : StackModel(Config::parse("{}", "image"), {"ImageModel", "", kWidth, dtype}) {
    const auto embeddings = register_module("embeddings", std::make_shared<ImageEmbeddings>(dtype));
    auto prologue =
        nn::make_unit("prologue", {embeddings.get()}, [embeddings = embeddings.get()](State& state) {
          state.set(nn::kHidden, (*embeddings)(nn::take(state, "pixel_values")));
        });
    std::vector<std::unique_ptr<nn::Unit>> blocks = add_blocks(*this, true, dtype);
    const auto norm = register_module("norm", std::make_shared<nn::LayerNorm>(kWidth, 1e-5, dtype));
    assemble(nn::make_dense_inputs({"pixel_values", {3, 4, 4}, kPatches + 1, dtype}), std::move(prologue),
             std::move(blocks), nn::last_layer(norm), std::make_unique<ImageHead>(*this, dtype));
  }
  nn::Initial initial(std::string_view parameter) const override { return initial_of(parameter); }
};

// Predicts masked tokens through a transform and a tied decoder, and the order of two sentences out of the
// first position.
class PreTrainingHead final : public nn::Head {
 public:
  PreTrainingHead(torch::nn::Module& model, const nn::Embedding& words, at::ScalarType dtype)
      : language_(model, {.channels = kWidth,
                          .vocabulary = kVocabulary,
                          .dtype = dtype,
                          .module = "decoder",
                          .bias = true,
                          .tied = &words,
                          .tied_name = "words.weight",
                          .term = "masked_loss",
                          .shifts = false}) {
    const auto linear = [&](const char* name, int64_t out) {
      return model.register_module(name, std::make_shared<nn::Linear>(kWidth, out, true, dtype));
    };
    transform_ = linear("transform", kWidth);
    pooler_ = linear("pooler", kWidth);
    order_ = linear("order", 2);
  }
  std::vector<std::string> fields() const override { return {nn::kLabels, kOrder}; }
  void prepare(const nn::BatchFields& batch, at::IntArrayRef positions, State& state) const override {
    language_.prepare(batch, positions, state);
    if (!batch.has(kOrder)) return;
    batch.require_shape(kOrder, {{positions[0]}});
    batch.require_range(kOrder, 2, true);
  }
  std::vector<torch::nn::Module*> modules() const override {
    std::vector<torch::nn::Module*> modules = language_.modules();
    modules.insert(modules.end(), {transform_.get(), pooler_.get(), order_.get()});
    return modules;
  }
  void forward(const Finish& finish, State& state) const override {
    const at::Tensor pooled = (*pooler_)(finish(state.at(nn::kHidden)).select(1, 0)).tanh();
    language_.forward([&](const at::Tensor& x) { return (*transform_)(finish(x)).tanh(); }, state);
    state.set("order_logits", (*order_)(pooled));
  }
  std::vector<nn::LossTerm> loss(const State& outputs, const Batch& batch) const override {
    std::vector<nn::LossTerm> terms = language_.loss(outputs, batch);
    if (batch.has(kOrder))
      terms.push_back(
          {"order_loss", 0.5, nn::RowLabels{batch.at(kOrder)}.cross_entropy(outputs.at("order_logits"))});
    return terms;
  }
  std::vector<nn::LossCount> counts(const Batch& batch, at::IntArrayRef positions) const override {
    std::vector<nn::LossCount> counts = language_.counts(batch, positions);
    if (batch.has(kOrder)) counts.push_back({"order_loss", nn::RowLabels{batch.at(kOrder)}.count()});
    return counts;
  }
  std::vector<nn::Tie> ties() const override { return language_.ties(); }

 private:
  static constexpr const char* kOrder = "next_sentence_label";

  nn::LanguageHead language_;
  std::shared_ptr<nn::Linear> transform_, pooler_, order_;
};

class TextEncoder final : public nn::TokenStackModel {
 public:
  explicit TextEncoder(at::ScalarType dtype)
      : TokenStackModel(Config::parse("{}", "text"), {"TextEncoder", "", kWidth, dtype},
                        {.vocabulary = kVocabulary,
                         .positions = kLongest,
                         .positions_key = "positions",
                         .token_types = 2}) {
    const auto embedding = [&](const char* name, int64_t count) {
      return register_module(name, std::make_shared<nn::Embedding>(count, kWidth, dtype));
    };
    words_ = embedding("words", kVocabulary);
    types_ = embedding("types", 2);
    positions_ = embedding("positions", kLongest);
    norm_ = register_module("norm", std::make_shared<nn::LayerNorm>(kWidth, 1e-5, dtype));
    std::vector<std::unique_ptr<nn::Unit>> blocks = add_blocks(*this, false, dtype);
    assemble(nn::make_unit("prologue", {words_.get(), types_.get(), positions_.get(), norm_.get()},
                           [this](State& state) { embed(state); }),
             std::move(blocks), {}, std::make_unique<PreTrainingHead>(*this, *words_, dtype));
  }
  nn::Initial initial(std::string_view parameter) const override { return initial_of(parameter); }

 private:
  void embed(State& state) const {
    const at::Tensor ids = nn::take(state, nn::kInputIds);
    const at::Tensor places = at::arange(ids.size(1), ids.options()).unsqueeze(0);
    const at::Tensor types =
        state.has(nn::kTokenTypes) ? nn::take(state, nn::kTokenTypes) : at::zeros_like(ids);
    state.set(nn::kHidden, (*norm_)((*words_)(ids) + (*types_)(types) + (*positions_)(places)));
  }

  std::shared_ptr<nn::Embedding> words_, types_, positions_;
  std::shared_ptr<nn::LayerNorm> norm_;
};

Model image_model(const std::string& precision = "fp32") {
  return Model::adopt(std::make_shared<ImageModel>(precision_dtype(precision)));
}
Model text_encoder(const std::string& precision = "fp32") {
  return Model::adopt(std::make_shared<TextEncoder>(precision_dtype(precision)));
}

Batch image_batch(int64_t samples, int64_t seed) {
  at::manual_seed(static_cast<uint64_t>(seed));
  return {{"pixel_values", at::randn({samples, 3, 4, 4})}, {"labels", at::randint(kClasses, {samples})}};
}

// The samples end at different positions, and only some tokens are masked.
Batch text_batch(int64_t samples, int64_t seed) {
  Batch batch = gpt2_batch(samples, seed);
  const at::Tensor ids = batch.at("input_ids");
  const at::Tensor ends = at::arange(samples).remainder(3).unsqueeze(1) + ids.size(1) - 2;
  batch.set("attention_mask", at::arange(ids.size(1)).unsqueeze(0).lt(ends).to(at::kLong));
  batch.set("token_type_ids", at::arange(ids.size(1)).ge(3).to(at::kLong).expand_as(ids).contiguous());
  batch.set("next_sentence_label", at::arange(samples).remainder(2));
  return batch;
}

Trial image_trial() {
  return {.tolerance = 5e-5,
          .without_gradient = {},
          .model = [](const JobOptions& options) { return image_model(options.precision); },
          .batch = [](int64_t step) { return image_batch(6, step); }};
}
Trial text_trial() {
  return {.tolerance = 5e-5,
          .without_gradient = {},
          .model = [](const JobOptions& options) { return text_encoder(options.precision); },
          .batch = [](int64_t step) { return text_batch(6, step); }};
}

constexpr const char* kBlocks = R"(
  {"on": "blocks.*.attention.qkv", "operation": "weft.linear_column/1", "fused": 3},
  {"on": "blocks.*.up", "operation": "weft.linear_column/1"},
  {"on": "blocks.*.attention.out, blocks.*.down", "operation": "weft.linear_row/1"},
  {"divide": "blocks.*.attention", "attribute": "num_heads", "by": "tensor_size"})";
constexpr const char* kVocabularies = R"(,
  {"on": "words", "operation": "weft.embedding_vocab/1"},
  {"on": "decoder", "operation": "weft.linear_vocab/1", "parallel_output": "parallel_output"},
  {"tie": ["decoder.weight", "words.weight"]})";

std::string policy_file(const TemporaryFolder& folder, const std::string& entries) {
  return folder.file("policy.json", fmt::format(R"({{"name": "bases", "entries": [{}]}})", entries));
}

void expect_training_of_one_rank(const Trial& trial, const std::string& entries) {
  const TemporaryFolder folder;
  const std::string policy = policy_file(folder, entries);
  std::vector<Case> cases;
  for (const char* strategy : {"torch_ddp", "torch_fsdp", "low_level_zero", "gemini"})
    cases.push_back({{.strategy = strategy}, trial});
  cases.push_back({{.strategy = "hybrid_parallel",
                    .options = fmt::format(R"({{"tp_size": 2, "custom_policy": "{}"}})", policy)},
                   trial});
  cases.push_back(
      {{.strategy = "hybrid_parallel", .options = R"({"zero_stage": 1})", .recompute = "all"}, trial});
  expect_gradients_of_one_rank(cases, 2);
}

TEST(ImageModel, TrainsUnderEveryStrategyAsOnOneRank) {
  expect_training_of_one_rank(image_trial(), kBlocks);
}

TEST(TextEncoder, TrainsUnderEveryStrategyAsOnOneRank) {
  expect_training_of_one_rank(text_trial(), std::string(kBlocks) + kVocabularies);
}

// The fields of a batch under the names, shapes and types that the units then pass on.
void expect_boundaries(const Model& model, const Batch& batch) {
  Job job = boost(one_rank(), model);
  nn::Model& module = model.module();
  State state = module.input(batch);
  const std::vector<nn::Unit*> units = module.units();
  for (size_t index = 0; index < units.size(); ++index) {
    const std::vector<nn::FieldShape> fields = module.boundary(batch, index);
    ASSERT_EQ(fields.size(), state.size()) << units[index]->name();
    for (size_t i = 0; const auto& [name, tensor] : state) {
      EXPECT_EQ(fields[i].name, name) << units[index]->name();
      EXPECT_EQ(at::IntArrayRef(fields[i].shape), tensor.sizes()) << name;
      EXPECT_EQ(fields[i].dtype, tensor.scalar_type()) << name;
      EXPECT_EQ(fields[i++].differentiable, tensor.requires_grad()) << name;
    }
    units[index]->forward(state);
  }
  for (const char* left : {"hidden", "attention_mask"}) EXPECT_FALSE(state.has(left));
}

TEST(ImageModel, PassesTheFieldsThatBoundarySays) {
  expect_boundaries(image_model(), image_batch(2, 1));
}

TEST(TextEncoder, PassesTheFieldsThatBoundarySays) {
  expect_boundaries(text_encoder(), text_batch(3, 1));
}

TEST(ImageModel, HasASequenceOfPatchesAndNoVocabulary) {
  const Model model = image_model();
  const std::vector<nn::SequenceLength> lengths = model.module().lengths(image_batch(2, 1));
  ASSERT_EQ(lengths.size(), 1);
  EXPECT_EQ(lengths[0].positions, kPatches + 1);
  EXPECT_EQ(lengths[0].rows, 2);
  EXPECT_ERROR(require_vocabulary(model, "weft generate"), WEFT_INVALID_ARGUMENT, "ImageModel", "text alone",
               "weft generate");
  EXPECT_EQ(require_vocabulary(text_encoder(), "weft generate").vocabularies().back().size, 2);
}

TEST(ImageModel, RefusesWhatIsOfTokens) {
  const Model model = image_model();
  EXPECT_ERROR(open_dataset(model, "corpus.txt", 0, data::TokenType::kUint16, own_name),
               WEFT_INVALID_ARGUMENT, "corpus.txt", "ImageModel", "text alone", ".safetensors");
  EXPECT_ERROR(open_dataset(model, "images.safetensors", 32, data::TokenType::kUint16, own_name),
               WEFT_INVALID_ARGUMENT, "sequence_length is 32", "text alone");
  EXPECT_ERROR(model.module().input({{"pixel_values", at::zeros({2, 3, 4, 5})}}), WEFT_INVALID_ARGUMENT,
               "ImageModel", "pixel_values", "[2, 3, 4, 5]", "[2, 3, 4, 4]");
  EXPECT_ERROR(model.module().input({{"input_ids", at::zeros({2, 3}, at::kLong)}}), WEFT_INVALID_ARGUMENT,
               "no input \"input_ids\"", "pixel_values");
  const TemporaryFolder folder;
  const std::string policy = policy_file(folder, kBlocks);
  on_ranks({2}, [&](World& world) {
    const JobOptions options = {
        .strategy = "hybrid_parallel",
        .options = fmt::format(
            R"({{"tp_size": 2, "make_vocab_size_divisible_by": 8, "custom_policy": "{}"}})", policy)};
    EXPECT_ERROR(boost(world, image_model(), options), WEFT_UNIMPLEMENTED, "plan of ImageModel",
                 "make_vocab_size_divisible_by is 8", "no vocabulary");
  });
}

// What a forward saves grows with the samples; an image has no other size.
TEST(ImageModel, HasAnEstimateOfItsActivations) {
  const BoosterOptions none = {.strategy = "none"};
  const std::optional<int64_t> one = activation_bytes(image_model(), none, {.batch_size = 1}),
                               two = activation_bytes(image_model(), none, {.batch_size = 2});
  ASSERT_TRUE(one && two);
  EXPECT_GT(*two, *one);
}

}  // namespace

}  // namespace weft::test
