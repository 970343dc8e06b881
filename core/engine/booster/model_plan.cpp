#include "booster/model_plan.hpp"

#include "base/text.hpp"
#include "booster/plugins.hpp"
#include "log.hpp"
#include "plan/describe_model.hpp"
#include "weft/error.hpp"

namespace weft {

const weft_shard_policy* find_policy(const nn::Model& model, const std::string& name, std::string* identity) {
  const std::string family = name.empty() ? model.config().text("model_type", model.architecture()) : name;
  weft_loaded loaded{};
  try {
    loaded = load_plugin("shard_policy", family);
  } catch (const Error& error) {
    if (error.status() != WEFT_NOT_FOUND || !name.empty()) throw;
    *identity = "no policy for " + model.architecture();
    return nullptr;
  }
  *identity = plugin_identity(loaded);
  const weft_shard_policy* policy =
      plugin_factory<weft_shard_policy_factory>(loaded, WEFT_FACTORY_SHARD_POLICY).find(borrow(family));
  if (policy == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "plugin {} says that it provides policy \"{}\", but makes none",
         view(loaded.path), family);
  return policy;
}

plan::Plan make_plan(const nn::Model& model, const plan::ParallelSizes& sizes, const std::string& policy_name,
                     std::string* policy_identity) {
  const weft_shard_policy* policy = find_policy(model, policy_name, policy_identity);
  const plan::ModelDescription description = plan::describe_model(model);
  if (policy != nullptr) return plan::build_plan(description, *policy, sizes);
  log(WEFT_LOG_INFO, fmt::format("no shard policy for {}: data axes only", model.architecture()));
  return plan::empty_plan(description, sizes);
}

}  // namespace weft
