#include "opening/model_plan.hpp"

#include "apply/describe_model.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "opening/library_operations.hpp"
#include "plan/json_policy.hpp"
#include "plugins.hpp"
#include "weft/error.hpp"

namespace weft {

namespace {

constexpr size_t kLongestFile = 1 << 20;

plan::Policy read_policy(const std::string& path, std::string* identity) {
  std::string text;
  try {
    text = read_file(path, kLongestFile);
  } catch (const Error& error) {
    fail(error.status(), "custom_policy: {}", error.what());
  }
  plan::Policy policy = plan::parse_json_policy(text, "policy file " + path);
  *identity = fmt::format("shard_policy {} of a file with SHA-256 {}", policy.name, sha256_hex(text));
  return policy;
}

}  // namespace

std::optional<plan::Policy> find_policy(const nn::Model& model, const std::string& name,
                                        std::string* identity) {
  find_library_operations();
  if (plan::is_json_policy(name)) return read_policy(name, identity);
  std::string family = name.empty() ? model.config().text("model_type", model.architecture()) : name;
  weft_loaded loaded{};
  try {
    loaded = load_plugin("shard_policy", family);
    family = plugin_name(family);
  } catch (const Error& error) {
    if (error.status() != WEFT_NOT_FOUND || !name.empty()) throw;
    *identity = "no policy for " + model.architecture();
    return std::nullopt;
  }
  *identity = plugin_identity(loaded);
  const auto& factory = plugin_factory<weft_shard_policy_factory>(loaded, WEFT_FACTORY_SHARD_POLICY);
  const weft_shard_policy* table = factory.find(&factory, borrow(family));
  if (table == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "plugin {} says that it provides policy \"{}\", but makes none",
         view(loaded.path), family);
  return plan::policy_of(*table, family);
}

plan::Plan make_plan(nn::Model& model, const plan::ParallelSizes& sizes, const std::string& policy_name,
                     std::string* policy_identity) {
  const std::optional<plan::Policy> policy = find_policy(model, policy_name, policy_identity);
  const plan::ModelDescription description = plan::describe_model(model);
  plan::Plan plan =
      policy ? plan::build_plan(description, *policy, sizes) : plan::empty_plan(description, sizes);
  if (const std::string libraries = operation_libraries(plan); !libraries.empty())
    *policy_identity += fmt::format(" with {}", libraries);
  return plan;
}

}  // namespace weft
