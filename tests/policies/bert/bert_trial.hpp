// Tiny BERT models to be trained.
#pragma once

#include <string>

#include "plugins/support/parity.hpp"

namespace weft::test {

struct TinyBert {
  std::string architecture;
  bool decodes = false;
  int64_t positions = 7;
  double dropout = 0;
};

// Returns tokens of three types without labels. Rows have padding, on both sides in an encoder: a position of
// a decoder that sees padding alone is not defined.
Batch bert_inputs(const TinyBert& bert, int64_t seed);
// Within 5e-5 of one rank in fp32 and 1e-10 in fp64.
Trial bert_trial(const TinyBert& bert, const std::string& precision);

}  // namespace weft::test
