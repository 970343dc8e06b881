// What generation has to know of a model: the names of its fields and its limits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::nn {

// How a model continues sequences of tokens.
struct Decoding {
  // The fields of a batch that hold the tokens, their mask (1 or 0 for padding) and their positions.
  // `positions` is empty for a model that takes none.
  std::string ids, mask, positions;
  int64_t vocabulary = 0;
  // The largest number of tokens in a sequence, 0 if there is no limit, and its key in config.json.
  int64_t longest = 0;
  std::string longest_key;
  // The fields of the encoder's inputs, the required one first. Empty for a model without an encoder, whose
  // tokens continue the prompt.
  std::vector<std::string> encoder;
};

}  // namespace weft::nn
