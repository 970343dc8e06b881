#include "plan/sequences.hpp"

#include <algorithm>

#include "operations/registry.hpp"
#include "sequence_modes/sequence_mode.hpp"

namespace weft::plan {

Sequences::Sequences(const ModelDescription& model, const Plan& plan) {
  std::map<std::string, size_t> orders;
  for (const Node& node : model.nodes) orders[node.path] = node.order;
  for (const Replacement& entry : plan.replacements)
    if (states(entry, Fact::kBeginsNestedSequence))
      for (const PlannedNode& node : entry.nodes) nested_.push_back(parent_of(node.path));
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  size_t last_order = 0;
  for (const Node& node : model.nodes) {
    const std::string sequence = sequence_of(node.path);
    if (sequence.empty() || node.order == kNever || node.order < last_order) continue;
    last_order = node.order;
    last_ = sequence;
  }
  for (const Replacement& entry : plan.replacements) {
    if (states(entry, Fact::kSplitsSequence) || states(entry, Fact::kBeginsSequence))
      for (const PlannedNode& node : entry.nodes) split_.insert(sequence_of(node.path));
    if (states(entry, Fact::kSplitsSequence))
      for (const PlannedNode& node : entry.nodes) {
        const std::pair split(orders.at(node.path), node.path);
        auto& first = splits_.emplace(sequence_of(node.path), split).first->second;
        first = std::min(first, split);
      }
    if (!states(entry, Fact::kEndsSequence)) continue;
    for (const PlannedNode& node : entry.nodes) {
      const size_t order = orders.at(node.path);
      ends_[sequence_of(node.path)] = order;
      if (order != kNever) last_end_ = last_end_ == kNever ? order : std::max(last_end_, order);
    }
  }
}

std::string Sequences::sequence_of(const std::string& path) const {
  std::string parent = parent_of(path);
  while (!parent.empty() && std::find(nested_.begin(), nested_.end(), parent) == nested_.end())
    parent = parent_of(parent);
  return parent;
}

bool Sequences::have_ended_before(const Node& node) const {
  // A module beside nested sequences, such as a head, comes after the last of them.
  const auto end = ends_.find(sequence_of(node.path));
  return node.order > (end != ends_.end() ? end->second : last_end_);
}

bool Sequences::are_split_after(const Node& node) const {
  const auto split = splits_.find(sequence_of(node.path));
  return split != splits_.end() && node.order < split->second.first;
}

std::string Sequences::split_at(const std::string& path) const {
  const auto split = splits_.find(sequence_of(path));
  return split != splits_.end() ? split->second.second : "";
}

std::vector<std::string> Sequences::never_split() const {
  std::vector<std::string> paths;
  if (split_.empty() || split_.contains("")) return paths;
  for (const std::string& path : nested_)
    if (!split_.contains(path)) paths.push_back(path);
  return paths;
}

bool splits_over_tensor_axis(const ParallelSizes& sizes) {
  return sizes.tensor > 1 && sequence_mode_of(sizes).axis == SequenceMode::Axis::kTensor;
}

bool splits_sequences(const ParallelSizes& sizes) {
  return sizes.sequence > 1 || splits_over_tensor_axis(sizes);
}

bool follows_sequence(const Node& node) {
  return node.kind == "Dropout" || node.kind == "LayerNorm" || node.kind == "RMSNorm";
}

bool is_norm_inside_region(const Node& node, const Replacement* entry) {
  if (entry == nullptr || (node.kind != "LayerNorm" && node.kind != "RMSNorm")) return false;
  return std::any_of(entry->attributes.begin(), entry->attributes.end(), [](const Attribute& attribute) {
    return attribute.key == "split" && attribute.integer != 0;
  });
}

std::vector<std::string> layers_on_split_sequence(const ModelDescription& model, const Plan& plan) {
  std::vector<std::string> paths;
  if (!splits_over_tensor_axis(plan.sizes)) return paths;
  std::map<std::string, const Replacement*> entries;
  for (const Replacement& entry : plan.replacements)
    for (const PlannedNode& node : entry.nodes) entries[node.path] = &entry;
  const Sequences sequences(model, plan);
  for (const Node& node : model.nodes)
    if (follows_sequence(node) && !sequences.are_split_after(node) && !sequences.have_ended_before(node) &&
        !is_norm_inside_region(node, entries[node.path]))
      paths.push_back(node.path);
  return paths;
}

}  // namespace weft::plan
