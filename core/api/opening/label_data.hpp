// "data" of rows with labels, and the settings that say how they are read.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "labels/label_space.hpp"
#include "labels/labelled_rows.hpp"
#include "labels/labelled_texts.hpp"
#include "opening/data_opener.hpp"
#include "weft/token_spans.hpp"

namespace weft {

// Returns whether rows of text can have the labels that the model learns.
bool learns_labels_of_text(const Model& model);

// The rows, and what their labels are.
class LabelData {
 public:
  // Reads the rows, and of a training what their labels are, which the model gets (give_labels()); otherwise
  // they are labels of the model. Without `labels` rows need none. `opener` outlives this. Throws
  // INVALID_ARGUMENT for settings that do not fit each other, and like read_labelled_rows().
  LabelData(const DataOpener& opener, bool labels);

  // Returns the samples of the part that is read, in the order of the rows. Says what was cut.
  std::shared_ptr<data::LabelledTexts> open() const;
  // Returns a row of open().
  const data::LabelledRow& row(int64_t sample) const {
    return rows_.rows[chosen_[static_cast<size_t>(sample)]];
  }
  // Returns what the labels are.
  const data::LabelSpace& space() const { return space_; }

 private:
  void read_settings(bool labels);
  // Throws for settings of texts with words, and the other way round.
  void refuse_other_columns() const;
  // Fills in what the row becomes.
  void encode(const data::LabelledRow& row, const data::TextEncoding& encoding,
              const std::optional<TokenSpans>& spans, data::LabelledSample& sample) const;
  void choose_rows();
  data::TextEncoding encoding() const;
  std::vector<double> class_weights(const std::vector<data::LabelledSample>& samples) const;
  // Returns the weights of the classes that the file of "class_weights" names.
  std::vector<double> weights_of_file(const std::string& path) const;
  data::LabelForm form() const;

  const DataOpener& opener_;
  data::RowReading reading_;
  bool labels_all_subwords_ = false;
  std::optional<Tokenizer> tokenizer_;
  data::LabelledRows rows_;
  std::vector<size_t> chosen_;  // of the rows
  data::LabelSpace space_;
};

}  // namespace weft
