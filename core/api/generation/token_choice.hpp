// Chooses the next tokens from logits.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "base/setting_name.hpp"
#include "weft/generation.hpp"

namespace weft {

// Returns what messages call an option: by file and key where it comes from the files of the model, and as
// `called` says for options that `given` says were given, and those that files do not have.
SettingName called_by_file(const GenerationOptions& options, const SettingName& called,
                           std::function<bool(const std::string&)> given);

// Throws INVALID_ARGUMENT naming an option that is out of range, as `called` names it. Of greedy options,
// those of drawing are not looked at.
void check_options(const GenerationOptions& options, const SettingName& called);

// The choice of tokens for several rows, which have a random generator each, so that the tokens of one do not
// depend on the others.
class TokenChoice {
 public:
  // `prompts` are the tokens that each row begins with, `seeds` the seeds of the rows. `options` must outlive
  // this object.
  TokenChoice(const GenerationOptions& options, int64_t vocabulary,
              const std::vector<const std::vector<int64_t>*>& prompts, const std::vector<uint64_t>& seeds);

  // Returns the next token of each row. logits: (N, vocabulary) of any floating-point dtype. Throws DATA_LOSS
  // if the logits of a row are not numbers, or no token is left to choose.
  std::vector<int64_t> operator()(const at::Tensor& logits);
  // Keeps the rows with these numbers alone.
  void select_rows(const std::vector<int64_t>& rows);

 private:
  at::Tensor scores_of(const at::Tensor& logits) const;
  int64_t draw(const at::Tensor& scores, at::Generator& generator) const;

  const GenerationOptions& options_;
  std::vector<at::Generator> generators_;
  std::vector<bool> forced_;  // the rows whose first token is that of the options
  int64_t made_ = 0;          // tokens of each row
  at::Tensor seen_;           // (N, vocabulary) bool: the tokens of each row; undefined without a penalty
  at::Tensor suppressed_, suppressed_first_;  // ids; undefined if there are none
};

}  // namespace weft
