// Data sets of image files, and how an image becomes the pixels that a model reads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/data/dataset.hpp"
#include "weft/data/part.hpp"

namespace weft::data {

// The filters of Pillow, with its numbers. When an image becomes smaller, all of them but the nearest pixel
// average over the pixels that become one.
enum class Resampling { kNearest = 0, kLanczos = 1, kBilinear = 2, kBicubic = 3, kBox = 4, kHamming = 5 };

// In pixels.
struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

// What is done to an image, in the order of the fields: resize, crop, rescale, normalise. The names are those
// of Hugging Face's image processors, and the results those of their Pillow backend.
struct ImageProcessing {
  bool do_resize = true;
  ImageSize size = {224, 224};
  // If not 0, the length of the shorter side after resizing, in place of `size`. Keeps the ratio of the
  // sides.
  int64_t shortest_edge = 0;
  Resampling resample = Resampling::kBilinear;
  bool do_center_crop = false;
  ImageSize crop_size = {};  // an image that is smaller gets black borders
  bool do_rescale = true;
  double rescale_factor = 1.0 / 255;
  bool do_normalize = true;                                   // (value - image_mean) / image_std
  std::vector<double> image_mean = {0.5}, image_std = {0.5};  // one number, or one per channel
  // Whether transparent pixels get a white background; otherwise transparency is dropped. For RGB alone. The
  // model decides the channels.
  bool do_convert_rgb = false;

  bool operator==(const ImageProcessing&) const = default;

  // Reads a preprocessor_config.json; a key that it lacks has the default of this structure. `processors` are
  // the names that it may have as "image_processor_type"; if empty, any. Throws NOT_FOUND; INVALID_ARGUMENT
  // for a value that is not allowed; UNIMPLEMENTED for another processor, and naming a key that this
  // structure does not have and that may change pixels.
  static ImageProcessing load(const std::string& path, const std::vector<std::string>& processors = {});

  // Returns the size of every processed image, or nothing if it depends on the image.
  std::optional<ImageSize> output_size() const;
};

// Sequences of random operations on the pixels of an image, with the operations and magnitudes of
// torchvision.
enum class AutoAugment {
  kNone,
  kRandAugment,  // 2 of 14 operations at magnitude 9 of 31 (Cubuk et al., RandAugment, arXiv:1909.13719)
  kImageNet,     // one of the 25 policies of two operations that were found on this data set ...
  kCifar10,      // ... or on this one (Cubuk et al., AutoAugment, arXiv:1805.09501)
};

// Which images of a folder are read, and how.
struct ImageOptions {
  int64_t channels = 3;  // 1 or 3
  ImageProcessing processing;
  bool labels = true;  // whether samples have "labels", the class of each image
  // The label of each class, by the name of its folder. Empty: the folders in the order of their names.
  std::map<std::string, int64_t> label_of;
  int64_t num_labels = 0;  // labels must be less than this number; 0: no limit

  // Changes of the images that differ between epochs. With random_flip, an image is mirrored from left to
  // right with probability 1/2. random_crop is the smallest share of the image's area (more than 0 and at
  // most 1) in a random rectangle that is resized in place of the image: its area is uniform up to the whole
  // image, the logarithm of its ratio of width to height uniform between those of 3/4 and 4/3.
  bool random_flip = false;
  std::optional<double> random_crop;
  // If not 0, every side of the image, resized and cropped as `processing` says, gets so many black pixels,
  // and a random rectangle of the size before takes its place (as torchvision's RandomCrop). Not with
  // random_crop.
  int64_t crop_padding = 0;
  // Follows crops and flips, and is applied to the 8 bits of each channel, before values are rescaled.
  AutoAugment auto_augment = AutoAugment::kNone;

  // The share of the images of each class that is held out, rounded, at least 0 and less than 1; every class
  // keeps an image to train on. The seed and the names of the class and of its files decide which. `part` is
  // the part to read.
  double held_out = 0;
  Part part = Part::kAll;
  int64_t seed = 42;  // of all changes and of the held-out part
};

// Opens a folder with one folder of .jpg, .jpeg and .png files per class: FOLDER/CLASS/FILE. A sample has
// "pixel_values" (channels, height, width) in fp32, and "labels" (int64). The order is that of the names of
// the classes and files. Names that begin with a dot, and files beside the class folders that are no images,
// are ignored. Files are read and decoded when their sample is wanted; several threads can do so at once.
// Grey images, palettes and CMYK become grey or RGB as in Pillow.
//
// Throws NOT_FOUND without the folder; INVALID_ARGUMENT for a folder without classes, a class without images,
// a file or folder in a class that is no image by its name, a class that has no label, and options that do
// not fit together. Reading a sample throws DATA_LOSS for a damaged or truncated file, INVALID_ARGUMENT for
// one that is no JPEG or PNG image, or that has more than 178 million pixels, or a size that the model does
// not take. Errors name the file.
std::shared_ptr<Dataset> image_folder(const std::string& path, const ImageOptions& options);

}  // namespace weft::data
