#include "opening/model_data.hpp"

#include <ATen/ops/zeros.h>

#include <filesystem>

#include "base/text.hpp"
#include "images/image_changes.hpp"
#include "images/image_folder.hpp"
#include "opening/class_labels.hpp"
#include "opening/model_files.hpp"
#include "weft/nn/config_values.hpp"
#include "weft/nn/image_model.hpp"

namespace weft {

namespace fs = std::filesystem;

namespace {

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

std::shared_ptr<data::Dataset> open_images(const Model& model, const std::string& path,
                                           data::ImageOptions options, const SettingName& called,
                                           const std::function<void(const std::string& line)>& note) {
  const nn::ImageModel& images = *nn::find_image_model(model.module());
  options.channels = images.num_channels();
  const std::string file = preprocessor_path(model);
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
  const std::optional<ClassLabels> labels = class_labels(model, path, "pixel_values");
  options.labels = labels.has_value();
  if (labels) {
    options.num_labels = labels->count;
    options.label_of = labels->label_of;
  }
  return data::image_folder(path, options, called, origin);
}

std::shared_ptr<data::Dataset> change_images(const Model& model, std::shared_ptr<data::Dataset> dataset,
                                             data::ImageChanges changes, const SettingName& called) {
  const std::string given = data::first_change(changes);
  if (given.empty()) return dataset;
  if (nn::find_image_model(model.module()) == nullptr)
    fail(WEFT_INVALID_ARGUMENT, "{} changes images, but {} reads none; leave it out", called(given),
         model.architecture());
  changes.num_labels = nn::read_labels(model.config()).count;
  return data::with_image_changes(std::move(dataset), changes, called);
}

}  // namespace weft
