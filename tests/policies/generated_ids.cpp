#include "policies/generated_ids.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "weft/nn/model.hpp"

namespace weft::test {

namespace {

using Tokens = std::vector<int64_t>;

// Returns the prompts `chosen` as the inputs of an encoder.
Batch encoder_inputs(const Oracle& oracle, const GeneratedIds& wanted, const std::vector<size_t>& chosen) {
  if (!wanted.samples.empty()) {
    Tokens rows;
    for (const size_t prompt : chosen) rows.push_back(wanted.samples[prompt]);
    return {
        {"input_features", oracle.inputs.at("input_features").index_select(0, at::tensor(rows, at::kLong))}};
  }
  size_t longest = 0;
  for (const size_t prompt : chosen) longest = std::max(longest, wanted.prompts[prompt].size());
  const at::Tensor ids =
      at::zeros({static_cast<int64_t>(chosen.size()), static_cast<int64_t>(longest)}, at::kLong);
  const at::Tensor mask = at::zeros_like(ids);
  for (size_t row = 0; row < chosen.size(); ++row) {
    const Tokens& prompt = wanted.prompts[chosen[row]];
    const auto r = static_cast<int64_t>(row), length = static_cast<int64_t>(prompt.size());
    ids[r].narrow(0, 0, length).copy_(at::tensor(prompt, at::kLong));
    mask[r].narrow(0, 0, length).fill_(1);
  }
  return {{"input_ids", ids}, {"attention_mask", mask}};
}

void expect_ids_of(Job& job, const Oracle& oracle, const GeneratedIds& wanted,
                   const GenerationOptions& options, const std::vector<size_t>& chosen) {
  const bool has_encoder = !job.model.module().decoding()->encoder.empty();
  std::vector<Tokens> prompts;
  if (!has_encoder)
    for (const size_t prompt : chosen) prompts.push_back(wanted.prompts[prompt]);
  const Generation found = has_encoder ? generate(job, encoder_inputs(oracle, wanted, chosen), {}, options)
                                       : generate(job, prompts, options);
  ASSERT_EQ(found.sequences.size(), chosen.size());
  for (size_t i = 0; i < chosen.size(); ++i) {
    EXPECT_EQ(found.sequences[i].ids, wanted.ids[chosen[i]])
        << wanted.file << " " << wanted.generation_config << " prompt " << chosen[i] << " of "
        << chosen.size();
    EXPECT_EQ(found.sequences[i].prompt, static_cast<int64_t>(i));
  }
}

}  // namespace

std::vector<GeneratedIds> GeneratedIds::of(const std::string& family) {
  std::ifstream file(std::string(WEFT_ORACLES) + "/generation/ids.json");
  std::vector<GeneratedIds> all;
  for (const nlohmann::json& entry : nlohmann::json::parse(file)) {
    if (!entry.at("file").get<std::string>().starts_with(family + "/")) continue;
    GeneratedIds& one = all.emplace_back();
    one.file = entry.at("file");
    one.generation_config = entry.at("generation_config");
    for (const nlohmann::json& continuation : entry.at("continuations")) {
      one.ids.push_back(continuation.at("ids"));
      if (continuation.contains("prompt")) one.prompts.push_back(continuation.at("prompt"));
      if (continuation.contains("sample")) one.samples.push_back(continuation.at("sample"));
    }
  }
  return all;
}

void expect_ids(Job& job, const Oracle& oracle, const GeneratedIds& wanted, const TemporaryFolder& folder) {
  folder.file("generation_config.json", wanted.generation_config.dump());
  GenerationOptions options = GenerationOptions::load(folder.path(), /*greedy=*/true);
  options.max_new_tokens = 7;
  std::vector<size_t> all;
  for (size_t prompt = 0; prompt < wanted.ids.size(); ++prompt) {
    all.push_back(prompt);
    expect_ids_of(job, oracle, wanted, options, {prompt});
  }
  expect_ids_of(job, oracle, wanted, options, all);
}

}  // namespace weft::test
