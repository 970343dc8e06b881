// The sequences of a model, as the entries of a plan mark them: where each begins and ends.
#pragma once

#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace weft::plan {

class Sequences {
 public:
  Sequences(const ModelDescription& model, const Plan& plan);

  // Returns true if units run the module after the end of its sequence, so that it has all positions on every
  // rank.
  bool have_ended_before(const Node& node) const;
  // Returns true if units run the module before its sequence is split, so that it has all positions on every
  // rank.
  bool are_split_after(const Node& node) const;
  // Returns the path of the first module that splits the sequence which passes through the module at `path`;
  // "" if there is none. Before it, every rank has all positions.
  std::string split_at(const std::string& path) const;
  // Returns the sequence that passes through the module at `path`, as the path of the innermost module around
  // it that has a sequence of its own; "" if there is none.
  std::string sequence_of(const std::string& path) const;
  // Returns the path of the module whose sequence units run last, "" if the model has no nested sequences.
  const std::string& last() const { return last_; }
  // Returns true if an entry ends the sequence of the module at `path`.
  bool ends(const std::string& path) const { return ends_.contains(path); }
  // Returns the paths of the modules whose sequences no entry splits although entries split those of other
  // modules. Empty if an entry outside of all of them splits sequences, which may be an embedding that they
  // share.
  std::vector<std::string> never_split() const;

 private:
  std::vector<std::string> nested_;     // paths of the modules below which a sequence of their own begins
  std::set<std::string> split_;         // the sequences that an entry splits, by path; "" for the others
  std::map<std::string, size_t> ends_;  // the order of the end of each sequence, by path; "" for the others
  // The order and the path of the first module that splits each sequence, by path.
  std::map<std::string, std::pair<size_t, std::string>> splits_;
  std::string last_;
  size_t last_end_ = std::numeric_limits<size_t>::max();
};

// Returns true if the ranks of the tensor axis, of which there are several, split sequences between
// tensor-parallel regions.
bool splits_over_tensor_axis(const ParallelSizes& sizes);
// Returns true if the ranks of the tensor axis or of the sequence axis split sequences.
bool splits_sequences(const ParallelSizes& sizes);

// Returns true for layers that a plan prepares for split sequences without an entry: norms and dropouts.
bool follows_sequence(const Node& node);

// Returns true if `node` is a norm whose entry (null if it has none) says that it is inside of a
// tensor-parallel region, where each rank has all positions of its heads.
bool is_norm_inside_region(const Node& node, const Replacement* entry);

// Returns the paths of the layers that follow the sequence and have this rank's positions only, if
// tensor-parallel ranks split sequences.
std::vector<std::string> layers_on_split_sequence(const ModelDescription& model, const Plan& plan);

}  // namespace weft::plan
