#include "parallel/apply.hpp"

#include <c10/util/Type.h>

#include <algorithm>
#include <memory>
#include <set>
#include <typeinfo>

#include "base/text.hpp"
#include "box/cut.hpp"
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

const plan::PlannedParameter& weight_of(const plan::PlannedNode& node) {
  for (const plan::PlannedParameter& param : node.params)
    if (param.name == "weight") return param;
  fail(WEFT_INTERNAL, "the module {} has no weight", node.path);
}

std::vector<int64_t> counts_of(const plan::PlannedNode& node) {
  std::vector<int64_t> counts;
  for (const Cut& cut : weight_of(node).cuts) counts.push_back(cut.local().front());
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
        keep(node);
        if (splits_sequence()) install_for_sequence(entry, node);
        if (tensor_.size() == 1) continue;
        install(entry, node);
      }
    }
    for (const plan::Division& division : plan_.divisions)
      for (const plan::DividedNode& node : division.nodes) divide(node, division.attribute);
  }

 private:
  void keep(const plan::PlannedNode& node) {
    const std::string& path = modules_.at(node.path).path;
    for (const plan::PlannedParameter& param : node.params) {
      if (param.cuts.size() < 2 && param.gradient_axes == sample_axes()) continue;
      const std::string name = path + "." + param.name;
      applied_.split_[name] = param;
      for (const nn::Tie& tie : ties_) {
        if (tie.name == name) applied_.split_[tie.canonical] = param;
        if (tie.canonical == name) applied_.split_[tie.name] = param;
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

  // Returns the output features of this rank that other ranks of the tensor axis keep, too, with a group of
  // these ranks. Collective where there are any.
  std::vector<SharedFeatures> shared_features(const plan::PlannedNode& node) {
    const plan::PlannedParameter& weight = weight_of(node);
    std::vector<SharedFeatures> shared;
    for (const size_t dim : split_dims(weight.shape, weight.cuts)) {
      make_sharers(weight.cuts, dim);
      int64_t at = 0;
      std::vector<uint32_t> before;  // who holds the features before
      for (const auto& [run, holders] : shared_runs(weight.cuts, static_cast<size_t>(tensor_.rank()), dim)) {
        if (holders.size() > 1 && holders == before)
          shared.back().count += run.count;
        else if (holders.size() > 1)
          shared.push_back({at, run.count, sharers_.at(holders)});
        before = holders;
        at += run.count;
      }
    }
    return shared;
  }

  // Makes a group of each set of ranks that keep the same features. All ranks know what all keep, so they
  // make the same groups in the same order.
  void make_sharers(const std::vector<Cut>& cuts, size_t dim) {
    std::set<std::vector<uint32_t>> groups;
    for (size_t rank = 0; rank < cuts.size(); ++rank)
      for (const SharedRun& run : shared_runs(cuts, rank, dim))
        if (run.holders.size() > 1) groups.insert(run.holders);
    for (const std::vector<uint32_t>& group : groups)
      if (!sharers_.contains(group)) sharers_[group] = tensor_.subset(group);
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
  std::map<std::vector<uint32_t>, Communicator> sharers_;       // null where this rank is not among them
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

std::vector<Run> AppliedPlan::own_positions(const std::string& sequence, int64_t total) const {
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
