// What transformers generates with the models of the oracles: tests/oracles/generation/ids.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "policies/oracle.hpp"
#include "support/temporary_folder.hpp"
#include "weft/weft.hpp"

namespace weft::test {

// A model with the keys of its generation_config.json, and what it continues prompts with.
struct GeneratedIds {
  std::string file;  // of the oracle: "gpt2/GPT2LMHeadModel"
  nlohmann::json generation_config;
  std::vector<std::vector<int64_t>> prompts;  // of tokens; empty for recordings
  std::vector<int64_t> samples;               // of recordings, the rows of the oracle's inputs
  std::vector<std::vector<int64_t>> ids;      // the new tokens of each

  // Returns those of a family: "gpt2".
  static std::vector<GeneratedIds> of(const std::string& family);
};

// Expects that `job`, which has the weights of `oracle`, generates these ids: of all prompts together and of
// each one alone. Writes generation_config.json to `folder`, which has the config.json of the model.
void expect_ids(Job& job, const Oracle& oracle, const GeneratedIds& wanted, const TemporaryFolder& folder);

}  // namespace weft::test
