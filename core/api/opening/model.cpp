#include "weft/model.hpp"

#include <algorithm>
#include <filesystem>

#include "base/files.hpp"
#include "base/text.hpp"
#include "files/formats.hpp"
#include "host/launch/activity.hpp"
#include "opening/model_files.hpp"
#include "opening/model_state.hpp"
#include "plugins.hpp"
#include "training/training.hpp"
#include "weft/torch/dtypes.hpp"

namespace weft {

at::ScalarType precision_dtype(std::string_view precision) {
  if (const auto dtype = dtype_named(precision)) return *dtype;
  fail(WEFT_INVALID_ARGUMENT, "precision is \"{}\", must be \"fp32\", \"fp64\", \"bf16\" or \"fp16\"",
       precision);
}

std::string precision_of(at::ScalarType dtype) {
  for (const char* name : {"fp64", "bf16", "fp16"})
    if (dtype_named(name) == dtype) return name;
  return "fp32";
}

namespace {
// Returns true if the folder has weight files, such as shards without an index, that no format recognises.
// They must be an error and not be replaced by initial values.
bool has_weight_files(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (checkpoint::is_weight_file(entry.path().filename().string(), "")) return true;
  return false;
}

// Returns the files beside config.json that a model needs where it is used.
std::map<std::string, std::string> companions_of(const Config& config) {
  constexpr size_t kLargest = size_t{1} << 20;
  std::map<std::string, std::string> files;
  const std::filesystem::path path =
      std::filesystem::path(config.origin()).parent_path() / kPreprocessorConfig;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) files[kPreprocessorConfig] = read_file(path, kLargest);
  return files;
}

// Returns the configuration with "model_type", which files from before transformers 3 lack: the family is
// that of the library with the class. Its policy is found by this key, and AutoModel of transformers opens no
// saved folder without it.
Config with_family(const Config& config, const weft_loaded& library, const std::string& architecture) {
  const std::string family(view(library.id));
  if (config.has("model_type")) return config;
  const std::vector<std::string> policies = provided_names("shard_policy");
  const auto has = [&](const std::string& name) {
    return std::find(policies.begin(), policies.end(), name) != policies.end();
  };
  return has(family) && !has(architecture) ? config.with("model_type", family) : config;
}
}  // namespace

Model Model::open(const std::string& path, const std::string& architecture, const std::string& precision) {
  const Activity activity("the opening of " + path);
  const Config config = Config::load(path);
  const std::string asked = architecture.empty() || architecture.starts_with('@')
                                ? config.architecture() + architecture
                                : architecture;
  const weft_loaded library = load_plugin("model", asked);
  const std::string name = plugin_name(asked);
  Model model;
  model.shared_ = std::make_shared<Shared>();
  model.shared_->precision = precision;
  model.shared_->library = plugin_identity(library);
  model.shared_->companions = companions_of(config);
  model.shared_->make = [library, name, dtype = precision_dtype(precision)](const Config& of) {
    return plugin_factory<nn::ModelFactory>(library, nn::kModelFactory).create(of, name, dtype);
  };
  model.shared_->module = model.shared_->make(with_family(config, library, name));
  if (model.shared_->module == nullptr)
    fail(WEFT_NOT_FOUND, "model library {} says that it provides \"{}\", but makes none", view(library.path),
         name);
  if (std::filesystem::is_directory(path) && (checkpoint::recognises(path) || has_weight_files(path)))
    model.shared_->weights = path;
  const std::filesystem::path generation = std::filesystem::path(path) / kGenerationConfig;
  constexpr size_t kLargest = size_t{1} << 24;
  if (std::filesystem::exists(generation)) model.shared_->generation_config = read_file(generation, kLargest);
  return model;
}

Model Model::adopt(std::shared_ptr<nn::Model> module) {
  if (module == nullptr) fail(WEFT_INVALID_ARGUMENT, "Model::adopt: the module is null");
  Model model;
  model.shared_ = std::make_shared<Shared>();
  model.shared_->module = std::move(module);
  const auto parameters = model.shared_->module->parameters();
  model.shared_->precision = parameters.empty() ? "fp32" : precision_of(parameters.front().scalar_type());
  return model;
}

Model::Shared& Model::shared() const {
  if (shared_ == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "there is no model: open one with weft::Model::open(...)");
  return *shared_;
}

const Config& Model::config() const {
  return shared().module->config();
}
nn::Model& Model::module() const {
  return *shared().module;
}
std::string Model::architecture() const {
  return shared().module->architecture();
}

namespace {
// Returns the parameters by canonical name, tied ones once.
std::vector<std::pair<std::string, at::Tensor>> own_parameters(const nn::Model& module) {
  std::vector<std::pair<std::string, at::Tensor>> found;
  const std::vector<nn::Tie> ties = module.ties();
  for (const auto& item : module.named_parameters(true)) {
    const bool alias =
        std::any_of(ties.begin(), ties.end(), [&](const nn::Tie& tie) { return tie.name == item.key(); });
    if (!alias) found.emplace_back(item.key(), item.value());
  }
  return found;
}
}  // namespace

optim::Parameters Model::parameters() const {
  optim::Parameters result;
  for (const auto& [name, tensor] : own_parameters(module()))
    if (!module().frozen(name) && tensor.requires_grad()) result.names.push_back(name);
  return result;
}

Bindings& Model::Shared::bindings() const {
  return training->bindings();
}

int64_t Model::num_elements() const {
  int64_t total = 0;
  for (const auto& [name, tensor] : own_parameters(module()))
    total += shared().training != nullptr
                 ? c10::multiply_integers(shared().bindings().find_param(name)->shape)
                 : tensor.numel();
  return total;
}

State Model::operator()(const Batch& batch) const {
  if (shared().training == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "{} has no memory yet: boost it before calling it", architecture());
  return shared().training->forward(batch);
}

void Model::train() const {
  module().train(true);
}
void Model::eval() const {
  module().train(false);
}

}  // namespace weft
