// The suite for shard policies names what is wrong with each of many wrong ones, and passes right ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "contract/policy.hpp"
#include "support/slice.hpp"
#include "support/temporary_folder.hpp"

namespace weft::contract {
namespace {

using nlohmann::json;
using Change = std::function<void(json& entries)>;

constexpr const char* kColumn = "weft.linear_column/1";
constexpr const char* kWhole = "weft.linear/1";

// Right in every layout: all positions are gathered before the head.
json base_policy(const std::string& family) {
  if (family == "gpt2")
    return json::parse(R"([
      {"on": "wte", "operation": "weft.embedding_vocab/1"},
      {"on": "wpe", "operation": "weft.embedding/1"},
      {"on": "h.*.attn.c_attn", "operation": "weft.linear_column/1", "layout": "in_out", "fused": 3},
      {"on": "h.*.attn.c_proj", "operation": "weft.linear_row/1", "layout": "in_out"},
      {"on": "h.*.mlp.c_fc", "operation": "weft.linear_column/1", "layout": "in_out"},
      {"on": "h.*.mlp.c_proj", "operation": "weft.linear_row/1", "layout": "in_out"},
      {"on": "h.*.attn", "operation": "weft.attention/1"},
      {"on": "stream_end", "operation": "weft.sequence_end/1"},
      {"divide": "h.*.attn", "attribute": "num_heads", "by": "tensor_size"}])");
  return json::parse(R"([
      {"on": "embed_tokens", "operation": "weft.embedding_vocab/1"},
      {"on": "stream_end", "operation": "weft.sequence_end/1"},
      {"on": "layers.*.self_attn.q_proj", "operation": "weft.linear_column/1", "input": "shared", "heads": 4},
      {"on": "layers.*.self_attn.[kv]_proj", "operation": "weft.linear_column/1", "input": "shared", "heads": 4},
      {"on": "layers.*.self_attn", "operation": "weft.attention/1"},
      {"on": "layers.*.self_attn.o_proj", "operation": "weft.linear_row/1"},
      {"divide": "layers.*.self_attn", "attribute": "num_heads", "by": "tensor_size"},
      {"divide": "layers.*.self_attn", "attribute": "num_key_value_heads", "by": "tensor_size"},
      {"on": "layers.*.mlp.gate_proj", "operation": "weft.linear_column/1", "input": "shared"},
      {"on": "layers.*.mlp.up_proj", "operation": "weft.linear_column/1", "input": "shared"},
      {"on": "layers.*.mlp.down_proj", "operation": "weft.linear_row/1"},
      {"on": "lm_head", "operation": "weft.linear_vocab/1"}])");
}

Change without(std::string pattern) {
  return [=](json& entries) {
    entries.erase(std::remove_if(entries.begin(), entries.end(),
                                 [&](const json& entry) {
                                   return entry.value("on", entry.value("divide", "")) == pattern &&
                                          (pattern != "h.*.attn" || entry.contains("on"));
                                 }),
                  entries.end());
  };
}
Change undivided(std::string attribute) {
  return [=](json& entries) {
    entries.erase(
        std::remove_if(entries.begin(), entries.end(),
                       [&](const json& entry) { return entry.value("attribute", "") == attribute; }),
        entries.end());
  };
}
Change add(json entry) {
  return [=](json& entries) { entries.push_back(entry); };
}
Change with(std::string pattern, json attributes) {
  return [=](json& entries) {
    for (json& entry : entries)
      if (entry.value("on", "") == pattern) entry.merge_patch(attributes);
  };
}
// Gives a layer that is split another operation, without the attributes of the old one.
Change instead(std::string pattern, const char* operation) {
  return [=](json& entries) {
    without(pattern)(entries);
    entries.push_back({{"on", pattern}, {"operation", operation}});
    if (pattern.find("mlp.c") != std::string::npos && operation != std::string(kWhole))
      entries.back()["layout"] = "in_out";
  };
}
Change all(std::vector<Change> changes) {
  return [=](json& entries) {
    for (const Change& change : changes) change(entries);
  };
}

const json kHead = {{"on", "lm_head"}, {"operation", "weft.linear_vocab/1"}};
const json kTie = {{"tie", {"lm_head.weight", "wte.weight"}}};

struct Planted {
  std::string name;
  std::string layout;  // in which it must be found; empty: it is right in every layout
  std::string family, architecture;
  Change change;
};

std::vector<Planted> planted() {
  std::vector<Planted> all_planted;
  const auto gpt2 = [&](const char* name, const char* layout, const Change& change) {
    all_planted.push_back({name, layout, "gpt2", "GPT2LMHeadModel", change});
  };
  const auto language = [&](const char* name, const char* layout, const Change& change) {
    gpt2(name, layout, all({add(kHead), add(kTie), change}));
  };
  const auto classifier = [&](const char* name, const char* layout, const Change& change) {
    all_planted.push_back({name, layout, "gpt2", "GPT2ForSequenceClassification", change});
  };
  const auto llama = [&](const char* name, const char* layout, const Change& change) {
    all_planted.push_back({name, layout, "llama", "LlamaForCausalLM", change});
  };
  const Change nothing = [](json&) {};
  language("right", "", nothing);
  llama("right", "", nothing);
  classifier("right", "", nothing);
  language("right: positions over the vocabulary", "",
           with("wpe", {{"operation", "weft.embedding_vocab/1"}}));
  language("the heads are not divided", "tp_size 2", undivided("num_heads"));
  language("q, k, v split as one part", "tp_size 2", with("h.*.attn.c_attn", {{"fused", 1}}));
  language("six parts", "tp_size 2", with("h.*.attn.c_attn", {{"fused", 6}}));
  language("twelve parts", "tp_size 2", with("h.*.attn.c_attn", {{"fused", 12}}));
  language("interleaved", "tp_size 2",
           with("h.*.attn.c_attn", {{"heads", 4}, {"key_heads", 4}, {"interleaved", true}}));
  language("a fused MLP", "tp_size 2", with("h.*.mlp.c_fc", {{"fused", 2}}));
  gpt2("no entry for the tied head", "tp_size 2", nothing);
  language("attention without its row layer", "tp_size 2", without("h.*.attn.c_proj"));
  language("MLP without its row layer", "tp_size 2", without("h.*.mlp.c_proj"));
  language("MLP without its column layer", "tp_size 2", without("h.*.mlp.c_fc"));
  language("a whole layer after a column layer", "tp_size 2", instead("h.*.mlp.c_proj", kWhole));
  language("a whole layer before a row layer", "tp_size 2", instead("h.*.mlp.c_fc", kWhole));
  language("c_proj is column-parallel", "tp_size 2", instead("h.*.mlp.c_proj", kColumn));
  language("the heads are divided, but not split", "tp_size 2",
           all({without("h.*.attn.c_attn"), without("h.*.attn.c_proj")}));
  gpt2("the head is a column layer", "tp_size 2",
       all({add({{"on", "lm_head"}, {"operation", kColumn}}), add(kTie)}));
  language("the input of c_attn never enters", "tp_size 2",
           all({with("h.*.attn.c_attn", {{"input", "entered"}}),
                with("stream_end", {{"operation", "weft.parallel_input/1"}})}));
  language("a norm of the stream is marked split", "tp_size 2",
           add({{"on", "h.*.ln_[12]"}, {"operation", "weft.layer_norm/1"}, {"split", true}}));
  language("a tie that the model does not have", "tp_size 2",
           add({{"tie", {"lm_head.weight", "wpe.weight"}}}));
  language("the tied embedding is whole", "tp_size 2", without("wte"));
  classifier("the classifier is a column layer", "tp_size 2", add({{"on", "score"}, {"operation", kColumn}}));
  classifier("the classifier's gradient is summed", "split_gather",
             add({{"on", "score"}, {"operation", kWhole}}));
  language("positions without an entry", "split_gather", without("wpe"));
  language(
      "attention of own positions", "split_gather",
      all({instead("h.*.attn.c_attn", kWhole), instead("h.*.attn.c_proj", kWhole), undivided("num_heads")}));
  language("the sequence has no end", "split_gather", without("stream_end"));
  language("no attention over the ranks", "all_to_all", without("h.*.attn"));
  language("own positions after the end", "all_to_all", with("lm_head", {{"split", true}}));
  llama("down_proj is column-parallel", "tp_size 2", instead("layers.*.mlp.down_proj", kColumn));
  llama("up_proj has no entry", "tp_size 2", without("layers.*.mlp.up_proj"));
  llama("up_proj is whole beside a gate", "tp_size 2", instead("layers.*.mlp.up_proj", kWhole));
  llama("keys and values are whole", "tp_size 2", without("layers.*.self_attn.[kv]_proj"));
  llama("heads of keys are not divided", "tp_size 2", undivided("num_key_value_heads"));
  llama("two ranks hold the same heads", "tp_size 4", with("layers.*.self_attn.q_proj", {{"heads", 2}}));
  return all_planted;
}

std::vector<Check> checks_of(const Planted& one) {
  setenv("WEFT_LOG", "off", 1);
  const test::TemporaryFolder folder;
  json entries = base_policy(one.family);
  one.change(entries);
  const std::string policy =
      folder.file("policy.json", json({{"name", "planted"}, {"entries", entries}}).dump());
  json config = {{"architectures", {one.architecture}}, {"model_type", one.family}};
  if (one.family == "gpt2")
    config.update({{"n_embd", 768},
                   {"n_head", 12},
                   {"n_layer", 12},
                   {"vocab_size", 50257},
                   {"n_positions", 1024},
                   {"pad_token_id", 50256},
                   {"bos_token_id", 50256},
                   {"eos_token_id", 50256}});
  else
    config.update({{"hidden_size", 4096},
                   {"intermediate_size", 11008},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 32},
                   {"num_key_value_heads", 32},
                   {"vocab_size", 32000},
                   {"max_position_embeddings", 2048}});
  std::vector<Check> checks;
  check_policy(policy, folder.file("config.json", config.dump()),
               [&](const Check& check) { checks.push_back(check); });
  return checks;
}

TEST(PolicySuite, NamesEachDefectAndPassesWhatIsRight) {
  std::vector<Planted> drawn;
  for (const size_t index : test::draw_slice_with_ends("planted policies", planted().size(), 8))
    drawn.push_back(planted()[index]);
  for (const Planted& one : drawn) {
    SCOPED_TRACE(one.family + ": " + one.name);
    const std::vector<Check> checks = checks_of(one);
    std::string failed;
    for (const Check& check : checks)
      if (!check.passed) failed += check.name + ": " + check.text + "\n";
    EXPECT_GT(checks.size(), 1u);
    if (one.layout.empty())
      EXPECT_EQ(failed, "");
    else
      EXPECT_NE(failed.find(": " + one.layout + ":"), std::string::npos) << failed;
  }
}

TEST(PolicySuite, PassesTheSampleThatRefusesSplitSequences) {
  setenv("WEFT_LOG", "off", 1);
  std::string failed;
  size_t refused = 0;
  check_policy(WEFT_SAMPLES "/policy_json/policy.json", WEFT_SAMPLES "/gpt2_bytes/config.json",
               [&](const Check& check) {
                 if (!check.passed) failed += check.name + ": " + check.text + "\n";
                 refused += check.name.ends_with("is refused by the policy");
               });
  EXPECT_EQ(failed, "");
  EXPECT_EQ(refused, 4u);
}

TEST(PolicySuite, FailsOneThatRefusesEveryLayout) {
  const test::TemporaryFolder folder;
  const std::string policy = folder.file(
      "policy.json", json({{"name", "none"}, {"entries", {{{"reject", "no layout is right"}}}}}).dump());
  std::vector<Check> failed;
  check_policy(policy, WEFT_SAMPLES "/gpt2_bytes/config.json", [&](const Check& check) {
    if (!check.passed) failed.push_back(check);
  });
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_TRUE(failed[0].name.ends_with("is split in some layout"));
}

TEST(PolicySuite, PassesThoseOfWeft) {
  const std::vector<std::string> all = {"gpt2", "bert",  "bloom", "chatglm", "llama", "mistral",
                                        "opt",  "qwen2", "qwen3", "t5",      "vit",   "whisper"};
  setenv("WEFT_LOG", "off", 1);
  for (const std::string& family : test::slice("shipped policies", all, 1)) {
    std::string failed;
    check_policy(family, "", [&](const Check& check) {
      if (!check.passed) failed += check.name + ": " + check.text + "\n";
    });
    EXPECT_EQ(failed, "") << family;
  }
}

}  // namespace
}  // namespace weft::contract
