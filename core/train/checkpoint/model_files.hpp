// Weights of models in checkpoints, under the names of Hugging Face.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/missing.hpp"
#include "files/piece.hpp"
#include "training/bindings.hpp"

namespace weft::checkpoint {

// Which entry of a checkpoint holds which parameter. Knows ties (written once, under any of their names) and
// the prefix of the base model, which a checkpoint of the base alone does not have, and the other way round.
// What wrappers of modules add to names is left out (StoredNames).
class WeightMap {
 public:
  // `training`: the model's, if it is boosted; its layers may hold parts. Throws if a shape is not the
  // model's, or if the names of a tied parameter have different values. With `new_head` the parameters
  // outside the base model are taken as missing, whatever the checkpoint has.
  WeightMap(const Reader& reader, const nn::Model& model, const Bindings* training = nullptr,
            bool new_head = false);
  // The entry, or nothing: the parameter is not in the checkpoint.
  std::optional<size_t> find(const std::string& parameter) const;
  bool empty() const { return entry_of_.empty(); }
  const std::vector<std::string>& missing() const { return missing_; }
  const std::vector<std::string>& unexpected() const { return unexpected_; }
  // Throws naming the first eight missing and unexpected entries.
  void require_exact(const std::string& path, const nn::Model& model) const;

 private:
  std::map<std::string, size_t> entry_of_;
  std::vector<std::string> missing_, unexpected_;
};

// Reads parameters from a checkpoint by ranges. Throws if it has none of the model's, or if it lacks more
// than `missing` allows; `speaks`: logs what is missing and what is not used. `format`: the one that reads it
// where several could. `new_head`: as of WeightMap.
std::shared_ptr<ParameterSource> weight_source(const std::string& path, const std::string& format,
                                               const nn::Model& model, Missing missing, bool speaks,
                                               bool new_head = false);

// What the strategy published, named as the parameters and in the dtype that the model computes with.
Pieces held_values(const std::vector<Shard>& shards);
Pieces wanted_values(const std::vector<Shard>& shards);

// The whole tensors, written by the master: what it does not hold the other ranks send, one tensor at a time,
// so it holds at most one beside the pieces. `path` is the master's: a folder, or a file with an extension.
// Collective; throws on every rank alike.
void write_gathered(const std::string& path, const WriteOptions& options, const Communicator& ranks,
                    const Pieces& pieces);

// Fills this rank's shards; the strategy is to be told (values_changed). Throws unless the entries match
// (`strict`) and the shapes do (always). What `masters` has under a parameter's name goes before the file's.
void read_weights(const std::string& path, const Bindings& training, const std::vector<Shard>& shards,
                  bool strict, const TensorSource* masters = nullptr);

}  // namespace weft::checkpoint
