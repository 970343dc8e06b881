// Creates and destroys the objects of the C application API.
#include "application/objects.hpp"

#include <ATen/ops/empty.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "application/handles.hpp"
#include "base/error_sink.hpp"
#include "base/job_options.hpp"
#include "base/json.hpp"
#include "base/options.hpp"
#include "base/settings.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "opening/data_opener.hpp"
#include "optim/schedules.hpp"
#include "plugins.hpp"
#include "weft/torch/dtypes.hpp"

namespace weft::application {

void require(const void* pointer, const char* function, const char* argument) {
  if (pointer == nullptr) fail(WEFT_INVALID_ARGUMENT, "{}: {} is null", function, argument);
}

const World& world() {
  static const World joined = launch();
  return joined;
}

namespace {

nlohmann::json object_of(weft_str options, const char* function) {
  if (trim(view(options)).empty()) return nlohmann::json::object();
  return parse_json(view(options), fmt::format("{}: the options", function));
}

// Returns the options of a function as sdk/options/job.json declares them.
Options checked(weft_str options, const char* function) {
  return Options(option_table_of(function), object_of(options, function), function);
}

optim::Hyper hyper_of(const nlohmann::json& options) {
  optim::Hyper hyper;
  for (const auto& [key, value] : options.items()) {
    if (key == "groups" || key == "parameters") continue;
    if (!value.is_number() && !value.is_boolean())
      fail(WEFT_INVALID_ARGUMENT, "weft_optimizer_create: \"{}\" is {}, must be a number", key,
           json_kind(value));
    hyper[key] = value.is_boolean() ? static_cast<double>(value.get<bool>()) : value.get<double>();
  }
  return hyper;
}

// Takes the parameters out of `names` that one of the patterns matches.
optim::Parameters take_matching(std::vector<std::string>& names, const std::vector<std::string>& all,
                                const nlohmann::json& patterns) {
  optim::Parameters taken;
  for (const auto& given : patterns) {
    const auto pattern = given.get<std::string>();
    const auto matches = [&](const std::string& name) {
      return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    };
    if (std::none_of(all.begin(), all.end(), matches))
      fail(WEFT_NOT_FOUND, "weft_optimizer_create: no parameter that is trained matches \"{}\"{}",
           printable(pattern, 80), did_you_mean(pattern, all));
    const auto others = std::stable_partition(names.begin(), names.end(), matches);
    taken.names.insert(taken.names.end(), names.begin(), others);
    names.erase(names.begin(), others);
  }
  return taken;
}

std::vector<optim::Group> groups_of(const Model& model, const nlohmann::json& options) {
  if (!options.is_object())
    fail(WEFT_INVALID_ARGUMENT, "weft_optimizer_create: the options are {}, must be an object",
         json_kind(options));
  const optim::Hyper shared = hyper_of(options);
  const std::vector<std::string> all = model.parameters().names;
  std::vector<std::string> left = all;
  std::vector<optim::Group> groups;
  for (const nlohmann::json& given : options.value("groups", nlohmann::json::array())) {
    const auto is_text = [](const nlohmann::json& value) { return value.is_string(); };
    const nlohmann::json patterns = given.is_object() ? given.value("parameters", nlohmann::json()) : given;
    if (!given.is_object() || !patterns.is_array() || !std::all_of(patterns.begin(), patterns.end(), is_text))
      fail(WEFT_INVALID_ARGUMENT,
           "weft_optimizer_create: each of \"groups\" must be an object with \"parameters\", an array of "
           "patterns, not {}",
           printable(given.dump(), 80));
    optim::Group& group = groups.emplace_back(optim::Group{take_matching(left, all, patterns), shared});
    for (const auto& [key, value] : hyper_of(given)) group.options[key] = value;
  }
  if (!left.empty()) groups.insert(groups.begin(), optim::Group{{std::move(left)}, shared});
  return groups;
}

// Throws INVALID_ARGUMENT unless "special_ids" is an array of integers, or not given.
void check_ids(const nlohmann::json& settings) {
  const nlohmann::json ids = settings.value("special_ids", nlohmann::json::array());
  const auto is_integer = [](const nlohmann::json& id) { return id.is_number_integer(); };
  if (!ids.is_array() || !std::all_of(ids.begin(), ids.end(), is_integer))
    fail(WEFT_INVALID_ARGUMENT,
         "weft_data_open: \"special_ids\" is {}, must be an array of ids, which may be empty", ids.dump());
}

data::Loader open_loader(weft_model& model, weft_str path, weft_str given) {
  const Options options = checked(given, "weft_data_open");
  // What is null, and what says that nothing is chosen, was not given.
  nlohmann::json settings = object_of(given, "weft_data_open");
  for (auto setting = settings.begin(); setting != settings.end();)
    setting = setting->is_null() ? settings.erase(setting) : std::next(setting);
  if (settings.value("sequence_length", 1) == 0) settings.erase("sequence_length");
  if (settings.value("objective", "any").empty()) settings.erase("objective");
  check_ids(settings);
  check_settings("weft_data_open", settings, own_name);
  settings["data"] = view(path);
  settings["model"] = model.path;
  data::LoaderOptions loader;
  loader.batch_size = options.at("batch_size").integer;
  loader.shuffle = options.at("shuffle").integer != 0;
  loader.seed = options.at("seed").integer;
  loader.drop_last = options.at("drop_last").integer != 0;
  loader.num_workers = options.at("num_workers").integer;
  loader.pin_memory = options.at("pin_memory").integer != 0;
  const Settings of_data("weft_data_open", settings, own_name);
  const DataOpener opener = {of_data, model.model, world(), loader.seed};
  return data::Loader(opener.labelled(), loader);
}

}  // namespace

weft_status tensor_create(const weft_tensor_info* info, weft_tensor** own, weft_error* error) {
  return guarded(error, [&] {
    require(info, "weft_tensor_create", "info");
    require(own, "weft_tensor_create", "own");
    require_size("weft_tensor_create", info->struct_size, WEFT_END_OF(weft_tensor_info, data));
    const auto& [struct_size, dtype, ndim, shape, size_bytes, data] = *info;
    if (ndim > WEFT_MAX_DIMS)
      fail(WEFT_INVALID_ARGUMENT, "weft_tensor_create: {} dimensions, at most {}", ndim, WEFT_MAX_DIMS);
    if (size_bytes > 0) require(data, "weft_tensor_create", "data");
    // Compared before there is memory: a wrong shape may be larger than any.
    const at::ScalarType type = scalar_type(dtype);
    uint64_t needed = c10::elementSize(type);
    bool fits = true;
    for (uint32_t d = 0; d < ndim; ++d) {
      if (shape[d] < 0) fail(WEFT_INVALID_ARGUMENT, "weft_tensor_create: dimension {} is {}", d, shape[d]);
      fits = fits && !__builtin_mul_overflow(needed, static_cast<uint64_t>(shape[d]), &needed);
    }
    if (!fits || needed != size_bytes)
      fail(WEFT_INVALID_ARGUMENT, "weft_tensor_create: {} bytes given, the shape has {}", size_bytes,
           fits ? std::to_string(needed) : "more than 2^64");
    const at::Tensor tensor = at::empty(at::IntArrayRef(shape, ndim), type);
    if (size_bytes > 0) std::memcpy(tensor.data_ptr(), data, size_bytes);
    *own = new weft_tensor{tensor};
  });
}

weft_status tensor_describe(const weft_tensor* tensor, weft_tensor_info* out, weft_error* error) {
  return guarded(error, [&] {
    require(tensor, "weft_tensor_describe", "tensor");
    require(out, "weft_tensor_describe", "out");
    weft_tensor_info info = {};
    info.dtype = dtype_code(tensor->tensor.scalar_type());
    info.ndim = static_cast<uint32_t>(tensor->tensor.dim());
    std::copy(tensor->tensor.sizes().begin(), tensor->tensor.sizes().end(), info.shape);
    info.size_bytes = tensor->tensor.nbytes();
    info.data = tensor->tensor.data_ptr();
    fill_out("weft_tensor_describe", info, out);
  });
}

weft_status model_open(weft_runtime* runtime, weft_str path, weft_str options, weft_model** own,
                       weft_error* error) {
  return guarded(error, [&] {
    require(runtime, "weft_model_open", "runtime");
    require(own, "weft_model_open", "own");
    use_plugin_runtime(runtime);
    const Options values = checked(options, "weft_model_open");
    const std::string from(view(path));
    *own =
        new weft_model{Model::open(from, values.at("architecture").text, values.at("precision").text), from};
  });
}

weft_status optimizer_create(weft_runtime* runtime, weft_model* model, weft_str name, weft_str options,
                             weft_optimizer** own, weft_error* error) {
  return guarded(error, [&] {
    require(runtime, "weft_optimizer_create", "runtime");
    require(model, "weft_optimizer_create", "model");
    require(own, "weft_optimizer_create", "own");
    *own = new weft_optimizer{
        optim::Optimizer(view(name), groups_of(model->model, object_of(options, "weft_optimizer_create")))};
  });
}

weft_status scheduler_create(weft_runtime* runtime, weft_optimizer* optimizer, weft_str name,
                             weft_str options, weft_scheduler** own, weft_error* error) {
  return guarded(error, [&] {
    require(runtime, "weft_scheduler_create", "runtime");
    require(optimizer, "weft_scheduler_create", "optimizer");
    require(own, "weft_scheduler_create", "own");
    *own = new weft_scheduler{optim::Scheduler(
        optimizer->optimizer, optim::make_schedule(view(name), object_of(options, "weft_scheduler_create")))};
  });
}

weft_status data_open(weft_runtime* runtime, weft_model* model, weft_str path, weft_str options,
                      weft_data** own, weft_error* error) {
  return guarded(error, [&] {
    require(runtime, "weft_data_open", "runtime");
    require(model, "weft_data_open", "model");
    require(own, "weft_data_open", "own");
    *own = new weft_data{open_loader(*model, path, options)};
  });
}

weft_status booster_create(weft_runtime* runtime, weft_str options, weft_booster** own, weft_error* error) {
  return guarded(error, [&] {
    require(runtime, "weft_booster_create", "runtime");
    require(own, "weft_booster_create", "own");
    use_plugin_runtime(runtime);
    const std::string json = trim(view(options)).empty() ? "{}" : std::string(view(options));
    *own = new weft_booster{Booster(BoosterOptions::parse(json), world())};
  });
}

weft_status booster_boost(weft_booster* booster, const weft_boost_arguments* arguments, weft_job** own,
                          weft_error* error) {
  return guarded(error, [&] {
    require(booster, "weft_booster_boost", "booster");
    require(arguments, "weft_booster_boost", "arguments");
    require(own, "weft_booster_boost", "own");
    const auto [size, model, optimizer, data, scheduler, criterion] =
        known_part("weft_booster_boost", *arguments, WEFT_END_OF(weft_boost_arguments, model));
    require(model, "weft_booster_boost", "model");
    const Booster& ranks = booster->booster;
    if (data != nullptr) data->loader = data->loader.for_rank(ranks.data_rank(), ranks.data_size());
    Job job =
        booster->booster.boost(model->model, optimizer != nullptr ? optimizer->optimizer : optim::Optimizer(),
                               criterion != nullptr ? criterion_of(*criterion) : Criterion(),
                               data != nullptr ? data->loader : data::Loader(),
                               scheduler != nullptr ? scheduler->scheduler : optim::Scheduler());
    *own = new weft_job{booster->booster, std::move(job)};
  });
}

}  // namespace weft::application
