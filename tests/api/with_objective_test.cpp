// with_objective() in C++: the batches of ranks are parts of the same masked batch, bit for bit.
#include <ATen/ATen.h>
#include <weft/nn/model.hpp>

#include <filesystem>
#include <set>

#include "api/job.hpp"
#include "support/expect_error.hpp"
#include "support/launch_ranks.hpp"

namespace weft::test {
namespace {

constexpr const char* kBert =
    R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "vocab_size": 131,
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 32, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})";

class WithObjective : public testing::Test {
 protected:
  void SetUp() override { setenv("WEFT_PLUGIN_ADD_PATH", WEFT_TEST_PLUGINS, 1); }
  std::shared_ptr<data::Dataset> masked(const Model& model) const {
    return with_objective(model, data::text(text_, 32), options_);
  }
  ObjectiveOptions options_ = {
      .objective = "masked_lm", .mask_token_id = 3, .special_ids = std::vector<int64_t>{' ', '.'}, .seed = 9};

  TemporaryFolder folder_;
  std::string bert_ = folder_.file("config.json", kBert);
  std::string text_ = folder_.file("data.txt", sample_text(18 * 32));
};

// 18 samples are batches of 8, 8 and 2: on four ranks, two run stand-ins in the last one.
TEST_F(WithObjective, MasksTheSameTokensOnAnyNumberOfRanks) {
  on_ranks({1, 2, 4}, [&](World& world) {
    BoosterOptions options;
    options.accumulate = 2;
    Booster booster(options, world);
    Model model = Model::open(bert_);
    const auto dataset = masked(model);
    data::Loader loader = booster.prepare_dataloader(dataset, 8 / booster.data_size(), true, 7);
    optim::Optimizer optimizer("sgd", model.parameters(), {{"lr", 0.1}});
    Job job = booster.boost(model, optimizer, {}, loader);
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      const std::vector<int64_t> order = data::shuffling_sampler(7)->order(18, epoch);
      int64_t begin = 0;
      for (const Batch& batch : job.data) {
        const int64_t samples = std::min<int64_t>(8, 18 - begin), each = samples / world.size(),
                      longer = samples % world.size(),
                      first = begin + world.rank() * each + std::min<int64_t>(world.rank(), longer);
        if (!batch.empty) {
          const Batch expected =
              dataset->get_in_epoch({order.begin() + first, order.begin() + first + batch.samples()}, epoch);
          for (const char* field : {"input_ids", "labels"})
            EXPECT_TRUE(batch.at(field).equal(expected.at(field))) << field;
        }
        job.train_step(batch);
        begin += samples;
      }
      EXPECT_EQ(begin, 18);
    }
  });
}

TEST_F(WithObjective, NamesWhatAClassLearnsBy) {
  using Names = std::vector<std::string>;
  const Model bert = Model::open(bert_);
  EXPECT_EQ(objectives(bert), Names{"masked_lm"});
  EXPECT_EQ(objectives(Model::open(bert_, "BertForPreTraining")),
            (Names{"masked_lm_next_sentence", "masked_lm"}));
  EXPECT_EQ(objectives(Model::open(bert_, "BertForNextSentencePrediction")), Names{"next_sentence"});
  EXPECT_EQ(objectives(Model::open(bert_, "BertForTokenClassification")), Names());
  EXPECT_EQ(objectives(Model::open(bert_, "BertModel")), Names());
  const std::string gpt2 = folder_.file("gpt2.json", config_json());
  EXPECT_EQ(objectives(Model::open(gpt2)), Names{"causal_lm"});
  EXPECT_EQ(objectives(Model::open(gpt2, "GPT2DoubleHeadsModel")), Names{"causal_lm"});
  const std::string t5 = folder_.file("t5.json", R"({"model_type": "t5", "vocab_size": 131, "d_model": 8,
      "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0})");
  EXPECT_EQ(objectives(Model::open(t5, "T5ForConditionalGeneration")), Names());
  EXPECT_ERROR(with_objective(bert, nullptr, options_), WEFT_INVALID_ARGUMENT, "data set");
  ObjectiveOptions usual = options_;
  usual.objective = "";
  EXPECT_EQ(with_objective(bert, data::text(text_, 32), usual)->objective(), masked(bert)->objective());
}

TEST_F(WithObjective, NamesTheFieldsOfItsOptions) {
  const Model bert = Model::open(bert_), gpt2 = Model::open(folder_.file("gpt2.json", config_json()));
  const auto expect_refusal = [&](const Model& model, const ObjectiveOptions& options, const auto&... parts) {
    EXPECT_ERROR(with_objective(model, data::text(text_, 32), options), WEFT_INVALID_ARGUMENT, parts...);
  };
  expect_refusal(bert, {.objective = "mask_lm"}, "objective is \"mask_lm\", must be causal_lm");
  expect_refusal(bert, {.objective = "causal_lm"}, "objective causal_lm");
  expect_refusal(bert, {.objective = "masked_lm"}, "needs mask_token_id: ");
  expect_refusal(bert, {.mask_token_id = 131}, "mask_token_id is 131");
  expect_refusal(bert, {.mask_token_id = 3, .special_ids = std::vector<int64_t>{200}}, "special_ids has 200");
  expect_refusal(bert, {.mask_token_id = 3, .mlm_probability = 2.0}, "mlm_probability is 2");
  expect_refusal(bert, {.mask_token_id = 3, .mask_ratio = 0.5}, "mask_ratio", "objective masked_image");
  expect_refusal(gpt2, {.special_ids = std::vector<int64_t>()}, "special_ids", "objective masked_lm");
}

// As a program makes the pairs of BERT's pre-training: with the tokenizer's special tokens and types.
TEST_F(WithObjective, MasksPairsOfSentences) {
  std::filesystem::create_directory(folder_.path() + "/bert");
  folder_.file("bert/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n.\na\nb\n");
  folder_.file("bert/tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  const Tokenizer tokenizer = Tokenizer::open(folder_.path() + "/bert");
  const std::string text =
      folder_.file("text.jsonl", "{\"text\": \"a a. a a a.\"}\n{\"text\": \"b. b b b b b.\"}\n");
  const auto pairs =
      data::open_text({{text, {}}}, tokenizer,
                      {.sequence_length = 12, .labels = false, .sentence_labels = "next_sentence_label"});
  ASSERT_EQ(pairs->size(), 2);
  std::set<std::string> texts;
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    const Batch batch = pairs->get_in_epoch({0}, epoch);
    const at::Tensor ids = batch.at("input_ids")[0], types = batch.at("token_type_ids")[0];
    const int64_t used = batch.at("attention_mask").sum().item<int64_t>();
    const std::vector<int64_t> row(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + used);
    texts.insert(tokenizer.decode(row, false));
    // [CLS] a a . [SEP] are of the first type.
    EXPECT_TRUE(types.eq(at::arange(12).ge(5).logical_and(at::arange(12).lt(used))).all().item<bool>());
    EXPECT_EQ(batch.at("next_sentence_label").item<int64_t>(), ids.eq(7).any().item<int64_t>());
  }
  // In the last one the end of no sentence is near enough to the token that was drawn.
  EXPECT_EQ(texts, (std::set<std::string>{"[CLS] a a. [SEP] a a a. [SEP]", "[CLS] a a. [SEP] b b b b [SEP]",
                                          "[CLS] a a. [SEP] b b b. [SEP]"}));
  const Model bert = Model::open(bert_, "BertForPreTraining");
  const ObjectiveOptions options = {.objective = "masked_lm", .mask_token_id = 4, .special_ids = {{0, 2, 3}}};
  const Batch masked = with_objective(bert, pairs, options)->get({0, 1});
  EXPECT_NO_THROW(bert.module().input(masked));
  EXPECT_EQ(bert.module().counts(masked).size(), 2u);  // of masked tokens, and of pairs
  for (const char* objective : {"", "masked_lm_next_sentence"}) {
    ObjectiveOptions direct = options;
    direct.objective = objective;
    EXPECT_ERROR(with_objective(bert, data::text(text_, 32), direct), WEFT_INVALID_ARGUMENT,
                 "pairs sentences", "TextOptions::sentence_labels");
  }
}

TEST_F(WithObjective, TakesAVocabularyWithoutSpecialIds) {
  const Model bert = Model::open(bert_);
  const ObjectiveOptions none = {.mask_token_id = 3, .special_ids = std::vector<int64_t>()};
  const auto dataset = with_objective(bert, data::text(text_, 32), none),
             same = with_objective(bert, data::text(text_, 32), {.mask_token_id = 3});
  EXPECT_EQ(dataset->objective(), same->objective());
  EXPECT_TRUE(dataset->get({0, 1}).at("labels").equal(same->get({0, 1}).at("labels")));
}

TEST_F(WithObjective, MasksNoSpecialToken) {
  const Batch plain = data::text(text_, 32)->get({0, 1, 2, 3, 4, 5, 6, 7}),
              batch = masked(Model::open(bert_))->get({0, 1, 2, 3, 4, 5, 6, 7});
  const at::Tensor ids = plain.at("input_ids"), special = ids.eq(' ').logical_or(ids.eq('.'));
  EXPECT_GT(special.sum().item<int64_t>(), 20);
  EXPECT_TRUE(batch.at("labels").masked_select(special).eq(-100).all().item<bool>());
  EXPECT_TRUE(batch.at("input_ids").masked_select(special).equal(ids.masked_select(special)));
  EXPECT_GT(batch.at("labels").ne(-100).sum().item<int64_t>(), 10);
}

}  // namespace
}  // namespace weft::test
