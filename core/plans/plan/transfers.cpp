// Lists what the modules of a plan send: their widths, and which gradients several ranks sum.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "axes/cut.hpp"
#include "operations/registry.hpp"
#include "plan/sequences.hpp"
#include "plan/traffic.hpp"
#include "sequence_modes/sequence_mode.hpp"

namespace weft::plan {
namespace {

using Kind = Transfer::Kind;

// Returns the matrix of a linear layer or an embedding, null if the module has none.
const PlannedParameter* matrix_of(const PlannedNode& node) {
  const auto found = std::find_if(node.params.begin(), node.params.end(), [](const PlannedParameter& param) {
    return param.name == "weight" && param.shape.size() == 2;
  });
  return found == node.params.end() ? nullptr : &*found;
}

enum class Side { kInput, kOutput };

// Returns the features of a linear layer or an embedding whose matrix has this shape.
int64_t features(const PlannedNode& node, const std::vector<int64_t>& shape, Side side) {
  const bool input_first = node.kind == "Conv1D" || node.kind == "Embedding";
  return shape[input_first == (side == Side::kInput) ? 0 : 1];
}

int64_t features(const PlannedNode& node, Side side) {
  const PlannedParameter* matrix = matrix_of(node);
  return matrix == nullptr ? 0 : features(node, matrix->shape, side);
}

// Returns the output features of the first rank of the tensor axis.
int64_t local_outputs(const PlannedNode& node) {
  const PlannedParameter* matrix = matrix_of(node);
  return matrix == nullptr ? 0 : features(node, matrix->local(0), Side::kOutput);
}

// Returns the text of an attribute of the entry, a flag as "true" or "false"; "" if it has no such attribute.
std::string text_of(const Replacement& entry, std::string_view key) {
  for (const Attribute& attribute : entry.attributes)
    if (attribute.key == key)
      return attribute.kind == WEFT_KIND_TEXT ? attribute.text : value_text(attribute);
  return "";
}

class Lister {
 public:
  Lister(const ModelDescription& model, const Plan& plan)
      : model_(model), plan_(plan), sequences_(model, plan) {
    for (const Node& node : model.nodes) nodes_[node.path] = &node;
    for (const Replacement& entry : plan.replacements)
      for (const PlannedNode& node : entry.nodes) operations_.try_emplace(node.path, entry.operation);
    own_positions_.insert(plan.on_split_sequence.begin(), plan.on_split_sequence.end());
  }

  std::vector<PlannedTransfer> run() {
    for (const Replacement& entry : plan_.replacements)
      if (const Operation* operation = find_operation(entry.operation))
        for (const PlannedNode& node : entry.nodes)
          for (const Transfer& transfer : operation->transfers)
            if (transfer.key.empty() || text_of(entry, transfer.key) == transfer.value)
              add(entry, node, transfer.kind);
    // Norms on a split sequence need no entry.
    for (const PlannedNode& node : plan_.replicated)
      if (own_positions_.contains(node.path)) add({}, node, Kind::kOwnGradients);
    return std::move(transfers_);
  }

 private:
  // Returns true if transfers of this kind are sent on axes of these sizes.
  bool is_sent(Kind kind) const {
    switch (kind) {
      case Kind::kAttend:
      case Kind::kAttendSource:
        return plan_.sizes.sequence > 1 &&
               sequence_mode_of(plan_.sizes).axis == SequenceMode::Axis::kSequence;
      case Kind::kEnd:
        return splits_sequences(plan_.sizes);
      case Kind::kSplit:
      case Kind::kOwnGradients:
        return splits_over_tensor_axis(plan_.sizes);
      default:
        return plan_.sizes.tensor > 1;
    }
  }

  // Returns false for a module that no unit runs. Also returns false for an embedding outside of all nested
  // sequences if it is tied to one inside, because the encoder and the decoder run theirs.
  bool is_run(const Node& node) const {
    if (node.order == std::numeric_limits<size_t>::max()) return false;
    if (!sequences_.sequence_of(node.path).empty()) return true;
    return std::none_of(model_.ties.begin(), model_.ties.end(), [&](const TiedNames& tied) {
      std::string first = parent_of(tied.name), second = parent_of(tied.canonical);
      if (second == node.path) std::swap(first, second);
      if (first != node.path || sequences_.sequence_of(second).empty()) return false;
      const auto own = operations_.find(first), other = operations_.find(second);
      return own != operations_.end() && other != operations_.end() && own->second == other->second;
    });
  }

  void add(const Replacement& entry, const PlannedNode& node, Kind kind) {
    const Node& described = *nodes_.at(node.path);
    if (!is_sent(kind) || !is_run(described)) return;
    if (kind == Kind::kEnterLinearShared && !sharing_.insert(parent_of(node.path)).second) return;
    if (kind == Kind::kOwnGradients && follows_sequence(described) && !own_positions_.contains(node.path))
      return;
    PlannedTransfer made;
    made.path = node.path;
    made.kind = kind;
    made.sequence = sequence_at(node.path);
    if (kind == Kind::kAttend || kind == Kind::kAttendSource) {
      made.source = kind == Kind::kAttend ? made.sequence : text_of(entry, "source");
      measure_attention(described, made);
    } else {
      made.width = width_of(node, kind, made.sequence);
      made.gradients = gradients_of(node, kind);
    }
    if (made.width > 0 || !made.gradients.empty()) transfers_.push_back(std::move(made));
  }

  // Returns the name under which Model::lengths has the sequence that passes through the module. Heads beside
  // nested sequences read the last one.
  std::string sequence_at(const std::string& path) const {
    const std::string sequence = sequences_.sequence_of(path);
    return sequence.empty() ? sequences_.last() : sequence;
  }

  int64_t width_of(const PlannedNode& node, Kind kind, const std::string& sequence) const {
    switch (kind) {
      case Kind::kEnterLinear:
      case Kind::kEnterLinearShared:
      case Kind::kEnterHead:
        return features(node, Side::kInput);
      case Kind::kLeave:
      case Kind::kLeaveLinear:
        return features(node, Side::kOutput);
      case Kind::kEnter:
      case Kind::kSplit:
      case Kind::kEnd:
        return stream_width(sequence);
      case Kind::kLogits:
        return local_outputs(node);
      case Kind::kLoss:
        return 3;
      default:
        return 0;
    }
  }

  // Returns the width of the residual stream of a sequence: that of the row-parallel layers, whose outputs
  // are added to it, or else of the embedding.
  int64_t stream_width(const std::string& sequence) const {
    int64_t width = 0;
    for (const Replacement& entry : plan_.replacements) {
      const Operation* operation = find_operation(entry.operation);
      if (operation == nullptr) continue;
      for (const Transfer& transfer : operation->transfers) {
        if (transfer.kind != Kind::kLeave && transfer.kind != Kind::kLeaveLinear) continue;
        for (const PlannedNode& node : entry.nodes) {
          if (sequence_at(node.path) != sequence) continue;
          width = features(node, Side::kOutput);
          if (transfer.kind == Kind::kLeaveLinear) return width;
        }
      }
    }
    return width;
  }

  // Fills the widths of the queries, and of the keys and values together. The column-parallel layers below
  // the attention compute all three. Its first attribute is the number of heads, its last one that of key
  // heads.
  void measure_attention(const Node& attention, PlannedTransfer& made) const {
    int64_t outputs = 0;
    for (const Replacement& entry : plan_.replacements)
      if (states(entry, Fact::kSplitsOutput))
        for (const PlannedNode& node : entry.nodes)
          if (node.path.starts_with(attention.path + ".")) outputs += local_outputs(node);
    int64_t heads = 1, key_heads = 1;
    if (!attention.attributes.empty()) {
      heads = std::max<int64_t>(1, local_value(plan_, attention.path, attention.attributes.front()));
      key_heads = std::max<int64_t>(1, local_value(plan_, attention.path, attention.attributes.back()));
    }
    const int64_t head_size = outputs / (heads + 2 * key_heads);
    made.width = heads * head_size;
    const AttentionTraffic& traffic = sequence_mode_of(plan_.sizes).attention;
    made.source_width = 2 * traffic.key_heads(key_heads, plan_.sizes.sequence) * head_size;
  }

  std::vector<PlannedTransfer::Gradient> gradients_of(const PlannedNode& node, Kind kind) const {
    std::vector<PlannedTransfer::Gradient> gradients;
    const uint32_t ranks = plan_.sizes.tensor;
    const auto is_cut = [](const PlannedParameter& param) { return param.cuts.size() > 1; };
    if (kind == Kind::kGradients)
      for (const PlannedParameter& param : node.params)
        gradients.push_back({num_elements(param.shape), ranks});
    if (kind == Kind::kOwnGradients)
      for (const PlannedParameter& param : node.params)
        if (!is_cut(param)) gradients.push_back({num_elements(param.shape), ranks});
    if (kind == Kind::kSharedGradients && std::any_of(node.params.begin(), node.params.end(), is_cut))
      for (const PlannedParameter& param : node.params) add_shared(param, gradients);
    return gradients;
  }

  // Adds the elements of the first rank that other ranks hold too, as parallel::summed_gradient sums them.
  void add_shared(const PlannedParameter& param, std::vector<PlannedTransfer::Gradient>& gradients) const {
    const std::vector<size_t> dims = split_dims(param.shape, param.cuts);
    if (dims.empty()) gradients.push_back({num_elements(param.shape), plan_.sizes.tensor});
    for (const size_t dim : dims) {
      const std::vector<int64_t> local = param.local(0);
      for (const auto& [run, holders] : shared_runs(param.cuts, 0, dim))
        if (holders.size() > 1)
          gradients.push_back(
              {num_elements(local) / local[dim] * run.count, static_cast<uint32_t>(holders.size())});
    }
  }

  const ModelDescription& model_;
  const Plan& plan_;
  const Sequences sequences_;
  std::map<std::string, const Node*> nodes_;
  std::map<std::string, std::string> operations_;  // by path
  std::set<std::string> own_positions_;  // layers that follow a sequence that tensor-parallel ranks split
  std::set<std::string> sharing_;        // parents whose shared input is listed
  std::vector<PlannedTransfer> transfers_;
};

}  // namespace

std::vector<PlannedTransfer> list_transfers(const ModelDescription& model, const Plan& plan) {
  return Lister(model, plan).run();
}

}  // namespace weft::plan
