// The labels of a model that is trained on rows of text.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/setting_name.hpp"
#include "labels/label_space.hpp"
#include "weft/model.hpp"

namespace weft {

// Returns what the labels of the model are, as config.json says. Without "problem_type" they are classes, or
// a number if there is one label.
data::LabelSpace labels_of(const Model& model);

// What a training on rows wants of the head of its model.
struct WantedLabels {
  std::optional<data::Problem> problem;  // that is asked for
  bool new_head = false;                 // whether the head begins with initial values
  // Of a model whose config.json has no "pad_token_id": the id that pads its texts.
  std::optional<int64_t> padding = {};
};

// Returns what the labels of the rows are, and makes a model of it: config.json gets their names, number and
// problem, and the layers of the head their size. A head that the weights have keeps its classes: their
// order, if they are the classes of the rows, or, if their names are made up (LABEL_0), their number. Throws
// INVALID_ARGUMENT for other classes than those, unless a new head is wanted; FAILED_PRECONDITION for a model
// that no library makes; UNIMPLEMENTED for an adapted one whose head begins with initial values. Before the
// model is boosted, and before an optimizer takes its parameters.
data::LabelSpace give_labels(const Model& model, const data::LabelledRows& rows, const WantedLabels& wanted,
                             const SettingName& called);

}  // namespace weft
