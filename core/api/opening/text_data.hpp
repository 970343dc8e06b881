// "data" of text, and the settings that say how it is read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "opening/data_opener.hpp"

namespace weft {

class TextData {
 public:
  // Reads "data", "tokenizer", "bytes", "packing", "long_documents", "held_out", "part" and
  // "skip_broken_lines", and opens the tokenizer, which the model keeps for saves. `opener` outlives this.
  // Throws INVALID_ARGUMENT for settings that do not fit each other.
  explicit TextData(const DataOpener& opener);

  // Returns whether the data is text with a tokenizer, of several files, or by documents. Otherwise it is one
  // file of bytes, tokens or tensors.
  bool is_wanted() const { return wanted_; }
  // Returns that file.
  const std::string& file() const { return sources_.front().path; }
  // Opens the text. Prints on the master what is left out.
  std::shared_ptr<data::Dataset> open(const ObjectiveOptions& objective) const;
  // Does the same for each document by itself. The constructor has refused data without documents.
  std::shared_ptr<data::TextDocuments> open_documents(const ObjectiveOptions& objective) const;

 private:
  void read_sources();
  void read_options();
  void find_tokenizer();
  data::TextOptions options_for(const ObjectiveOptions& objective) const;
  // Returns what packed documents attend to; nothing for a model that does not keep them apart.
  std::optional<data::PackedAttention> attention() const;
  // Returns that of a training that goes on.
  std::optional<data::PackedAttention> resumed_attention() const;
  // Throws if "attention" is given, but has no effect on this data. Says on the master what a model does that
  // cannot keep documents apart.
  void check_attention(const data::Dataset& opened) const;

  const DataOpener& opener_;
  std::vector<data::TextSource> sources_;
  data::TextOptions options_;
  std::optional<Tokenizer> tokenizer_;
  bool wanted_ = false, packing_is_given_ = false;
};

}  // namespace weft
