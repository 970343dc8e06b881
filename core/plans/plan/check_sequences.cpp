#include "plan/check_sequences.hpp"

#include <vector>

#include "base/text.hpp"
#include "operations/registry.hpp"
#include "plan/sequences.hpp"

namespace weft::plan {
namespace {

class SequenceChecker {
 public:
  SequenceChecker(const ModelDescription& model, const Plan& plan, const EntriesByPath& entries,
                  PerNode& found)
      : model_(model), plan_(plan), entries_(entries), found_(found), sequences_(model, plan) {}

  void run() {
    check_splits();
    check_split_sequence();
    check_beginnings();
    check_last_end();
  }

 private:
  const Replacement* entry_of(const std::string& path) const {
    const auto found = entries_.find(path);
    return found == entries_.end() ? nullptr : found->second;
  }

  // Checks that each of several sequences is split somewhere.
  void check_beginnings() {
    for (const std::string& path : sequences_.never_split())
      found_.add(path, fmt::format("has a sequence of which every rank has all positions, because no entry "
                                   "splits it; give a module of {} {} or {}",
                                   path, operations_that_state(Fact::kBeginsSequence),
                                   operations_that_state(Fact::kSplitsSequence)));
  }

  // Checks that the sequence which a head reads ends: the last of several nested sequences, unless an entry
  // outside of them ends a sequence that they feed.
  void check_last_end() {
    const std::string last = sequences_.last();
    if (last.empty() || sequences_.ends(last) || sequences_.ends("") || states(plan_, Fact::kOwnPositions))
      return;
    std::vector<std::string> places;
    for (const Node& node : model_.nodes)
      if (node.kind == "Identity" && parent_of(node.path) == last && entry_of(node.path) == nullptr)
        places.push_back(node.path);
    found_.add(last,
               fmt::format("begins a split sequence, but no entry ends it, so a head would see this rank's "
                           "positions only; give {} weft.sequence_end/1",
                           places.size() == 1 ? places.front() : "the last module of the sequence"));
  }

  // Checks that one module at most splits each sequence. A second one would split this rank's positions
  // again.
  void check_splits() {
    for (const Node& node : model_.nodes) {
      const Replacement* entry = entry_of(node.path);
      if (entry == nullptr || !states(*entry, Fact::kSplitsSequence)) continue;
      const std::string first = sequences_.split_at(node.path);
      if (first == node.path) continue;
      found_.add(node.path,
                 fmt::format("(\"{}\" -> {}) splits the sequence, which {} has split before it; "
                             "give the operation to one of these modules only",
                             entry->pattern, entry->operation, entry_text(first, *entry_of(first))));
    }
  }

  // Checks that each layer of a split sequence has an operation for it. Without one, the layer would take
  // this rank's positions for all of them.
  void check_split_sequence() {
    const bool over_tensor_axis = splits_over_tensor_axis(plan_.sizes);
    for (const Node& node : model_.nodes) {
      const Replacement* entry = entry_of(node.path);
      if (sequences_.are_split_after(node)) {
        const std::string split = sequences_.split_at(node.path);
        if (entry != nullptr && states(*entry, Fact::kBeginsSequence))
          found_.add(node.path,
                     fmt::format("(\"{}\" -> {}) splits the sequence, which {} splits again after it; "
                                 "leave one of the entries out",
                                 entry->pattern, entry->operation, entry_text(split, *entry_of(split))));
        continue;
      }
      if (sequences_.have_ended_before(node) || follows_sequence(node)) continue;
      if (node.kind == "Attention" && !over_tensor_axis &&
          (entry == nullptr || !states(*entry, Fact::kAttends)))
        found_.add(
            node.path,
            fmt::format("attends to this rank's positions only, because sequences are split and no entry "
                        "gives it an operation for that; give it {}",
                        operations_that_state(Fact::kAttends)));
      if (entry != nullptr || node.params.empty()) continue;
      if (node.kind == "Embedding")
        found_.add(
            node.path,
            fmt::format("has no entry, so it looks up all positions, but sequences are split; give it {}",
                        operations_that_state(Fact::kBeginsSequence)));
      else if (over_tensor_axis)
        found_.add(
            node.path,
            fmt::format("({}) has no entry, but sees this rank's positions only, so the gradients of its "
                        "parameters would be incomplete; give it an operation, or leave "
                        "enable_sequence_parallelism false",
                        node.kind));
    }
  }

  const ModelDescription& model_;
  const Plan& plan_;
  const EntriesByPath& entries_;
  PerNode& found_;
  const Sequences sequences_;
};

}  // namespace

void check_sequences(const ModelDescription& model, const Plan& plan, const EntriesByPath& entries,
                     PerNode& found) {
  SequenceChecker(model, plan, entries, found).run();
}

}  // namespace weft::plan
