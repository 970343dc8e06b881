// --data of text, and the flags that say how it is read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "command/arguments.hpp"
#include "text/text_documents.hpp"
#include "weft/data/text.hpp"

namespace weft::command {

class TextData {
 public:
  // Reads --data, --tokenizer, --packing, --long-documents, --held-out, --part and --skip-broken-lines, and
  // opens the tokenizer: of --tokenizer, or else of the folder of --model. The model keeps it for saves.
  // `held_out_part` is read with --held-out and without --part. Throws INVALID_ARGUMENT for flags that do not
  // fit each other.
  TextData(const json& arguments, const Model& model, const World& world, data::Part held_out_part);

  // Returns whether --data is text with a tokenizer, of several files, or by documents. Otherwise it is one
  // file of bytes, tokens or tensors.
  bool is_wanted() const { return wanted_; }
  // Returns that file.
  const std::string& file() const { return sources_.front().path; }
  // Opens the text. Prints on the master what is left out, and on a rank that tokenizes how far it is.
  std::shared_ptr<data::Dataset> open(const Model& model, const ObjectiveOptions& objective) const;
  // Does the same for --by-document. Throws INVALID_ARGUMENT for data without documents.
  std::shared_ptr<data::TextDocuments> open_documents(const Model& model,
                                                      const ObjectiveOptions& objective) const;

 private:
  void read_sources(const json& arguments);
  void read_options(const json& arguments, data::Part otherwise);
  void find_tokenizer(const json& arguments, const Model& model, const World& world);
  void refuse_without_effect(const json& arguments) const;
  data::TextOptions options_for(const ObjectiveOptions& objective) const;

  std::vector<data::TextSource> sources_;
  data::TextOptions options_;
  std::optional<Tokenizer> tokenizer_;
  bool wanted_ = false, packing_is_given_ = false;
};

}  // namespace weft::command
