// `weft generate`.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "command/command.hpp"

namespace weft::test {
namespace {

using nlohmann::json;
using testing::StartsWith;

class Generate : public CommandTest {
 protected:
  static std::vector<json> objects(const std::string& text) {
    std::vector<json> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) found.push_back(json::parse(line));
    return found;
  }
  void SetUp() override { copy_trained_model(); }
  std::string generate(const Words& more, const Words& prompt = {"--prompt", "rank "},
                       const std::string& tokens = "12") const {
    return expect_success(Words{"generate", "--model", in("out"), "--max-new-tokens", tokens} + prompt + more)
        .out;
  }
};

TEST_F(Generate, GreedilyIsDeterministicAndAddsTheTokensAskedFor) {
  const std::string text = generate({"--greedy"});
  EXPECT_THAT(text, StartsWith("rank "));
  EXPECT_EQ(text.size(), 5 + 12 + 1u);
  EXPECT_EQ(generate({"--greedy", "--seed", "5"}), text);
  EXPECT_EQ(generate({"--top-k", "1"}), text);
  EXPECT_EQ(generate({"--top-p", "1e-9"}), text);
  EXPECT_EQ(generate({"--greedy"}, {"--prompt-ids", "114,97,110,107,32"}), text);
  EXPECT_EQ(generate({}, {"--prompt", "rank "}, "0"), "rank \n");
}

TEST_F(Generate, DrawsBySeed) {
  const Words wild = {"--temperature", "3"};
  const std::string text = generate(wild + Words{"--seed", "1"});
  EXPECT_EQ(generate(wild + Words{"--seed", "1"}), text);
  EXPECT_NE(generate(wild + Words{"--seed", "2"}), text);
  EXPECT_NE(generate(wild), generate({"--greedy"}));
  EXPECT_EQ(generate({"--temperature", "1e-6"}), generate({"--greedy"}));
}

TEST_F(Generate, GoesOnBeyondTheLongestSequence) {
  const std::string prompt = sample_text(40);  // the model takes 32
  const std::string text = generate({"--greedy"}, {"--prompt", prompt});
  EXPECT_THAT(text, StartsWith(prompt));
  EXPECT_EQ(text.size(), 40 + 12 + 1u);
  EXPECT_EQ(text.substr(40), generate({"--greedy"}, {"--prompt", prompt.substr(8)}).substr(32));
}

TEST_F(Generate, WritesTokenIdsWhereTokensAreNoBytes) {
  folder_.file("ids.json", config_json({.vocabulary = 50}));
  const Words ids = {"generate", "--model", in("ids.json"), "--greedy", "--max-new-tokens", "3"};
  const std::string text = expect_success(ids + Words{"--prompt-ids", "1,49"}).out;
  EXPECT_THAT(text, testing::MatchesRegex("1,49,[0-9]+,[0-9]+,[0-9]+\n"));
  EXPECT_TRUE(refuses(ids + Words{"--prompt", "text"}, 1, {"--prompt", "a tokenizer", "--prompt-ids"}));
  EXPECT_TRUE(refuses(ids + Words{"--prompt-ids", "1", "--stop", "text"}, 1,
                      {"--stop", "a tokenizer", "--stop-ids"}));
  EXPECT_TRUE(refuses(ids + Words{"--prompt-ids", "50"}, 1, {"50 is outside", "0 to 49"}));
  EXPECT_TRUE(refuses(ids + Words{"--prompt-ids", "-1"}, 1, {"-1 is outside"}));
  folder_.file("out/tokenizer.json", "{}");
  EXPECT_TRUE(refuses({"generate", "--model", in("out"), "--prompt", "text"}, 1, {"tokenizer.json"}));
}

TEST_F(Generate, RefusesWhatMakesNoSense) {
  const auto refused = [&](const Words& more, const std::vector<std::string>& pieces) {
    return refuses(Words{"generate", "--model", in("out"), "--max-new-tokens", "1"} + more, 1, pieces);
  };
  EXPECT_TRUE(refused({}, {"--prompt TEXT", "--prompt-ids"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--prompt-ids", "1"}, {"one of --prompt"}));
  EXPECT_TRUE(refused({"--prompt", ""}, {"prompt", "is empty"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--temperature", "0"}, {"--temperature is 0", "--greedy"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--top-k", "-1"}, {"--top-k is -1"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--top-p", "0"}, {"--top-p is 0"}));
  EXPECT_TRUE(
      refused({"--prompt", "a", "--repetition-penalty", "0"}, {"--repetition-penalty is 0", "1 is no"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--num-samples", "0"}, {"--num-samples is 0", "1 to 65536"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--batch-size", "0"}, {"--batch-size is 0"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--stop-ids", "256"}, {"--stop-ids: 256", "0 to 255"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--stop", ""}, {"--stop is empty"}));
  EXPECT_TRUE(refused({"--inputs", "x.safetensors"}, {"--inputs", "an encoder"}));
  EXPECT_TRUE(refused({"--prompts", in("none.jsonl")}, {"--prompts: cannot read", "none.jsonl"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--architecture", "GPT2Model"}, {"GPT2Model", "no logits"}));
  EXPECT_TRUE(refused({"--prompt", "a", "--architecture", "GPT2ForTokenClassification", "--allow-missing"},
                      {"no logits"}));
}

TEST_F(Generate, RefusesLinesThatAreNoPrompts) {
  for (const auto& [line, pieces] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"", {"no prompt"}},
           {"{\"prompt\": \"a\"}\n[1]\n", {"line 2", "prompt_ids"}},
           {"{\"prompt\": 3}", {"line 1", "must be"}},
           {"{\"prompt\": \"a\", \"prompt_ids\": [1]}", {"line 1", "must be"}},
           {"{\"prompt_ids\": [1, 2.5]}", {"line 1", "must be"}},
           {"{\"prompt_ids\": [1]}\n{\"prompt_ids\": []}", {"prompt 1 is empty"}},
           {"{\"prompt_ids\": [1]}\n{\"prompt_ids\": [300]}", {"prompt 1", "300 is outside", "0 to 255"}}})
    EXPECT_TRUE(refuses({"generate", "--model", in("out"), "--prompts", folder_.file("prompts.jsonl", line)},
                        1, pieces))
        << line;
}

// Prompts of different lengths, in batches that have padding, each as it is alone.
TEST_F(Generate, PrintsAnObjectForEachPromptAndSample) {
  const std::vector<std::string> prompts = {"rank ", "a", "the shard of the ra"};
  std::string lines;
  for (const std::string& prompt : prompts) lines += json{{"prompt", prompt}}.dump() + "\n";
  const std::string file = folder_.file("prompts.jsonl", lines);
  for (const char* batch : {"1", "2", "8"}) {
    const std::vector<json> found =
        objects(generate({"--greedy", "--json", "--batch-size", batch}, {"--prompts", file}));
    ASSERT_EQ(found.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(found[i].at("prompt"), i);
      EXPECT_EQ(found[i].at("sample"), 0);
      EXPECT_EQ(found[i].at("ids").size(), 12u);
      EXPECT_FALSE(found[i].at("stopped"));
      EXPECT_GT(found[i].at("tokens_per_second"), 0);
      EXPECT_EQ(prompts[i] + found[i].at("text").get<std::string>() + "\n",
                generate({"--greedy"}, {"--prompt", prompts[i]}));
    }
  }
}

TEST_F(Generate, DrawsEachSampleByItself) {
  const Words wild = {"--temperature", "2", "--json", "--num-samples", "3"};
  const std::vector<json> found = objects(generate(wild));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_NE(found[0].at("ids"), found[1].at("ids"));
  EXPECT_NE(found[1].at("ids"), found[2].at("ids"));
  const std::string two = folder_.file("two.jsonl", "{\"prompt\": \"rank \"}\n{\"prompt\": \"of\"}\n");
  const std::vector<json> beside = objects(generate(wild, {"--prompts", two}));
  ASSERT_EQ(beside.size(), 6u);
  for (size_t sample = 0; sample < 3; ++sample) {
    EXPECT_EQ(found[sample].at("sample"), sample);
    EXPECT_EQ(beside[sample].at("ids"), found[sample].at("ids"));
    EXPECT_EQ(beside[3 + sample].at("prompt"), 1);
  }
  EXPECT_EQ(objects(generate(wild + Words{"--batch-size", "1"}, {"--prompts", two}))[4].at("ids"),
            beside[4].at("ids"));
}

TEST_F(Generate, EndsWithAStopId) {
  const json whole = objects(generate({"--greedy", "--json"}))[0];
  const std::vector<int64_t> ids = whole.at("ids");
  const int64_t stop = ids[3];
  const auto first = std::find(ids.begin(), ids.end(), stop) + 1;
  const std::vector<int64_t> wanted(ids.begin(), first);
  const auto stopped = [&](const Words& more) {
    return objects(generate(Words{"--greedy", "--json"} + more))[0];
  };
  EXPECT_EQ(stopped({"--stop-ids", std::to_string(stop)}).at("ids"), wanted);
  EXPECT_TRUE(stopped({"--stop-ids", std::to_string(stop)}).at("stopped"));
  folder_.file("out/generation_config.json", json{{"eos_token_id", {stop, 300}}}.dump());
  EXPECT_EQ(stopped({}).at("ids"), wanted);
  EXPECT_EQ(stopped({"--stop-ids", ""}).at("ids"), whole.at("ids"));
}

TEST_F(Generate, EndsWithAStopText) {
  const std::string text = objects(generate({"--greedy", "--json"}))[0].at("text");
  ASSERT_EQ(text.size(), 12u);
  const std::string stop = text.substr(4, 2), before = text.substr(0, text.find(stop));
  const json found = objects(generate({"--greedy", "--json", "--stop", "\x01", "--stop", stop}))[0];
  EXPECT_EQ(found.at("text"), before);
  EXPECT_EQ(found.at("ids").size(), before.size() + stop.size());
  EXPECT_TRUE(found.at("stopped"));
  EXPECT_EQ(generate({"--greedy", "--stop", stop}), "rank " + before + "\n");
  // What only begins a stop text is printed.
  const Words begun = {"--greedy", "--stop", text.substr(10) + "\x01"};
  EXPECT_EQ(generate(begun), "rank " + text + "\n");
  EXPECT_FALSE(objects(generate(begun + Words{"--json"}))[0].at("stopped"));
  const Words two = {"--prompts",
                     folder_.file("prompts.jsonl", "{\"prompt\": \"rank \"}\n{\"prompt\": \"a\"}\n")};
  EXPECT_EQ(objects(generate({"--greedy", "--json", "--stop", stop}, two))[0].at("text"), before);
}

TEST_F(Generate, FollowsTheFilesOfTheModel) {
  const auto with = [&](const json& keys, const Words& more) {
    folder_.file("out/generation_config.json", keys.dump());
    return generate(more);
  };
  const std::string greedy = generate({"--greedy"});
  EXPECT_EQ(with({{"top_k", 1}}, {}), greedy);
  EXPECT_NE(with({{"repetition_penalty", 5.0}}, {"--greedy"}), greedy);
  EXPECT_EQ(with({{"repetition_penalty", 5.0}}, {"--greedy", "--repetition-penalty", "1"}), greedy);
  EXPECT_EQ(with({{"num_beams", 1}, {"bad_words_ids", nullptr}, {"min_length", 0}, {"max_length", 4}},
                 {"--greedy"}),
            greedy);
  for (const json& keys :
       {json{{"num_beams", 4}}, json{{"no_repeat_ngram_size", 2}}, json{{"min_new_tokens", 3}},
        json{{"bad_words_ids", json::array({json::array({3})})}}, json{{"guidance_scale", 1.5}}}) {
    folder_.file("out/generation_config.json", keys.dump());
    EXPECT_TRUE(refuses({"generate", "--model", in("out"), "--prompt", "a"}, 1,
                        {"generation_config.json", keys.begin().key(), "Weft does not"}));
  }
  folder_.file("out/generation_config.json", R"({"eos_token_id": "2"})");
  EXPECT_TRUE(refuses({"generate", "--model", in("out"), "--prompt", "a"}, 1,
                      {"generation_config.json", "eos_token_id", "of ids"}));
}

// A folder that has the file keeps its own.
TEST_F(Generate, FollowsTheFilesThatTrainingSaves) {
  const auto train = [&](const char* from) {
    expect_success({"train", "--model", in(from), "--data", data_, "--steps", "2", "--output", in("next"),
                    "--save-every", "1"});
  };
  const std::string given = R"({"eos_token_id": 7, "top_k": 3})", edited = R"({"eos_token_id": 9})";
  folder_.file("out/generation_config.json", given);
  train("out");
  EXPECT_EQ(read_bytes(in("next/generation_config.json")), given);
  EXPECT_EQ(read_bytes(in("next/step-1/generation_config.json")), given);
  folder_.file("next/generation_config.json", edited);
  train("out");
  EXPECT_EQ(read_bytes(in("next/generation_config.json")), edited);
  EXPECT_EQ(read_bytes(in("out/generation_config.json")), given);
}

// All ranks compute with the tokens that rank 0 chooses.
TEST_F(Generate, IsTheSameOnRanks) {
  const Words json_of = {"--json", "--num-samples", "2", "--temperature", "0.5"};
  const std::vector<json> found = objects(generate(json_of));
  for (const Words& ranks :
       {Words{"-n", "2", "--strategy", "hybrid_parallel", "-o", "tp_size=2"}, Words{"-n", "2"},
        Words{"-n", "2", "--strategy", "torch_fsdp"}, Words{"-n", "2", "-o", "pp_size=2"},
        Words{"-n", "4", "--strategy", "hybrid_parallel", "-o", "pp_size=2", "-o", "tp_size=2"}}) {
    const std::vector<json> same = objects(generate(json_of + ranks));
    ASSERT_EQ(same.size(), 2u);
    for (size_t sample = 0; sample < 2; ++sample) EXPECT_EQ(same[sample].at("ids"), found[sample].at("ids"));
  }
  const Words two = {"generate", "--model", in("out"),    "--prompt",       "a",
                     "-n",       "2",       "--strategy", "hybrid_parallel"};
  EXPECT_TRUE(refuses(two + Words{"-o", "tp_size=2", "-o", "enable_sequence_parallelism=true", "-o",
                                  "sequence_parallelism_mode=split_gather"},
                      1, {"whole sequences", "enable_sequence_parallelism"}));
}

TEST_F(Generate, GoesThroughADecoderWhoseEncoderReadsThePrompt) {
  const std::string model = folder_.file("t5.json", R"({"model_type": "t5", "vocab_size": 30, "d_model": 12,
      "architectures": ["T5ForConditionalGeneration"], "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 3,
      "decoder_start_token_id": 0, "eos_token_id": 1})");
  const auto of = [&](const Words& more) {
    return objects(expect_success(Words{"generate", "--model", model, "--greedy", "--json",
                                        "--max-new-tokens", "6", "--stop-ids", ""} +
                                  more)
                       .out);
  };
  const std::string file =
      folder_.file("ids.jsonl", "{\"prompt_ids\": [4, 9, 2]}\n{\"prompt_ids\": [7, 3, 3, 8, 20]}\n");
  const std::vector<json> both = of({"--prompts", file});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].at("ids"), of({"--prompt-ids", "4,9,2"})[0].at("ids"));
  EXPECT_EQ(both[1].at("ids"), of({"--prompt-ids", "7,3,3,8,20"})[0].at("ids"));
  const RawTensors inputs = {{"input_ids", int64_tensor({1, 3}, {4, 9, 2})}};
  folder_.file("inputs.safetensors", safetensors_bytes(inputs));
  EXPECT_EQ(of({"--inputs", in("inputs.safetensors")})[0].at("ids"), both[0].at("ids"));
  folder_.file("wrong.safetensors", safetensors_bytes({{"labels", int64_tensor({1, 3}, {4, 9, 2})}}));
  const Words plain = {"generate", "--model", model};
  EXPECT_TRUE(refuses(plain + Words{"--inputs", in("wrong.safetensors")}, 1,
                      {"no input \"labels\"", "input_ids, attention_mask"}));
  EXPECT_TRUE(refuses(plain + Words{"--inputs", in("inputs.safetensors"), "--prompt", "a"}, 1,
                      {"--inputs", "the prompts"}));
}

TEST_F(Generate, GoesThroughADecoderOfRecordings) {
  const std::string model = folder_.file("whisper.json", R"({"model_type": "whisper", "vocab_size": 30,
      "architectures": ["WhisperForConditionalGeneration"], "d_model": 12, "num_mel_bins": 2,
      "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
      "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, "max_source_positions": 3, "max_target_positions": 8,
      "decoder_start_token_id": 4, "pad_token_id": 1})");
  std::vector<float> spectra(2 * 2 * 6);
  for (size_t i = 0; i < spectra.size(); ++i) spectra[i] = 0.1F * static_cast<float>(i % 7);
  folder_.file("inputs.safetensors",
               safetensors_bytes({{"input_features", float_tensor({2, 2, 6}, spectra)}}));
  const Words plain = {"generate", "--model", model, "--greedy"};
  const Words all = plain + Words{"--inputs", in("inputs.safetensors")};
  const std::vector<json> found = objects(expect_success(all + Words{"--json", "--max-new-tokens", "5"}).out);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].at("ids").size(), 5u);
  const std::vector<json> begun =
      objects(expect_success(all + Words{"--json", "--max-new-tokens", "4", "--prompt-ids",
                                         "4," + std::to_string(found[0].at("ids")[0].get<int64_t>())})
                  .out);
  EXPECT_EQ(begun[0].at("ids"),
            json(std::vector<int64_t>(found[0].at("ids").begin() + 1, found[0].at("ids").end())));
  EXPECT_TRUE(refuses(all + Words{"--max-new-tokens", "8"}, 1,
                      {"max_new_tokens is 8", "max_target_positions", "at most 7"}));
  EXPECT_EQ(expect_success(all).out, expect_success(all + Words{"--max-new-tokens", "7"}).out);
  EXPECT_TRUE(refuses(plain + Words{"--prompt-ids", "4"}, 1, {"no tokens", "input_features", "--inputs"}));
}

// Each position of an encoder sees those after it, and what text has for labels are its tokens themselves.
TEST_F(Generate, AndTrainingOnTextRefuseAnEncoder) {
  folder_.file("bert.json", R"({"model_type": "bert", "vocab_size": 256, "hidden_size": 12,
      "intermediate_size": 20, "num_hidden_layers": 1, "num_attention_heads": 3})");
  for (const char* architecture : {"BertForMaskedLM", "BertLMHeadModel"}) {
    EXPECT_TRUE(refuses({"generate", "--model", in("bert.json"), "--architecture", architecture, "--prompt",
                         "a", "--allow-missing"},
                        1, {architecture, "next token", "causal language"}));
  }
  const auto train = [&](const char* architecture) {
    return Words{"train",   "--model", in("bert.json"), "--architecture", architecture, "--data", data_,
                 "--steps", "1"};
  };
  EXPECT_TRUE(refuses(train("BertLMHeadModel"), 1, {data_, "BertLMHeadModel", "next token", ".safetensors"}));
  EXPECT_TRUE(
      refuses(train("BertForMaskedLM"), 1, {"BertForMaskedLM", "masked_lm", "needs --mask-token-id"}));
}

}  // namespace
}  // namespace weft::test
