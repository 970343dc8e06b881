// Opens data sets for a model. In messages `called` names the settings: the sequence length, and those of an
// objective.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/setting_name.hpp"
#include "questions/open_questions.hpp"
#include "weft/data/dataset.hpp"
#include "weft/data/image_changes.hpp"
#include "weft/data/images.hpp"
#include "weft/data/text.hpp"
#include "weft/model.hpp"
#include "weft/objective.hpp"

namespace weft {

namespace nn {
class TokenModel;
}
namespace data {
class TextDocuments;
}

// Returns the model as a TokenModel. Throws INVALID_ARGUMENT, naming `user`, which reads text, unless the
// model's inputs are tokens alone.
const nn::TokenModel& require_vocabulary(const Model& model, std::string_view user);

// Returns the given length of sequences, or the longest that the model takes for 0. Throws INVALID_ARGUMENT
// for one that it does not take.
int64_t chosen_length(const Model& model, const nn::TokenModel& tokens, int64_t given,
                      const SettingName& called);

// Opens a data file whose samples are the inputs of a model. `sequence_length` is that of text and tokens; 0
// stands for the longest that the model takes. Throws INVALID_ARGUMENT for text or a sequence length with a
// model of other inputs, for a length that the model does not take, and for tokens outside its vocabulary.
std::shared_ptr<data::Dataset> open_samples(const Model& model, const std::string& path,
                                            int64_t sequence_length, data::TokenType type,
                                            const SettingName& called);
// Does the same for samples whose text is also the labels. Throws INVALID_ARGUMENT for text with a model that
// does not predict the next token.
std::shared_ptr<data::Dataset> open_dataset(const Model& model, const std::string& path,
                                            int64_t sequence_length, data::TokenType type,
                                            const SettingName& called);
// Does the same for data to learn from. Without an objective in `options`, a .safetensors file has its own
// labels, and text and tokens have those of the first objective of the model's class, if it has one. Throws
// INVALID_ARGUMENT like with_objective().
std::shared_ptr<data::Dataset> open_dataset(const Model& model, const std::string& path,
                                            int64_t sequence_length, data::TokenType type,
                                            const ObjectiveOptions& options, const SettingName& called);
// Opens text to learn from: with a tokenizer, or with bytes as tokens for a model with a vocabulary of 256.
// `text` has what data::open_text() reads; its sequence length can be 0 as above, and its vocabulary, labels
// and positions are set here. The labels are those of the objective, or of the model's first one.
std::shared_ptr<data::Dataset> open_text_dataset(const Model& model,
                                                 const std::vector<data::TextSource>& sources,
                                                 const std::optional<Tokenizer>& tokenizer,
                                                 data::TextOptions text, const ObjectiveOptions& options,
                                                 const SettingName& called);
// Opens the same text to measure each document by itself. Throws INVALID_ARGUMENT unless the model predicts
// the next token, and for any objective but causal_lm.
std::shared_ptr<data::TextDocuments> open_text_documents(const Model& model,
                                                         const std::vector<data::TextSource>& sources,
                                                         const std::optional<Tokenizer>& tokenizer,
                                                         data::TextOptions text,
                                                         const ObjectiveOptions& options,
                                                         const SettingName& called);
// The labels that samples of text have before an objective makes others from the ids.
struct TextLabels {
  bool of_tokens = true;          // those of causal_lm
  std::string of_sentences = {};  // the field of the labels of pairs (TextOptions::sentence_labels), or empty
};
// Samples of text, with what its tokenizer says about masking: the ids that are never masked, whatever the
// options say, and the one that masks others, if they do not name one.
struct OpenedText {
  std::shared_ptr<data::Dataset> dataset;
  std::vector<int64_t> special_ids = {};
  std::optional<int64_t> mask_token_id = {};
};
// Returns the samples that `open` returns with these labels, with the labels of the objective. Throws
// INVALID_ARGUMENT like with_objective(), but makes pairs of sentences.
std::shared_ptr<data::Dataset> label_text(const Model& model, const ObjectiveOptions& options,
                                          const SettingName& called,
                                          const std::function<OpenedText(const TextLabels&)>& open);
// Returns the names of the objectives that make labels.
std::vector<std::string> objectives_of_labels();
// Returns whether samples of text are pairs of sentences. Throws like with_objective().
bool makes_pairs(const Model& model, const ObjectiveOptions& options, const SettingName& called);
// Does what the function of weft/objective.hpp does.
std::shared_ptr<data::Dataset> with_objective(const Model& model, std::shared_ptr<data::Dataset> dataset,
                                              const ObjectiveOptions& options, const SettingName& called);
// Does the same without an objective in `options` if the model's class has one, and otherwise returns the
// data with its own labels. Throws for settings without effect.
std::shared_ptr<data::Dataset> with_usual_objective(const Model& model,
                                                    std::shared_ptr<data::Dataset> dataset,
                                                    const ObjectiveOptions& options,
                                                    const SettingName& called);

// Opens a folder of images for `model`. Of `options` only random changes, the held-out part and the seed are
// read: the model decides the rest. Its preprocessor_config.json says how images are processed; without one
// they are resized to the model's size, and `note` is called with a line that says so. Samples have labels if
// the model has a loss of one label per image: those of label2id and id2label in config.json, or, if these
// give classes no names, in the order of the names. Throws like data::image_folder(), and INVALID_ARGUMENT
// if the processed images or their classes are not the model's.
std::shared_ptr<data::Dataset> open_images(const Model& model, const std::string& path,
                                           data::ImageOptions options, const SettingName& called,
                                           const std::function<void(const std::string& line)>& note);

// Returns `dataset` with these changes of its images, or itself without any. Of `changes` the number of
// labels is set here. Throws like data::with_image_changes(), and INVALID_ARGUMENT for a model that reads no
// images.
std::shared_ptr<data::Dataset> change_images(const Model& model, std::shared_ptr<data::Dataset> dataset,
                                             data::ImageChanges changes, const SettingName& called);

// Returns whether the model reads tokens alone and predicts where an answer begins and ends.
bool answers_questions(const Model& model);

// Opens files of questions for a model that answers them. Of `options` the vocabulary and the token types are
// set here, and a sequence length of 0 is the longest that the model takes. Throws like
// data::open_questions(), INVALID_ARGUMENT for an objective or settings of one, and FAILED_PRECONDITION
// without a tokenizer.
std::shared_ptr<data::QuestionSamples> open_questions(
    const Model& model, const std::vector<std::string>& paths, const std::optional<Tokenizer>& tokenizer,
    data::QuestionOptions options, const ObjectiveOptions& objective, const SettingName& called);

}  // namespace weft
