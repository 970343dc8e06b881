// Descriptions of GPT-2 and of small models, and policies made of lambdas, for the tests of plans.
#pragma once

#include <gtest/gtest.h>
#include <weft/shard_policy.h>

#include <string>
#include <vector>
#include <weft/error.hpp>

#include "base/text.hpp"
#include "plan/plan.hpp"

namespace weft::plan::test {

inline constexpr ParallelSizes kTwoRanks = {.tensor = 2};
inline constexpr ParallelSizes kSplit = {.tensor = 2, .sequence_mode = "split_gather"};
inline constexpr ParallelSizes kRing = {.sequence = 2, .sequence_mode = "ring_attn"};

// The arguments of a policy's build, with shorter calls.
struct Call {
  const weft_model_view* model;
  const weft_parallel* parallel;
  const weft_plan_builder* plan;
  weft_error* error;

  weft_status on(const std::string& pattern, const std::string& operation,
                 const std::vector<weft_kv>& attributes = {}) const {
    return plan->replace(plan->plan, borrow(pattern), borrow(operation), attributes.data(), attributes.size(),
                         error);
  }
  weft_status divide(const std::string& pattern, const std::string& attribute, int64_t by) const {
    return plan->divide(plan->plan, borrow(pattern), borrow(attribute), by, error);
  }
  weft_status tie(const std::string& first, const std::string& second) const {
    return plan->tie(plan->plan, borrow(first), borrow(second), error);
  }
  weft_status require_divides(const std::string& key, int64_t divisor) const {
    return plan->require_divides(plan->plan, borrow(key), divisor, error);
  }
};

inline weft_kv flag(const char* key, bool value) {
  return {borrow(key), WEFT_KIND_BOOL, 0, value, 0, {nullptr, 0}};
}
inline weft_kv integer(const char* key, int64_t value) {
  return {borrow(key), WEFT_KIND_INT, 0, value, 0, {nullptr, 0}};
}
inline weft_kv text(const char* key, const char* value) {
  return {borrow(key), WEFT_KIND_TEXT, 0, 0, 0, borrow(value)};
}

// Makes a policy called "invented" of a lambda: void(const Call&).
template <class Body>
Policy policy(Body body) {
  return {"invented",
          [body](weft_str, const weft_model_view* model, const weft_parallel* parallel,
                 const weft_plan_builder* plan, weft_error* error) -> weft_status {
            body(Call{model, parallel, plan, error});
            return WEFT_OK;
          }};
}

inline Node node(std::string path, std::string kind, std::vector<ParameterShape> params = {}) {
  return {std::move(path), std::move(kind), std::move(params)};
}

struct Gpt2 {
  std::string architecture = "GPT2LMHeadModel";
  int64_t layers = 2, embedding = 12, heads = 4, vocabulary = 101, positions = 16, labels = 3;
  bool tied = true;

  // Returns the description, with paths relative to the base model like those of describe_model.
  ModelDescription describe() const {
    ModelDescription model;
    model.architecture = architecture;
    model.config_json =
        fmt::format(R"({{"model_type": "gpt2", "n_head": {}, "n_embd": {}, "tie_word_embeddings": {}}})",
                    heads, embedding, tied);
    const int64_t e = embedding;
    model.nodes = {node("wte", "Embedding", {{"weight", {vocabulary, e}}}),
                   node("wpe", "Embedding", {{"weight", {positions, e}}}), node("drop", "Dropout"),
                   node("h", "Module")};
    const auto norm = [&](const std::string& path) {
      return node(path, "LayerNorm", {{"weight", {e}}, {"bias", {e}}});
    };
    const auto conv = [&](const std::string& path, int64_t in, int64_t out) {
      return node(path, "Conv1D", {{"weight", {in, out}}, {"bias", {out}}});
    };
    for (int64_t layer = 0; layer < layers; ++layer) {
      const std::string h = fmt::format("h.{}", layer);
      Node attention = node(h + ".attn", "Attention");
      attention.attributes = {{"num_heads", heads}};
      for (Node& added : std::vector<Node>{
               node(h, "Block"), norm(h + ".ln_1"), attention, conv(h + ".attn.c_attn", e, 3 * e),
               conv(h + ".attn.c_proj", e, e), node(h + ".attn.attn_dropout", "AttentionDropout"),
               node(h + ".attn.resid_dropout", "Dropout"), norm(h + ".ln_2"), node(h + ".mlp", "MLP"),
               conv(h + ".mlp.c_fc", e, 4 * e), conv(h + ".mlp.c_proj", 4 * e, e),
               node(h + ".mlp.act", "Activation"), node(h + ".mlp.dropout", "Dropout")}) {
        model.nodes.push_back(std::move(added));
      }
    }
    model.nodes.push_back(node("stream_end", "Identity"));
    model.nodes.push_back(norm("ln_f"));
    const size_t in_sequence = model.nodes.size() - 1;
    add_heads(model);
    for (size_t i = in_sequence; i < model.nodes.size(); ++i) model.nodes[i].order = 1;
    return model;
  }

 private:
  void add_heads(ModelDescription& model) const {
    const auto linear = [&](const char* path, int64_t out, bool bias) {
      Node head = node(path, "Linear", {{"weight", {out, embedding}}});
      if (bias) head.params.push_back({"bias", {out}});
      model.nodes.push_back(std::move(head));
    };
    if (architecture == "GPT2LMHeadModel" || architecture == "GPT2DoubleHeadsModel") {
      linear("lm_head", vocabulary, false);
      if (tied) model.ties = {{"lm_head.weight", "wte.weight"}};
    }
    if (architecture == "GPT2DoubleHeadsModel") {
      model.nodes.push_back(node("multiple_choice_head", "Module"));
      linear("multiple_choice_head.summary", 1, true);
    }
    if (architecture == "GPT2ForSequenceClassification") linear("score", labels, false);
    if (architecture == "GPT2ForTokenClassification") linear("classifier", labels, true);
    if (architecture == "GPT2ForQuestionAnswering") linear("qa_outputs", 2, true);
  }
};

// Returns the text of the error INVALID_ARGUMENT that `body` throws. Fails the test if it throws none.
template <class Body>
std::string refusal_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), WEFT_INVALID_ARGUMENT);
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

// The same of build_plan.
template <class AnyPolicy>
std::string refusal(const ModelDescription& model, const AnyPolicy& policy, const ParallelSizes& sizes = {}) {
  return refusal_of([&] { build_plan(model, policy, sizes); });
}

}  // namespace weft::plan::test

#define EXPECT_TELLS(message, part) \
  EXPECT_NE(message.find(part), std::string::npos) << "the message was: " << message
