// ResNet-18 for images of 32 x 32 pixels (He et al., Deep residual learning for image recognition,
// arXiv:1512.03385, with the first layer of the authors' networks for CIFAR-10): a convolution of 3 x 3, four
// groups of two residual blocks, and a classifier of the mean over all pixels. The names of the parameters
// are torchvision's.
#pragma once

#include <weft/nn/model.hpp>

#include <memory>

namespace resnet {

struct Options {
  int64_t classes = 10;
  int64_t width = 64;         // channels of the first group; each later group has twice as many
  bool synchronised = false;  // whether ranks share the statistics of batch normalisation
};
std::shared_ptr<weft::nn::Model> make_model(const Options& options, at::ScalarType dtype);

}  // namespace resnet
