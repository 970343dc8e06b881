// Training of a byte-level BPE on text that need not be in files of its own.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "weft/tokenizer.hpp"

namespace weft::tokenizer {

// Takes the texts that a tokenizer is trained on.
class TrainingTexts {
 public:
  virtual ~TrainingTexts() = default;
  // Adds the lines of a text, each with its end, as Hugging Face's trainer reads a file.
  virtual void add(std::string_view text) = 0;
  // Adds those of a file. Throws NOT_FOUND if it cannot be read.
  virtual void add_file(const std::string& path) = 0;
};

// Does what train_bpe() does with the texts that `read` adds. Checks the options before it calls `read`.
void train_bpe_on(const std::function<void(TrainingTexts&)>& read, const std::string& folder,
                  const BpeTrainingOptions& options);

}  // namespace weft::tokenizer
