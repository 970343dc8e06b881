// Creates and destroys the objects of the C application API.
#include "application/objects.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "application/handles.hpp"
#include "base/error_sink.hpp"
#include "base/json.hpp"
#include "base/option_table.hpp"
#include "base/options.hpp"
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

Options checked(weft_str options, const char* table, const char* function) {
  return Options(OptionTable(nlohmann::json::parse(table), function), object_of(options, function), function);
}

optim::Hyper hyper_of(weft_str options) {
  optim::Hyper hyper;
  const nlohmann::json object = object_of(options, "weft_optimizer_create");  // items() refers to it
  if (!object.is_object())
    fail(WEFT_INVALID_ARGUMENT, "weft_optimizer_create: the options are {}, must be an object",
         json_kind(object));
  for (const auto& [key, value] : object.items()) {
    if (!value.is_number() && !value.is_boolean())
      fail(WEFT_INVALID_ARGUMENT, "weft_optimizer_create: \"{}\" is {}, must be a number", key,
           json_kind(value));
    hyper[key] = value.is_boolean() ? static_cast<double>(value.get<bool>()) : value.get<double>();
  }
  return hyper;
}

constexpr const char* kModelOptions = R"([
  {"name": "architecture", "type": "text", "default": "", "doc": "model class instead of architectures[0]"},
  {"name": "precision", "type": "text", "default": "fp32", "doc": "fp32, fp64, bf16 or fp16"}])";

constexpr const char* kDataOptions = R"([
  {"name": "batch_size", "type": "int", "default": 8, "min": 1, "doc": "samples over all data-parallel ranks"},
  {"name": "sequence_length", "type": "int", "default": null, "min": 0, "doc": "0: the model's maximum"},
  {"name": "token_type", "type": "text", "default": null, "choices": ["uint16", "uint32"], "doc": "of .bin files, uint16"},
  {"name": "tokenizer", "type": "text", "default": null, "doc": "folder of a tokenizer, in place of the model's"},
  {"name": "bytes", "type": "bool", "default": null, "doc": "take the bytes of text as tokens, also where the model has a tokenizer"},
  {"name": "packing", "type": "text", "default": null, "choices": ["documents", "stream", "none"], "doc": "of text, documents"},
  {"name": "long_documents", "type": "text", "default": null, "choices": ["cut", "drop"], "doc": "longer than a sample, cut"},
  {"name": "skip_broken_lines", "type": "bool", "default": null, "doc": "of JSON lines; otherwise they are errors"},
  {"name": "held_out", "type": "float", "default": null, "doc": "share of the documents, questions or files that are held out"},
  {"name": "part", "type": "text", "default": null, "choices": ["all", "train", "held-out"], "doc": "of them to read, all"},
  {"name": "overlap", "type": "int", "default": null, "doc": "tokens that windows of a long context share"},
  {"name": "flip", "type": "bool", "default": null, "doc": "mirror images, each with probability 1/2"},
  {"name": "random_crop", "type": "float", "default": null, "doc": "least share of an image's area that is read"},
  {"name": "shuffle", "type": "bool", "default": true, "doc": "by seed and epoch"},
  {"name": "seed", "type": "int", "default": 1024, "doc": "of the shuffling and masking"},
  {"name": "objective", "type": "text", "default": "", "doc": "causal_lm, masked_lm or masked_image; empty: labels of the file"},
  {"name": "mask_token_id", "type": "int", "default": null, "doc": "of masked_lm: the id of masked tokens"},
  {"name": "special_ids", "type": "json", "default": null, "doc": "of masked_lm: an array of ids that are never masked; [] for none"},
  {"name": "mlm_probability", "type": "float", "default": null, "doc": "of masked_lm: share of tokens to predict, 0.15"},
  {"name": "mask_ratio", "type": "float", "default": null, "doc": "of masked_image: share of the image to mask, 0.6"},
  {"name": "mask_patch_size", "type": "int", "default": null, "doc": "of masked_image: side of masked squares, 32"},
  {"name": "drop_last", "type": "bool", "default": false, "doc": "leave out a short last batch"},
  {"name": "num_workers", "type": "int", "default": 0, "min": 0, "doc": "threads that fetch ahead"},
  {"name": "pin_memory", "type": "bool", "default": false, "doc": "page-locked batches, for GPUs"}])";

// Throws INVALID_ARGUMENT unless "special_ids" is an array of integers, or not given.
void check_ids(const nlohmann::json& settings) {
  const nlohmann::json ids = settings.value("special_ids", nlohmann::json::array());
  const auto is_integer = [](const nlohmann::json& id) { return id.is_number_integer(); };
  if (!ids.is_array() || !std::all_of(ids.begin(), ids.end(), is_integer))
    fail(WEFT_INVALID_ARGUMENT,
         "weft_data_open: \"special_ids\" is {}, must be an array of ids, which may be empty", ids.dump());
}

data::Loader open_loader(weft_model& model, weft_str path, weft_str given) {
  const Options options = checked(given, kDataOptions, "weft_data_open");
  // What is null, and what says that nothing is chosen, was not given.
  nlohmann::json settings = object_of(given, "weft_data_open");
  for (auto setting = settings.begin(); setting != settings.end();)
    setting = setting->is_null() ? settings.erase(setting) : std::next(setting);
  if (settings.value("sequence_length", 1) == 0) settings.erase("sequence_length");
  if (settings.value("objective", "any").empty()) settings.erase("objective");
  check_ids(settings);
  settings["data"] = view(path);
  settings["model"] = model.path;
  data::LoaderOptions loader;
  loader.batch_size = options.at("batch_size").integer;
  loader.shuffle = options.at("shuffle").integer != 0;
  loader.seed = options.at("seed").integer;
  loader.drop_last = options.at("drop_last").integer != 0;
  loader.num_workers = options.at("num_workers").integer;
  loader.pin_memory = options.at("pin_memory").integer != 0;
  const DataOpener opener = {settings, own_name, model.model, world(), loader.seed};
  return data::Loader(opener.labelled(), loader);
}

}  // namespace

weft_status tensor_create(uint32_t dtype, const int64_t* shape, uint32_t ndim, const void* data,
                          uint64_t size_bytes, weft_tensor** own, weft_error* error) {
  return guarded(error, [&] {
    require(own, "weft_tensor_create", "own");
    if (ndim > WEFT_MAX_DIMS)
      fail(WEFT_INVALID_ARGUMENT, "weft_tensor_create: {} dimensions, at most {}", ndim, WEFT_MAX_DIMS);
    if (ndim > 0) require(shape, "weft_tensor_create", "shape");
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
    const at::Tensor tensor = at::empty({shape, ndim}, type);
    if (size_bytes > 0) std::memcpy(tensor.data_ptr(), data, size_bytes);
    *own = new weft_tensor{tensor};
  });
}

weft_status tensor_describe(const weft_tensor* tensor, weft_tensor_info* out, weft_error* error) {
  return guarded(error, [&] {
    require(tensor, "weft_tensor_describe", "tensor");
    require(out, "weft_tensor_describe", "out");
    if (out->struct_size < sizeof(weft_tensor_info))
      fail(WEFT_INVALID_ARGUMENT, "weft_tensor_describe: out->struct_size is {}, must be {}",
           out->struct_size, sizeof(weft_tensor_info));
    out->dtype = dtype_code(tensor->tensor.scalar_type());
    out->ndim = static_cast<uint32_t>(tensor->tensor.dim());
    std::copy(tensor->tensor.sizes().begin(), tensor->tensor.sizes().end(), out->shape);
    out->size_bytes = tensor->tensor.nbytes();
    out->data = tensor->tensor.data_ptr();
  });
}

weft_status model_open(weft_runtime* runtime, weft_str path, weft_str options, weft_model** own,
                       weft_error* error) {
  return guarded(error, [&] {
    require(runtime, "weft_model_open", "runtime");
    require(own, "weft_model_open", "own");
    use_plugin_runtime(runtime);
    const Options values = checked(options, kModelOptions, "weft_model_open");
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
    *own = new weft_optimizer{optim::Optimizer(view(name), model->model.parameters(), hyper_of(options))};
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

weft_status booster_boost(weft_booster* booster, weft_model* model, weft_optimizer* optimizer,
                          const weft_criterion* criterion, weft_data* data, weft_scheduler* scheduler,
                          weft_job** own, weft_error* error) {
  return guarded(error, [&] {
    require(booster, "weft_booster_boost", "booster");
    require(model, "weft_booster_boost", "model");
    require(own, "weft_booster_boost", "own");
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
