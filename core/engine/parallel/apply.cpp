#include "parallel/apply.hpp"

#include <c10/util/Type.h>

#include <algorithm>
#include <memory>
#include <typeinfo>

#include "base/text.hpp"
#include "parallel/attention.hpp"
#include "parallel/operations.hpp"
#include "plan/describe_model.hpp"
#include "weft/nn/rms_norm.hpp"

namespace weft::parallel {

namespace {

const plan::Attribute& attribute_of(const plan::Replacement& entry, std::string_view key) {
  for (const plan::Attribute& attribute : entry.attributes)
    if (attribute.key == key) return attribute;
  fail(WEFT_INTERNAL, "the plan's entry \"{}\" has no attribute \"{}\"", entry.pattern, key);
}

std::string parent_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

const plan::ParameterCut& weight_of(const plan::PlannedNode& node) {
  for (const plan::ParameterCut& cut : node.params)
    if (cut.name == "weight") return cut;
  fail(WEFT_INTERNAL, "the module {} has no weight", node.path);
}

std::vector<int64_t> counts_of(const plan::PlannedNode& node) {
  std::vector<int64_t> counts;
  for (const Cut& cut : weight_of(node).ranks) counts.push_back(cut.segments.front().count);
  return counts;
}

}  // namespace

class AppliedPlan::Installer {
 public:
  Installer(AppliedPlan& applied, nn::Model& model, const plan::Plan& plan, const Communicator& tensor)
      : applied_(applied), plan_(plan), tensor_(tensor), prefix_(model.base_prefix()) {
    for (const auto& item : model.named_modules("", /*include_self=*/false))
      modules_[plan::planned_name(item.key(), prefix_)] = {item.key(), item.value().get()};
    for (const nn::Tie& tie : model.ties()) ties_.push_back(tie);
  }

  void run() {
    for (const plan::Replacement& entry : plan_.replacements) {
      for (const plan::PlannedNode& node : entry.nodes) {
        choose(entry, node);
        if (splits_sequence()) install_for_sequence(entry, node);
        if (tensor_.size() == 1) continue;
        keep(node);
        install(entry, node);
      }
    }
    for (const plan::Division& division : plan_.divisions)
      for (const plan::DividedNode& node : division.nodes) divide(node, division.attribute);
  }

 private:
  void keep(const plan::PlannedNode& node) {
    const std::string& path = modules_.at(node.path).path;
    for (const plan::ParameterCut& cut : node.params) {
      if (cut.ranks.empty()) continue;
      const Cut& part = own(cut);
      const std::string name = path + "." + cut.name;
      applied_.parts_[name] = part;
      for (const nn::Tie& tie : ties_) {
        if (tie.name == name) applied_.parts_[tie.canonical] = part;
        if (tie.canonical == name) applied_.parts_[tie.name] = part;
      }
    }
  }

  // What does not depend on the ranks.
  void choose(const plan::Replacement& entry, const plan::PlannedNode& node) {
    if (is_attention(entry)) {
      source_of(entry, node);
      set(layer<nn::Attention>(node).fused, attribute_of(entry, "flash").integer != 0);
    } else if (auto* layer = dynamic_cast<nn::Fusible*>(modules_.at(node.path).module))
      set(layer->fused, attribute_of(entry, "fused").integer != 0);
  }

  // On a sequence axis, with one rank of the tensor axis or several.
  void install_for_sequence(const plan::Replacement& entry, const plan::PlannedNode& node) {
    const std::string& operation = entry.operation;
    const std::shared_ptr<ResidualStream>& stream = stream_of(node);
    const bool scatters_heads = plan_.sizes.sequence_mode == WEFT_SEQUENCE_ALL_TO_ALL;
    if (is_attention(entry)) {
      const std::shared_ptr<ResidualStream>& source = source_of(entry, node);
      set(layer<nn::Attention>(node).operation,
          scatters_heads ? head_scatter_attention(stream, source)
                         : ring_attention(stream, source, static_cast<int>(plan_.sizes.inner_ring)));
    } else if (operation == "weft.attention_bias/1") {
      set(layer<nn::RelativeAttentionBias>(node).operation,
          scatters_heads ? head_scatter_bias(stream) : ring_bias(stream));
    } else if (operation == "weft.embedding_vocab/1" || operation == "weft.embedding/1") {
      set(layer<nn::Embedding>(node).operation, stream_embedding(stream));
    } else if (operation == "weft.linear_vocab/1" && is_split(entry)) {
      set(linear(node).operation, vocabulary_linear(tensor_, counts_of(node), false, stream));
    } else if (operation == "weft.sequence_begin/1") {
      set(layer<nn::Identity>(node).operation, sequence_begin(stream));
    } else if (operation == "weft.sequence_end/1") {
      set(layer<nn::Identity>(node).operation, sequence_end(stream));
    }
  }

  void install(const plan::Replacement& entry, const plan::PlannedNode& node) {
    const std::string& operation = entry.operation;
    const std::shared_ptr<ResidualStream>& stream = stream_of(node);
    if (operation == "weft.linear_column/1")
      set(linear(node).operation, column_linear(input_of(entry, node), shared_features(node)));
    else if (operation == "weft.linear_row/1")
      set(linear(node).operation, row_linear(stream));
    else if (operation == "weft.linear_vocab/1")
      set(linear(node).operation,
          vocabulary_linear(tensor_, counts_of(node), attribute_of(entry, "parallel_output").integer == 0,
                            is_split(entry) ? stream : nullptr));
    else if (operation == "weft.embedding_vocab/1")
      set(layer<nn::Embedding>(node).operation, vocabulary_embedding(tensor_, counts_of(node), stream));
    else if (operation == "weft.embedding/1")
      set(layer<nn::Embedding>(node).operation, stream_embedding(stream));
    else if (operation == "weft.layer_norm/1" && is_split(entry))
      set(layer<nn::LayerNorm>(node).operation, stream_norm(stream));
    else if (operation == "weft.rms_norm/1" && is_split(entry))
      set(layer<nn::RmsNorm>(node).operation, stream_norm(stream));
    else if (operation == "weft.attention_bias/1" && !splits_sequence())
      set(layer<nn::RelativeAttentionBias>(node).operation, whole_bias(stream));
    else if (operation == "weft.sequence_begin/1")
      set(layer<nn::Identity>(node).operation, sequence_begin(stream));
    else if (operation == "weft.sequence_end/1")
      set(layer<nn::Identity>(node).operation, sequence_end(stream));
    else if (operation == "weft.dropout/1" && is_split(entry))
      set(layer<nn::Dropout>(node).stream, static_cast<uint64_t>(tensor_.rank()) + 1);
    else if (operation == "weft.parallel_input/1")
      set(layer<nn::Identity>(node).operation, parallel_input(stream));
  }

  static bool is_attention(const plan::Replacement& entry) {
    return entry.operation == "weft.attention/1" || entry.operation == "weft.cross_attention/1";
  }
  static bool is_split(const plan::Replacement& entry) { return attribute_of(entry, "split").integer != 0; }

  // Layers with the same parent share their input where their entries say so.
  std::shared_ptr<RegionInput> input_of(const plan::Replacement& entry, const plan::PlannedNode& node) {
    const std::string& input = attribute_of(entry, "input").text;
    if (input == "entered") return nullptr;
    const std::shared_ptr<ResidualStream>& stream = stream_of(node);
    if (input == "own") return stream->input(1);
    const std::string parent = parent_of(node.path);
    std::shared_ptr<RegionInput>& shared = shared_[parent];
    if (shared == nullptr) shared = stream->input(readers_in(parent));
    return shared;
  }

  int64_t readers_in(const std::string& parent) const {
    int64_t readers = 0;
    for (const plan::Replacement& entry : plan_.replacements)
      if (entry.operation == "weft.linear_column/1" && attribute_of(entry, "input").text == "shared")
        readers += std::count_if(entry.nodes.begin(), entry.nodes.end(),
                                 [&](const auto& node) { return parent_of(node.path) == parent; });
    return readers;
  }

  // Of the sequence below whose module the node lies.
  const std::shared_ptr<ResidualStream>& stream_of(const plan::PlannedNode& node) const {
    std::string path = parent_of(node.path);
    while (!applied_.streams_.contains(path)) path = parent_of(path);
    return applied_.streams_.at(path);
  }
  // Of keys and values.
  const std::shared_ptr<ResidualStream>& source_of(const plan::Replacement& entry,
                                                   const plan::PlannedNode& node) const {
    if (entry.operation == "weft.attention/1") return stream_of(node);
    const std::string& source = attribute_of(entry, "source").text;
    const auto found = applied_.streams_.find(source);
    if (found != applied_.streams_.end()) return found->second;
    fail(WEFT_INVALID_ARGUMENT,
         "{}: \"{}\" attends to a sequence of \"{}\", but none begins there (weft.sequence_begin/1)",
         plan_.architecture, entry.pattern, source);
  }
  bool splits_sequence() const { return plan_.sizes.sequence > 1; }

  const Cut& own(const plan::ParameterCut& cut) const {
    return cut.ranks[static_cast<size_t>(tensor_.rank())];
  }

  // Of this rank's output features those that other ranks keep too, with these ranks.
  std::vector<SharedFeatures> shared_features(const plan::PlannedNode& node) {
    std::vector<SharedFeatures> shared;
    int64_t at = 0, copies = 1;  // of the features before
    for (const Segment& segment : own(weight_of(node)).segments) {
      if (segment.copies > 1 && segment.copies == copies)
        shared.back().count += segment.count;
      else if (segment.copies > 1)
        shared.push_back({at, segment.count, sharers(static_cast<int>(segment.copies))});
      copies = segment.copies;
      at += segment.count;
    }
    return shared;
  }

  // The `copies` neighbours among which this rank is. Made once for each number; collective then.
  Communicator sharers(int copies) {
    const auto found = sharers_.find(copies);
    if (found != sharers_.end()) return found->second;
    Communicator mine;
    for (int first = 0; first < tensor_.size(); first += copies) {
      std::vector<uint32_t> members;
      for (int rank = first; rank < first + copies; ++rank) members.push_back(static_cast<uint32_t>(rank));
      if (Communicator made = tensor_.subset(members)) mine = std::move(made);
    }
    return sharers_[copies] = mine;
  }

  void divide(const plan::DividedNode& node, const std::string& attribute) {
    set(*layer<nn::Layer>(node).attribute(attribute), node.after);
  }

  template <class T, class V>
  void set(T& slot, V value) {
    applied_.changes_.push_back({[&slot, wanted = T(std::move(value))] { slot = wanted; },
                                 [&slot, before = slot] { slot = before; }});
    applied_.changes_.back().apply();
  }

  template <class L, class N>
  L& layer(const N& node) {
    if (auto* const layer = dynamic_cast<L*>(modules_.at(node.path).module)) return *layer;
    fail(WEFT_INVALID_ARGUMENT, "{}: a plan replaces what {} computes, but its class is not derived from {}",
         plan_.architecture, node.path, c10::demangle(typeid(L).name()));
  }
  nn::Linear& linear(const plan::PlannedNode& node) { return layer<nn::Linear>(node); }

  struct Found {
    std::string path;  // in the model
    torch::nn::Module* module;
  };
  AppliedPlan& applied_;
  const plan::Plan& plan_;
  const Communicator& tensor_;
  const std::string prefix_;
  std::map<std::string, Found> modules_;  // by the plan's path
  std::vector<nn::Tie> ties_;
  std::map<std::string, std::shared_ptr<RegionInput>> shared_;  // by parent
  std::map<int, Communicator> sharers_;
};

namespace {

std::shared_ptr<ResidualStream> make_stream(const std::string& name, const plan::ParallelSizes& sizes,
                                            const Communicator& tensor, const Communicator& sequence) {
  switch (sizes.sequence_mode) {
    case WEFT_SEQUENCE_SPLIT_GATHER:
      return split_residual_stream(name, tensor, sizes.sequence_overlap);
    case WEFT_SEQUENCE_RING:
      return ring_residual_stream(name, tensor);
    case WEFT_SEQUENCE_ALL_TO_ALL:
      return whole_residual_stream(name, tensor, Positions(sequence, Positions::Order::kInOrder));
    case WEFT_SEQUENCE_RING_ATTENTION:
      return whole_residual_stream(name, tensor, Positions(sequence, Positions::Order::kZigzag));
    default:
      return whole_residual_stream(name, tensor);
  }
}

}  // namespace

AppliedPlan::AppliedPlan(nn::Model& model, const plan::Plan& plan, const Communicator& tensor,
                         const Communicator& sequence) {
  const std::vector<std::string> reasons = plan::unsupported(plan);
  if (!reasons.empty())
    fail(WEFT_UNIMPLEMENTED, "the plan of {}: {}", plan.architecture, fmt::join(reasons, "; "));
  streams_[""] = make_stream("", plan.sizes, tensor, sequence);
  for (const plan::Replacement& entry : plan.replacements)
    if (entry.operation == "weft.sequence_begin/1")
      for (const plan::PlannedNode& node : entry.nodes)
        streams_[parent_of(node.path)] = make_stream(parent_of(node.path), plan.sizes, tensor, sequence);
  try {
    Installer(*this, model, plan, tensor).run();
  } catch (...) {
    lift();
    throw;
  }
}

std::vector<Segment> AppliedPlan::own_positions(const std::string& sequence, int64_t total) const {
  const auto found = streams_.find(sequence);
  return (found != streams_.end() ? found : streams_.find(""))->second->own(total);
}

int64_t AppliedPlan::times_counted() const {
  return streams_.at("")->times_counted();
}

bool AppliedPlan::divides_positions_of_tensor_ranks() const {
  return streams_.at("")->is_split() && streams_.at("")->times_counted() == 1;
}

void AppliedPlan::lift() {
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) change->undo();
}

void AppliedPlan::put_back() {
  for (const Change& change : changes_) change.apply();
}

}  // namespace weft::parallel
