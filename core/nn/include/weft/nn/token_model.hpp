// What models that read tokens have in common: their fields (ids, masks, positions, token types) with the
// checks of each, their vocabularies, and their longest sequence.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/nn/inputs.hpp"
#include "weft/nn/model.hpp"
#include "weft/nn/token_fields.hpp"
#include "weft/vocabulary.hpp"

namespace weft::nn {

// A model whose inputs are tokens alone derives from this class beside Model.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Returns the vocabulary of each field of ids.
  virtual std::vector<Vocabulary> vocabularies() const = 0;
  // Returns false if text has no labels for this model, because its logits do not predict the next token from
  // earlier ones (an encoder of masked tokens). Models without such logits, as classifiers, are refused by
  // their labels or outputs.
  virtual bool continues_text() const { return true; }
  // Returns the largest number of tokens in a sequence, or 0 if there is no limit.
  virtual int64_t max_sequence_length() const { return 0; }
  // Returns whether position_ids are an input.
  virtual bool reads_positions() const { return false; }
  // Returns TokenOptions::packs, and whether positions that begin again mark documents too.
  virtual bool separates_documents() const { return false; }
  virtual bool positions_mark_documents() const { return false; }
};

// Returns `model` as a TokenModel, or null if it reads no tokens, or other inputs beside them.
const TokenModel* find_token_model(const Model& model);

// Which fields a model of tokens reads, and how.
struct TokenOptions {
  int64_t vocabulary = 0;
  int64_t positions = 0;               // the largest sequence length, or 0 if there is no limit
  std::string positions_key = {};      // the key of that limit in config.json
  int64_t token_types = 0;             // the vocabulary of token_type_ids, or 0 if they are not an input
  bool position_ids = true;            // whether position_ids are an input
  bool blocks_need_positions = false;  // whether the State keeps position_ids for the blocks
  // Whether the blocks keep the documents of a row apart: "document_ids" are an input then, and the mask of
  // the State may be document begins (masks.hpp), which nn::Attention takes.
  bool packs = false;
  // Whether position_ids that are not the previous one plus one begin a document too, in a batch without
  // document_ids and without an attention mask, as in Hugging Face's find_packed_sequence_indices.
  bool positions_mark_documents = true;
  bool choices = false;  // whether ids may have shape (B, choices, T)
  bool decoder = false;  // whether the names are the decoder's ("decoder_input_ids")
  at::ScalarType dtype = at::kFloat;
};

// The inputs of a token sequence. Of a batch it reads ids (B, T) of int64 or int32, an attention mask (B, T)
// of ones and zeros, token types (B, T), positions (B, T) or (1, T), and document ids (B, T), of which equal
// ones that follow each other are one document. It writes ids, token types and positions to the State as
// int64 (N, T), and the mask as padding_mask() or document_begins() returns it. Without position_ids the
// positions of several documents begin again in each.
class TokenInputs final : public Inputs {
 public:
  explicit TokenInputs(TokenOptions options);

  std::vector<std::string> fields() const override;
  std::vector<std::string> consumed() const override;
  void read(const BatchFields& batch, State& state) const override;
  std::vector<int64_t> shape(const Batch& batch) const override;
  void add_example(int64_t samples, int64_t positions, Batch& batch) const override;

  // Returns field `name` as int64, checked like the ids: shape, length and vocabulary. If `ignored`, the
  // value -100 is allowed.
  at::Tensor checked_ids(const BatchFields& batch, const char* name, bool ignored = false) const;
  std::vector<Vocabulary> vocabularies() const;
  // Returns how a model continues these tokens.
  Decoding decoding() const;

 private:
  at::Tensor position_ids(const BatchFields& batch, const at::Tensor& ids) const;
  // Returns the document begins, or an undefined tensor. positions: (1 or N, T), or undefined.
  at::Tensor documents(const BatchFields& batch, const at::Tensor& ids, const at::Tensor& positions) const;

  const TokenOptions options_;
  const char* const ids_;
  const char* const mask_;
  const char* const positions_;
};

}  // namespace weft::nn
