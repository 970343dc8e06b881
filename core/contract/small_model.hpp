// Small models of installed families, with batches, for suites that run whole models.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "contract/checks.hpp"
#include "contract/scratch.hpp"
#include "weft/job.hpp"

namespace weft::contract {

// Returns the configuration with few layers, narrow, with short sequences and a small vocabulary, without
// dropout, and with initial values large enough that every layer matters. `complete` sets every size, for a
// configuration that leaves all to the family's defaults; otherwise only keys that are there change. Keeps
// which sizes equal each other: the number of heads of keys is that of heads, or half of it.
nlohmann::json small_config(nlohmann::json config, bool complete);

// A class that can be opened again and again.
struct SmallModel {
  std::string path;          // of its config.json
  std::string architecture;  // of its class
  Model open(const std::string& precision) const { return Model::open(path, architecture, precision); }
};

// Writes small configurations into `scratch`. With a `config`, the path of a config.json, returns the model
// of its class; otherwise one for each class of the installed family whose model library has the id `family`.
// Throws NOT_FOUND, saying to give --model, if there is none.
std::vector<SmallModel> small_models(const std::string& family, const std::string& config,
                                     const Scratch& scratch);

// The same of one class, of whatever installed library provides it.
SmallModel small_model(const std::string& architecture, const std::string& config, const Scratch& scratch);

// Returns the classes that installed model libraries provide.
std::vector<std::string> installed_classes();

// A batch, and the criterion that takes the place of the model's loss if that needs labels of another form,
// or the objective of a library that does.
struct Sample {
  Batch batch;
  Criterion criterion;
  std::string objective = {}, objective_options = "{}";
};

// Says of a sample with a criterion that the model's own loss does not run: `refusal` is why it took no
// labels.
Check stand_in_for_loss(const std::string& refusal);

// Returns samples to try in turn: with labels of the forms that models know, the last without any. A model
// refuses those that are not for it. Empty if the model says no example of a batch.
std::vector<Sample> small_samples(const nn::Model& model);

}  // namespace weft::contract
