#include "booster/model_images.hpp"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <filesystem>

#include "base/json.hpp"
#include "base/text.hpp"
#include "data/image_folder.hpp"
#include "weft/nn/batch_fields.hpp"
#include "weft/nn/config_values.hpp"
#include "weft/nn/image_model.hpp"

namespace weft {

namespace fs = std::filesystem;

namespace {

using nlohmann::json;

// Adds a name of config.json. Throws if it has another label already.
void add_label(const Config& config, const std::string& name, int64_t label,
               std::map<std::string, int64_t>& labels) {
  const auto [known, is_new] = labels.emplace(name, label);
  if (is_new || known->second == label) return;
  nn::refuse(config, fmt::format("\"label2id\" and \"id2label\" give the class \"{}\" two labels, {} and {}",
                                 printable(name, 60), known->second, label));
}

// Returns whether Hugging Face made this name up, for a configuration without names: LABEL_0, LABEL_1, ...
bool is_made_up(const std::string& name, int64_t label) {
  return name == fmt::format("LABEL_{}", label);
}

// Returns the labels of the classes that config.json names.
std::map<std::string, int64_t> named_labels(const Config& config) {
  std::map<std::string, int64_t> labels;
  const auto object_of = [&](const char* key) {
    return config.has(key) ? parse_json(config.json(key), config.origin()) : nlohmann::json::object();
  };
  const nlohmann::json label_of = object_of("label2id"), name_of = object_of("id2label");
  for (const auto& [name, label] : label_of.items())
    add_label(config, name, integer_of(label, "label2id", config.origin()), labels);
  for (const auto& [id, name] : name_of.items())
    if (name.is_string() && !id.empty() && id.size() < 10 &&
        std::all_of(id.begin(), id.end(), [](char digit) { return digit >= '0' && digit <= '9'; }))
      add_label(config, name.get<std::string>(), std::stoll(id), labels);
  const bool none = std::all_of(labels.begin(), labels.end(),
                                [](const auto& known) { return is_made_up(known.first, known.second); });
  return none ? std::map<std::string, int64_t>() : labels;
}

// Returns whether the model has a loss of integer labels, one per image.
bool learns_labels(const Model& model) {
  std::optional<Batch> batch = model.module().example(1, 1);
  if (!batch) return false;
  batch->set(nn::kLabels, at::zeros({1}, at::kLong));
  return !model.module().counts(*batch).empty();
}

void add_labels(const Model& model, const std::string& path, data::ImageOptions& options) {
  options.labels = learns_labels(model);
  if (!options.labels) return;
  const nn::Labels labels = nn::read_labels(model.config());
  const std::string& problem = labels.problem;
  if (labels.count == 1 || (!problem.empty() && problem != "single_label_classification"))
    fail(WEFT_INVALID_ARGUMENT,
         "{}: folders give each image one class, but {} has {} (num_labels, problem_type); give its labels "
         "with pixel_values in a .safetensors file",
         path, labels.origin,
         problem.empty() ? "one label, a regression" : fmt::format("the problem {}", problem));
  options.num_labels = labels.count;
  options.label_of = named_labels(model.config());
}

// Throws INVALID_ARGUMENT unless the model takes images of this size.
void check_output_size(const Model& model, const data::ImageOptions& options, const std::string& origin) {
  const std::optional<data::ImageSize> size = options.processing.output_size();
  if (!size) return;
  Batch batch;
  batch.set(nn::kPixels, at::zeros({1, options.channels, size->height, size->width}));
  try {
    model.module().input(batch);
  } catch (const Error& error) {
    fail(error.status(), "{} makes images of {} x {} pixels (height x width), which {} does not take: {}",
         origin, size->height, size->width, model.architecture(), error.what());
  }
}

}  // namespace

bool is_image_folder(const Model& model, const std::string& path) {
  std::error_code ignored;
  return nn::find_image_model(model.module()) != nullptr && fs::is_directory(path, ignored);
}

std::shared_ptr<data::Dataset> open_images(const Model& model, const std::string& path,
                                           data::ImageOptions options, const SettingName& called,
                                           const std::function<void(const std::string& line)>& note) {
  const nn::ImageModel& images = *nn::find_image_model(model.module());
  options.channels = images.num_channels();
  const std::string file = (fs::path(model.config().origin()).parent_path() / kPreprocessorConfig).string();
  std::error_code ignored;
  std::string origin = file;
  if (fs::exists(file, ignored)) {
    options.processing = data::ImageProcessing::load(file, images.image_processors());
  } else {
    const nn::HeightWidth size = images.image_size();
    options.processing = {};
    options.processing.size = {size.height, size.width};
    origin = "the default processing of images";
    note(fmt::format(
        "{} is not there: images are resized to {} x {} and normalised to -1 ... 1, the defaults of {}", file,
        size.height, size.width, images.image_processors().front()));
  }
  check_output_size(model, options, origin);
  add_labels(model, path, options);
  return data::image_folder(path, options, called, origin);
}

}  // namespace weft
