// Classes of GPT-2 to be trained.
#pragma once

#include <string>

#include "plugins/support/parity.hpp"

namespace weft::test {

inline constexpr const char* kGpt2Classes[] = {"GPT2LMHeadModel", "GPT2DoubleHeadsModel",
                                               "GPT2ForSequenceClassification", "GPT2ForTokenClassification",
                                               "GPT2ForQuestionAnswering"};

// Within 5e-5 of one rank in fp32 and 1e-10 in fp64.
Trial gpt2_trial(const std::string& architecture, const std::string& precision);

}  // namespace weft::test
