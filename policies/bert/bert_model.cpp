// BERT: embeddings, blocks and a head.
#include "bert_model.hpp"

#include <array>

#include "bert_heads.hpp"
#include "bert_layers.hpp"
#include "weft/nn/architecture.hpp"
#include "weft/nn/stack_model.hpp"

namespace weft::bert {

namespace {

using Architecture = nn::Architecture<HeadSetting>;

constexpr const char* kCausal = "BertLMHeadModel";

constexpr std::array<Architecture, 9> kArchitectures = {{
    {"BertModel", "", base_head},
    {"BertForPreTraining", "bert.", pre_training_head},
    {kCausal, "bert.", next_token_head},
    {"BertForMaskedLM", "bert.", masked_token_head},
    {"BertForSequenceClassification", "bert.", sequence_classifier},
    {"BertForTokenClassification", "bert.", token_classifier},
    {"BertForNextSentencePrediction", "bert.", next_sentence_head},
    {"BertForMultipleChoice", "bert.", choice_classifier},
    {"BertForQuestionAnswering", "bert.", answer_head},
}};

class BertModel final : public nn::TokenStackModel {
 public:
  BertModel(const Config& config, const BertConfig& bert, const Architecture& architecture,
            at::ScalarType dtype);
  nn::Initial initial(std::string_view parameter) const override;
  bool may_begin_new(std::string_view parameter) const override;
  bool ignored_on_load(std::string_view entry) const override;
  bool continues_text() const override { return bert_.is_decoder && traits().architecture == kCausal; }

 private:
  const BertConfig bert_;
};

BertModel::BertModel(const Config& config, const BertConfig& bert, const Architecture& architecture,
                     at::ScalarType dtype)
    : TokenStackModel(
          config, {std::string(architecture.name), std::string(architecture.prefix), bert.hidden_size, dtype},
          {.vocabulary = bert.vocab_size,
           .positions = bert.max_position_embeddings,
           .positions_key = "max_position_embeddings",
           .token_types = bert.type_vocab_size,
           .packs = true,
           .positions_mark_documents = false}),
      bert_(bert) {
  const auto embeddings = base().register_module("embeddings", std::make_shared<Embeddings>(bert, dtype));
  auto prologue =
      nn::make_unit("prologue", {embeddings.get()}, [embeddings = embeddings.get()](State& state) {
        const auto take = [&](const char* name) {
          const at::Tensor field = nn::find_or_undefined(state, name);
          state.erase(name);
          return field;
        };
        const at::Tensor ids = take(nn::kInputIds), types = take(nn::kTokenTypes),
                         positions = take(nn::kPositions);
        state.set(nn::kHidden, (*embeddings)(ids, types, positions));
      });
  std::vector<std::unique_ptr<nn::Unit>> blocks = nn::make_blocks(
      base(), "encoder.layer", bert.num_hidden_layers,
      [&](int64_t) { return std::make_shared<Block>(bert_, dtype); }, nn::run_masked<Block>);
  assemble(std::move(prologue), std::move(blocks), {},
           architecture.make_head({*this, base(), *embeddings->word_embeddings, config, bert_, dtype}));
}

nn::Initial BertModel::initial(std::string_view parameter) const {
  if (parameter.ends_with("bias")) return nn::Initial::constant(0);
  if (parameter.ends_with("LayerNorm.weight")) return nn::Initial::constant(1);
  const nn::Initial weights = nn::Initial::weights(bert_.initializer_range);
  if (!parameter.ends_with("word_embeddings.weight")) return weights;
  return weights.with_padding(bert_.padding_row(), bert_.hidden_size);
}

// Half of the classes have no pooler in the base model.
bool BertModel::may_begin_new(std::string_view parameter) const {
  return Model::may_begin_new(parameter) || parameter.starts_with(base_prefix() + "pooler.");
}

bool BertModel::ignored_on_load(std::string_view entry) const {
  return entry.ends_with("embeddings.position_ids");  // a buffer of old checkpoints
}

}  // namespace

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return std::make_shared<BertModel>(config, BertConfig::read(config),
                                     nn::find_architecture(kArchitectures, "bert", architecture), dtype);
}

}  // namespace weft::bert
