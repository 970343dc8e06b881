#include "images/image_folder.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/files.hpp"
#include "base/text.hpp"
#include "images/auto_augment.hpp"
#include "images/image_processing.hpp"
#include "loader/class_folder.hpp"
#include "loader/random.hpp"
#include "loader/shared_checks.hpp"
#include "weft/nn/field_names.hpp"

namespace weft::data {

namespace {

const FileKind kImageFiles = {"image", {".png", ".jpg", ".jpeg"}};

// Added to the seed, so that these numbers do not repeat those of other draws for the same sample.
constexpr int64_t kChangesStream = 0x666c6970;

// An image and its label.
struct Sample {
  std::string file;  // relative to the folder
  int64_t label;
};

class ImageFolder final : public Dataset {
 public:
  ImageFolder(std::string path, const ImageOptions& options, std::string origin, std::vector<Sample> samples)
      : path_(std::move(path)),
        origin_(std::move(origin)),
        options_(options),
        processor_(options.processing, options.channels),
        samples_(std::move(samples)) {}

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  std::string name() const override { return path_; }
  Batch get(const std::vector<int64_t>& indices) const override { return get_in_epoch(indices, 0); }

  Batch get_in_epoch(const std::vector<int64_t>& indices, int64_t epoch) const override {
    const auto count = static_cast<int64_t>(indices.size());
    at::Tensor pixels;
    const at::Tensor labels = at::empty({count}, at::kLong);
    ImageSize size = options_.processing.output_size().value_or(ImageSize());
    for (size_t i = 0; i < indices.size(); ++i) {
      if (indices[i] < 0 || indices[i] >= this->size())
        fail(WEFT_OUT_OF_RANGE, "{}: no sample {}, there are {}", path_, indices[i], this->size());
      const Sample& sample = samples_[static_cast<size_t>(indices[i])];
      const Image image = load(sample.file, SampleRandom(options_.seed + kChangesStream, epoch, indices[i]));
      if (!pixels.defined()) {
        if (size == ImageSize()) size = image.size;
        pixels = at::empty({count, options_.channels, size.height, size.width}, at::kFloat);
      }
      check_same_size(sample.file, image.size, size);
      processor_.write(image, pixels.mutable_data_ptr<float>() + static_cast<int64_t>(i) * pixels.stride(0));
      labels.mutable_data_ptr<int64_t>()[i] = sample.label;
    }
    Batch batch;
    batch.set(nn::kPixels, pixels);
    if (options_.labels) batch.set(nn::kLabels, labels);
    return batch;
  }

 private:
  Image load(const std::string& file, SampleRandom random) const {
    constexpr size_t kLargestFile = size_t{1} << 30;
    const std::string path = path_ + "/" + file;
    Image image = decode_image(read_file(path, kLargestFile), path, options_.channels,
                               options_.processing.do_convert_rgb);
    if (options_.random_crop)
      image = processor_.fitted(cropped(image, draw_crop(image.size, *options_.random_crop, random)));
    else
      image = processor_.sized(std::move(image), path);
    if (options_.crop_padding != 0)
      image = cropped(image, draw_padded_crop(image.size, options_.crop_padding, random));
    if (options_.random_flip && random.unit() < 0.5) flip(image);
    for (const DrawnOperation& drawn : draw_operations(options_.auto_augment, image.size, random))
      apply(drawn.operation, drawn.magnitude, image);
    return image;
  }

  void check_same_size(const std::string& file, ImageSize found, ImageSize wanted) const {
    if (found == wanted) return;
    fail(
        WEFT_INVALID_ARGUMENT,
        "{}/{}: the image has {} x {} pixels (width x height), but another one of the batch has {} x {}; set "
        "do_resize to true in {}",
        path_, file, found.width, found.height, wanted.width, wanted.height, origin_);
  }

  const std::string path_, origin_;
  const ImageOptions options_;
  const ImageProcessor processor_;
  const std::vector<Sample> samples_;
};

void check_options(const ImageOptions& options, const SettingName& called, const std::string& origin) {
  if (options.channels != 1 && options.channels != 3)
    fail(WEFT_INVALID_ARGUMENT,
         "images of a folder become grey or RGB, but the model takes {} channels; give pixel_values in a "
         ".safetensors file",
         options.channels);
  check_processing(options.processing, options.channels, origin);
  if (options.random_crop && !(*options.random_crop > 0 && *options.random_crop <= 1))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be more than 0 and at most 1", called("random_crop"),
         *options.random_crop);
  if (options.random_crop && !options.processing.output_size())
    fail(WEFT_INVALID_ARGUMENT,
         "{} resizes what it crops, but {} gives no size; set do_resize to true, with a size",
         called("random_crop"), origin);
  if (options.crop_padding < 0 || (options.crop_padding > 0 && options.random_crop))
    fail(WEFT_INVALID_ARGUMENT, "{} is {}, must be at least 0, and 0 with {}", called("crop_padding"),
         options.crop_padding, called("random_crop"));
  check_held_out(options.held_out, options.part, "images", called);
}

}  // namespace

std::shared_ptr<Dataset> image_folder(const std::string& path, const ImageOptions& options) {
  return image_folder(path, options, own_name, "the processing of images");
}

std::shared_ptr<Dataset> image_folder(const std::string& path, const ImageOptions& options,
                                      const SettingName& called, const std::string& origin) {
  check_options(options, called, origin);
  const std::vector<FileClass> classes = find_classes(path, kImageFiles);
  std::vector<int64_t> labels(classes.size());
  if (options.labels) labels = labels_of(path, classes, options.label_of, options.num_labels);
  std::vector<Sample> samples;
  for (size_t i = 0; i < classes.size(); ++i)
    for (const std::string& file : files_of_part(classes[i], options.part, options.held_out, options.seed))
      samples.push_back({classes[i].name + "/" + file, labels[i]});
  if (samples.empty())
    fail(WEFT_INVALID_ARGUMENT,
         "{}: no image is held out by {} {}: the classes have too few images; give more", path,
         called("held_out"), options.held_out);
  return std::make_shared<ImageFolder>(path, options, origin, std::move(samples));
}

}  // namespace weft::data
