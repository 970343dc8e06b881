// What models that read tokens have in common: checks of ids, masks, positions and types of tokens, and what
// commands ask of them (a vocabulary, the longest text).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/nn/inputs.hpp"
#include "weft/nn/model.hpp"
#include "weft/nn/token_fields.hpp"
#include "weft/vocabulary.hpp"

namespace weft::nn {

// A model with a vocabulary derives from this too.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Of each field of ids. The first one holds the text that `weft generate` continues.
  virtual std::vector<Vocabulary> vocabularies() const = 0;
  // The longest text, or 0 if there is no limit.
  virtual int64_t max_sequence_length() const { return 0; }
};

// The model as one of tokens, or null if it has no vocabulary.
const TokenModel* find_token_model(const Model& model);

// Which fields a model of tokens reads, and how.
struct TokenOptions {
  int64_t vocabulary = 0;
  int64_t positions = 0;               // the longest sequence, or 0 if there is no limit
  std::string positions_key = {};      // its name in config.json
  int64_t token_types = 0;             // the vocabulary of token_type_ids, or 0 where they are no input
  bool position_ids = true;            // are an input
  bool blocks_need_positions = false;  // position_ids travel on to the blocks
  // Sequences packed into one row are told by position_ids that start again; as in Hugging Face only where no
  // attention mask is given, and no cache ("use_cache") asked for.
  bool packs = false;
  bool choices = false;  // ids may be (B, choices, T)
  bool decoder = false;  // the fields are those of a decoder beside an encoder ("decoder_input_ids")
  at::ScalarType dtype = at::kFloat;
};

// Ids (B, T) int64 or int32; a mask of that shape, 1 or 0; token types of that shape; positions (B, T) or
// (1, T). In the state ids, types and positions are int64 (N, T), the mask is as masks.hpp makes it.
class TokenInputs final : public Inputs {
 public:
  explicit TokenInputs(TokenOptions options);

  std::vector<std::string> fields() const override;
  std::vector<std::string> consumed() const override;
  void read(const BatchFields& batch, State& state) const override;
  std::vector<int64_t> shape(const Batch& batch) const override;
  void add_example(int64_t samples, int64_t positions, Batch& batch) const override;

  // The field `name` of the ids' shape rules, int64: checked as the ids are. `ignored`: it may hold -100.
  at::Tensor checked_ids(const BatchFields& batch, const char* name, bool ignored = false) const;
  std::vector<Vocabulary> vocabularies() const;

 private:
  at::Tensor position_ids(const BatchFields& batch, const at::Tensor& ids) const;

  const TokenOptions options_;
  const char* const ids_;
  const char* const mask_;
};

}  // namespace weft::nn
