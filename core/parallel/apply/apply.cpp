#include "apply/apply.hpp"

#include <c10/util/Type.h>

#include <algorithm>
#include <memory>
#include <typeinfo>

#include "apply/describe_model.hpp"
#include "base/text.hpp"
#include "install/installers.hpp"
#include "layers/random_stream.hpp"
#include "operations/registry.hpp"
#include "sequence_modes/sequence_mode.hpp"
#include "streams/summed_gradient.hpp"
#include "weft/nn/rms_norm.hpp"
#include "weft/nn/site.hpp"

namespace weft::parallel {

namespace {

using plan::parent_of;

bool shares_input(const plan::Replacement& entry) {
  return std::any_of(entry.attributes.begin(), entry.attributes.end(), [](const plan::Attribute& attribute) {
    return attribute.key == "input" && attribute.text == "shared";
  });
}

}  // namespace

class AppliedPlan::Installer {
 public:
  Installer(AppliedPlan& applied, nn::Model& model, const plan::Plan& plan, const Communicator& tensor)
      : applied_(applied), plan_(plan), tensor_(tensor), prefix_(model.base_prefix()), groups_(tensor) {
    for (const auto& item : model.named_modules("", /*include_self=*/false))
      modules_[plan::planned_name(item.key(), prefix_)] = {item.key(), item.value().get()};
    for (const nn::Tie& tie : model.ties()) ties_.push_back(tie);
  }

  void run() {
    for (const plan::Replacement& entry : plan_.replacements) {
      const plan::Operation* operation = plan::find_operation(entry.operation);
      const auto install = operation == nullptr ? nullptr : operations::installer(*operation);
      if (install == nullptr)
        fail(WEFT_INTERNAL, "the operation {} cannot be put into layers", entry.operation);
      for (const plan::PlannedNode& node : entry.nodes) {
        keep(node);
        PlanSite site(*this, node);
        install(site, plan::Attributes(entry.attributes));
      }
    }
    for (const plan::Transformed& transformed : plan_.transformed) transform(transformed);
    for (const plan::Division& division : plan_.divisions)
      for (const plan::DividedNode& node : division.nodes) divide(node, division.attribute);
    for (const std::string& path : plan_.on_split_sequence) use_own_positions(path);
  }

 private:
  class PlanSite final : public Site {
   public:
    PlanSite(Installer& installer, const plan::PlannedNode& node) : installer_(installer), node_(node) {}

    const plan::ParallelSizes& sizes() const override { return installer_.plan_.sizes; }
    bool is_split() const override {
      const auto is_cut = [](const plan::PlannedParameter& parameter) { return parameter.cuts.size() > 1; };
      for (const plan::Replacement& entry : installer_.plan_.replacements)
        for (const plan::PlannedNode& node : entry.nodes)
          if (node.path == node_.path && std::any_of(node.params.begin(), node.params.end(), is_cut))
            return true;
      return false;
    }
    const Communicator& tensor() const override { return installer_.tensor_; }
    Summed summed_gradient(std::string_view parameter) override {
      return parallel::summed_gradient(planned(parameter), installer_.groups_);
    }
    const plan::PlannedParameter& planned(std::string_view parameter) const override {
      for (const plan::PlannedParameter& planned : node_.params)
        if (planned.name == parameter) return planned;
      fail(WEFT_INTERNAL, "the module {} has no {}", node_.path, parameter);
    }
    std::shared_ptr<nn::ResidualStream> stream() const override { return installer_.stream_of(node_.path); }
    std::shared_ptr<nn::ResidualStream> stream_below(const std::string& path) const override {
      const auto& streams = installer_.applied_.streams_;
      if (const auto found = streams.find(path); found != streams.end()) return found->second;
      fail(WEFT_INVALID_ARGUMENT, "{}: {} attends to a sequence of \"{}\", but none begins there ({})",
           installer_.plan_.architecture, node_.path, path,
           plan::operations_that_state(plan::Fact::kBeginsNestedSequence));
    }
    std::shared_ptr<RegionInput> shared_input() override {
      const std::string parent = parent_of(node_.path);
      std::shared_ptr<RegionInput>& shared = installer_.shared_[parent];
      if (shared == nullptr) shared = stream()->input(installer_.readers_in(parent));
      return shared;
    }

   protected:
    torch::nn::Module& module() const override { return installer_.module_at(node_.path); }
    [[noreturn]] void refuse_class(const std::type_info& wanted) const override {
      installer_.refuse_class(node_.path, wanted);
    }
    void change(std::function<void()> apply, std::function<void()> undo) override {
      installer_.change(std::move(apply), std::move(undo));
    }

   private:
    Installer& installer_;
    const plan::PlannedNode& node_;
  };

  const std::shared_ptr<ResidualStream>& stream_of(const std::string& module) const {
    std::string path = parent_of(module);
    while (!applied_.streams_.contains(path)) path = parent_of(path);
    return applied_.streams_.at(path);
  }

  void transform(const plan::Transformed& transformed) {
    const auto change_layer = operations::transformer(transformed.transformation);
    if (change_layer == nullptr)
      fail(WEFT_INTERNAL, "the transformation {} cannot be made", transformed.transformation);
    for (const std::string& path : transformed.paths) {
      const plan::PlannedNode node = {path, "", {}};
      PlanSite site(*this, node);
      change_layer(site);
    }
  }

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

  int64_t readers_in(const std::string& parent) const {
    int64_t readers = 0;
    for (const plan::Replacement& entry : plan_.replacements)
      if (shares_input(entry))
        readers += std::count_if(entry.nodes.begin(), entry.nodes.end(),
                                 [&](const auto& node) { return parent_of(node.path) == parent; });
    return readers;
  }

  void divide(const plan::DividedNode& node, const std::string& attribute) {
    auto* const layer = dynamic_cast<nn::Layer*>(&module_at(node.path));
    if (layer == nullptr) refuse_class(node.path, typeid(nn::Layer));
    for (const auto& [name, value] : layer->attributes())
      if (name == attribute) set(*value, node.after);
    // Each rank drops attention weights of its own heads, so their masks must differ.
    auto* const attention = dynamic_cast<nn::Attention*>(layer);
    if (attention != nullptr && node.after < node.before)
      set(attention->random_stream, nn::random_stream_of(tensor_.rank()));
  }

  // Prepares a layer whose input has this rank's positions only: the gradients of a norm's parameters are
  // summed over the ranks, and each rank has dropout masks of its own.
  void use_own_positions(const std::string& path) {
    torch::nn::Module& module = module_at(path);
    if (auto* const dropout = dynamic_cast<nn::Dropout*>(&module))
      set(dropout->random_stream, nn::random_stream_of(tensor_.rank()));
    else if (auto* const layer_norm = dynamic_cast<nn::LayerNorm*>(&module))
      sum_parameters(path, layer_norm->operation, "weft.layer_norm/1");
    else if (auto* const rms_norm = dynamic_cast<nn::RmsNorm*>(&module))
      sum_parameters(path, rms_norm->operation, "weft.rms_norm/1");
    else
      refuse_class(path, typeid(nn::LayerNorm));
  }

  // Sums the gradients of a norm's parameters over the ranks. `own` is Weft's operation for such a norm.
  void sum_parameters(const std::string& path, std::shared_ptr<nn::NormOperation>& operation,
                      const char* own) {
    if (operation != nullptr)
      fail(WEFT_INVALID_ARGUMENT,
           "{}: {} gives {} an operation of its own, but tensor-parallel ranks split sequences, so the norm "
           "needs {}, which sums the gradients of its parameters; give it that, or leave "
           "enable_sequence_parallelism false",
           plan_.architecture, origin_of(path), path, own);
    set(operation, std::make_shared<SummedNorm>([stream = stream_of(path)](const at::Tensor& parameter) {
          return stream->parameter(parameter);
        }));
  }

  // Returns the entry that gives the module its operation, "the model" if there is none.
  std::string origin_of(const std::string& path) const {
    for (const plan::Replacement& entry : plan_.replacements)
      for (const plan::PlannedNode& node : entry.nodes)
        if (node.path == path) return fmt::format("\"{}\" -> {}", entry.pattern, entry.operation);
    return "the model";
  }

  torch::nn::Module& module_at(const std::string& path) const { return *modules_.at(path).module; }

  [[noreturn]] void refuse_class(const std::string& path, const std::type_info& wanted) const {
    fail(WEFT_INVALID_ARGUMENT, "{}: a plan replaces what {} computes, but its class is not derived from {}",
         plan_.architecture, path, c10::demangle(wanted.name()));
  }

  template <class T, class V>
  void set(T& slot, V value) {
    change([&slot, wanted = T(std::move(value))] { slot = wanted; },
           [&slot, before = slot] { slot = before; });
  }

  void change(std::function<void()> apply, std::function<void()> undo) {
    applied_.changes_.push_back({std::move(apply), std::move(undo)});
    applied_.changes_.back().apply();
  }

  struct Found {
    std::string path;  // its full path in the model
    torch::nn::Module* module;
  };
  AppliedPlan& applied_;
  const plan::Plan& plan_;
  const Communicator& tensor_;
  const std::string prefix_;
  std::map<std::string, Found> modules_;  // by their paths in the plan
  std::vector<nn::Tie> ties_;
  std::map<std::string, std::shared_ptr<RegionInput>> shared_;  // by the path of the parent
  SharedGroups groups_;
};

namespace {

std::shared_ptr<ResidualStream> make_stream(const std::string& name, const plan::ParallelSizes& sizes,
                                            const Communicator& tensor, const Communicator& sequence) {
  const MakeStream make = stream_maker(sizes.sequence_mode);
  if (make == nullptr) fail(WEFT_INTERNAL, "the sequence mode {} has no stream", sizes.sequence_mode);
  return make({.sequence = name,
               .tensor = tensor,
               .along = sequence,
               .order = plan::sequence_mode_of(sizes).order,
               .overlaps = sizes.sequence_overlap,
               .inner_ring = static_cast<int>(sizes.inner_ring)});
}

}  // namespace

AppliedPlan::AppliedPlan(nn::Model& model, const plan::Plan& plan, const Communicator& tensor,
                         const Communicator& sequence) {
  const std::vector<std::string> reasons = plan::unsupported(plan);
  if (!reasons.empty())
    fail(WEFT_UNIMPLEMENTED, "the plan of {}: {}", plan.architecture, fmt::join(reasons, "; "));
  streams_[""] = make_stream("", plan.sizes, tensor, sequence);
  for (const plan::Replacement& entry : plan.replacements)
    if (plan::states(entry, plan::Fact::kBeginsNestedSequence))
      for (const plan::PlannedNode& node : entry.nodes)
        streams_[parent_of(node.path)] = make_stream(parent_of(node.path), plan.sizes, tensor, sequence);
  try {
    Installer(*this, model, plan, tensor).run();
  } catch (...) {
    lift();
    throw;
  }
}

const ResidualStream& AppliedPlan::stream(const std::string& sequence) const {
  const auto found = streams_.find(sequence);
  return *(found != streams_.end() ? found : streams_.find(""))->second;
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
