// Images of 32 x 32 pixels with labels: CIFAR-10, or digits that are drawn.
#pragma once

#include <weft/data/dataset.hpp>

#include <memory>
#include <string>

namespace resnet {

// Opens the binary version of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html): data_batch_1.bin and so
// on, or test_batch.bin. Each image is a byte with its label and 3072 bytes of red, green and blue, row by
// row. Throws NOT_FOUND if no such file is in `folder`, DATA_LOSS for one of another size or label.
std::shared_ptr<weft::data::Dataset> cifar10(const std::string& folder, bool train);

// Draws so many digits as a clock shows them, with places, sizes, colours and noise that depend on the number
// of the image and on `seed`.
std::shared_ptr<weft::data::Dataset> digits(int64_t count, int64_t seed);

}  // namespace resnet
