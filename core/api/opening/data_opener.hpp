// Opens the data that a user names, by what is at its paths and what the model reads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/settings.hpp"
#include "questions/question_samples.hpp"
#include "text/text_documents.hpp"
#include "weft/data/part.hpp"
#include "weft/data/text.hpp"
#include "weft/model.hpp"
#include "weft/objective.hpp"
#include "weft/world.hpp"

namespace weft {

// The data of one model. A folder of files is opened for a model that reads such files, files of questions
// for one that answers them, one file of bytes, tokens or tensors as it is, other text with a tokenizer.
struct DataOpener {
  // The options of the groups "data" and "objective", with "data" (a path, or several, each with a weight
  // behind it: PATH=0.3) and "model" (its path, whose folder may have a tokenizer). One that its declaration
  // says to have no effect on this kind of data is refused.
  const Settings& settings;
  const Model& model;
  const World& world;
  int64_t seed = 0;                             // decides what objectives draw, and what is held out
  data::Part held_out_part = data::Part::kAll;  // read with "held_out" and without "part"
  // As in data::TextOptions.
  std::function<void(const std::string& source, int64_t done, int64_t total)> progress = {};
  // The model folder of the training that goes on with this data, in which packed documents attend as before;
  // empty: a new training, or none.
  std::string resumed = {};

  // Open it with the labels to learn from. The model keeps the tokenizer for saves. Notes are printed on the
  // master. If one fails on one rank it throws on all. Collective.
  std::shared_ptr<data::Dataset> labelled() const;
  // Each document by itself. Throws INVALID_ARGUMENT for data without documents, and for a model that does
  // not predict the next token.
  std::shared_ptr<data::TextDocuments> documents() const;
  std::shared_ptr<data::QuestionSamples> questions() const;

  // Returns whether the model is trained on what is opened: its labels are those of the data then.
  bool trains() const { return held_out_part == data::Part::kTraining; }
  // Returns whether "data" is read as rows with labels: the model learns labels of texts or tokens, and it is
  // neither a file of tensors nor of tokens.
  bool has_labels() const;
  // Returns whether a library of data sets reads "data" ("dataset").
  bool has_library() const;
  // Returns whether "data" is read as files of questions: the model answers them, and it is neither a file of
  // tensors nor of tokens.
  bool has_questions() const;
  // Open what is under `key`, with the labels that it has, or the inputs of an encoder. Not collective.
  std::shared_ptr<data::Dataset> as_it_is(const char* key) const;
  std::shared_ptr<data::Dataset> encoder_inputs(const char* key) const;
  // Returns "workers"; without it, for a folder of files as many threads as each rank of this host has
  // processors, at most 4, and otherwise 0.
  int64_t loader_workers(const char* key) const;

  // Returns "sequence_length", or 0 if it is not given.
  int64_t sequence_length() const;
  // Returns the path under `key`; nothing if there are several.
  std::string path_of(const char* key) const;
  // Returns "part", or what is read without it.
  data::Part part(double held_out) const;
  // Returns "held_out", 0 if it is not given.
  double held_out() const;
  // Returns the tokenizer of "tokenizer", or else of the folder "model", which the model keeps for saves.
  // Nothing if there is none.
  std::optional<Tokenizer> tokenizer() const;
  ObjectiveOptions objective() const;
  // Returns the objective whose labels are made: of a library of objectives, the one that it asks for; empty
  // for the labels of the data, or the usual ones.
  std::string objective_of_labels() const;
  std::string called(const char* name) const { return settings.called(name); }
  // Throws INVALID_ARGUMENT for a setting that is given but has no effect on data of this kind: "text",
  // "tokens", "tensors", "images", "recordings", "questions", "labels" or "library". `what` says what the
  // data is.
  void refuse_others(const std::string& kind, const std::string& what) const;
};

}  // namespace weft
