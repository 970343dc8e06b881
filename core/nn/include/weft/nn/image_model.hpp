// What models that read images have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/nn/images.hpp"
#include "weft/nn/model.hpp"

namespace weft::nn {

// A model whose inputs are images alone (kPixels) derives from this class beside Model.
class ImageModel {
 public:
  virtual ~ImageModel() = default;
  virtual int64_t num_channels() const = 0;
  // Returns the size of the images that the model was made for. It may take others.
  virtual HeightWidth image_size() const = 0;
  // Returns the names of Hugging Face's processors for this model, as preprocessor_config.json has them, that
  // do what weft::data::ImageProcessing describes and have its defaults.
  virtual std::vector<std::string> image_processors() const = 0;
};

// Returns `model` as an ImageModel, or null if it has other inputs.
const ImageModel* find_image_model(const Model& model);

}  // namespace weft::nn
