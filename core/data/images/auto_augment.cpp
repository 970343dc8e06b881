// The policies are those of AutoAugment, appendix A, in the form of torchvision, which gives those of
// operations that are not in its list, such as Cutout, another one. Magnitudes are torchvision's: 10 levels
// of the policies, 31 of RandAugment.
#include "images/auto_augment.hpp"

#include <array>
#include <cmath>

namespace weft::data {

namespace {

using Operation = PixelOperation;

struct Step {
  Operation operation;
  double probability;
  int level;  // of 10; 0 for operations without a magnitude
};
using Policy = std::array<Step, 2>;

constexpr std::array<Policy, 25> kImageNet = {{
    {{{Operation::kPosterize, 0.4, 8}, {Operation::kRotate, 0.6, 9}}},
    {{{Operation::kSolarize, 0.6, 5}, {Operation::kAutoContrast, 0.6, 0}}},
    {{{Operation::kEqualize, 0.8, 0}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kPosterize, 0.6, 7}, {Operation::kPosterize, 0.6, 6}}},
    {{{Operation::kEqualize, 0.4, 0}, {Operation::kSolarize, 0.2, 4}}},
    {{{Operation::kEqualize, 0.4, 0}, {Operation::kRotate, 0.8, 8}}},
    {{{Operation::kSolarize, 0.6, 3}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kPosterize, 0.8, 5}, {Operation::kEqualize, 1.0, 0}}},
    {{{Operation::kRotate, 0.2, 3}, {Operation::kSolarize, 0.6, 8}}},
    {{{Operation::kEqualize, 0.6, 0}, {Operation::kPosterize, 0.4, 6}}},
    {{{Operation::kRotate, 0.8, 8}, {Operation::kColor, 0.4, 0}}},
    {{{Operation::kRotate, 0.4, 9}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kEqualize, 0.0, 0}, {Operation::kEqualize, 0.8, 0}}},
    {{{Operation::kInvert, 0.6, 0}, {Operation::kEqualize, 1.0, 0}}},
    {{{Operation::kColor, 0.6, 4}, {Operation::kContrast, 1.0, 8}}},
    {{{Operation::kRotate, 0.8, 8}, {Operation::kColor, 1.0, 2}}},
    {{{Operation::kColor, 0.8, 8}, {Operation::kSolarize, 0.8, 7}}},
    {{{Operation::kSharpness, 0.4, 7}, {Operation::kInvert, 0.6, 0}}},
    {{{Operation::kShearX, 0.6, 5}, {Operation::kEqualize, 1.0, 0}}},
    {{{Operation::kColor, 0.4, 0}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kEqualize, 0.4, 0}, {Operation::kSolarize, 0.2, 4}}},
    {{{Operation::kSolarize, 0.6, 5}, {Operation::kAutoContrast, 0.6, 0}}},
    {{{Operation::kInvert, 0.6, 0}, {Operation::kEqualize, 1.0, 0}}},
    {{{Operation::kColor, 0.6, 4}, {Operation::kContrast, 1.0, 8}}},
    {{{Operation::kEqualize, 0.8, 0}, {Operation::kEqualize, 0.6, 0}}},
}};

constexpr std::array<Policy, 25> kCifar10 = {{
    {{{Operation::kInvert, 0.1, 0}, {Operation::kContrast, 0.2, 6}}},
    {{{Operation::kRotate, 0.7, 2}, {Operation::kTranslateX, 0.3, 9}}},
    {{{Operation::kSharpness, 0.8, 1}, {Operation::kSharpness, 0.9, 3}}},
    {{{Operation::kShearY, 0.5, 8}, {Operation::kTranslateY, 0.7, 9}}},
    {{{Operation::kAutoContrast, 0.5, 0}, {Operation::kEqualize, 0.9, 0}}},
    {{{Operation::kShearY, 0.2, 7}, {Operation::kPosterize, 0.3, 7}}},
    {{{Operation::kColor, 0.4, 3}, {Operation::kBrightness, 0.6, 7}}},
    {{{Operation::kSharpness, 0.3, 9}, {Operation::kBrightness, 0.7, 9}}},
    {{{Operation::kEqualize, 0.6, 0}, {Operation::kEqualize, 0.5, 0}}},
    {{{Operation::kContrast, 0.6, 7}, {Operation::kSharpness, 0.6, 5}}},
    {{{Operation::kColor, 0.7, 7}, {Operation::kTranslateX, 0.5, 8}}},
    {{{Operation::kEqualize, 0.3, 0}, {Operation::kAutoContrast, 0.4, 0}}},
    {{{Operation::kTranslateY, 0.4, 3}, {Operation::kSharpness, 0.2, 6}}},
    {{{Operation::kBrightness, 0.9, 6}, {Operation::kColor, 0.2, 8}}},
    {{{Operation::kSolarize, 0.5, 2}, {Operation::kInvert, 0.0, 0}}},
    {{{Operation::kEqualize, 0.2, 0}, {Operation::kAutoContrast, 0.6, 0}}},
    {{{Operation::kEqualize, 0.2, 0}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kColor, 0.9, 9}, {Operation::kEqualize, 0.6, 0}}},
    {{{Operation::kAutoContrast, 0.8, 0}, {Operation::kSolarize, 0.2, 8}}},
    {{{Operation::kBrightness, 0.1, 3}, {Operation::kColor, 0.7, 0}}},
    {{{Operation::kSolarize, 0.4, 5}, {Operation::kAutoContrast, 0.9, 0}}},
    {{{Operation::kTranslateY, 0.9, 9}, {Operation::kTranslateY, 0.7, 9}}},
    {{{Operation::kAutoContrast, 0.9, 0}, {Operation::kSolarize, 0.8, 3}}},
    {{{Operation::kEqualize, 0.8, 0}, {Operation::kInvert, 0.1, 0}}},
    {{{Operation::kTranslateY, 0.7, 9}, {Operation::kAutoContrast, 0.9, 0}}},
}};

constexpr std::array<Operation, 14> kRandomOperations = {
    Operation::kIdentity,     Operation::kShearX,    Operation::kShearY,     Operation::kTranslateX,
    Operation::kTranslateY,   Operation::kRotate,    Operation::kBrightness, Operation::kColor,
    Operation::kContrast,     Operation::kSharpness, Operation::kPosterize,  Operation::kSolarize,
    Operation::kAutoContrast, Operation::kEqualize,
};

struct Magnitude {
  double value = 0;
  bool has_sign = false;  // whether its sign is drawn
};

// Returns the magnitude of a level from 0 to `last`.
Magnitude magnitude_of(Operation operation, int level, int last, ImageSize size) {
  const double share = static_cast<double>(level) / last;
  const auto moved = [&](int64_t side) { return 150.0 / 331.0 * static_cast<double>(side) * share; };
  switch (operation) {
    case Operation::kShearX:
    case Operation::kShearY:
      return {0.3 * share, true};
    case Operation::kTranslateX:
      return {moved(size.width), true};
    case Operation::kTranslateY:
      return {moved(size.height), true};
    case Operation::kRotate:
      return {30 * share, true};
    case Operation::kBrightness:
    case Operation::kColor:
    case Operation::kContrast:
    case Operation::kSharpness:
      return {0.9 * share, true};
    case Operation::kPosterize:
      return {8 - std::round(4 * share)};
    case Operation::kSolarize:
      return {255 * (1 - share)};
    case Operation::kIdentity:
    case Operation::kAutoContrast:
    case Operation::kEqualize:
    case Operation::kInvert:
      return {};
  }
  return {};
}

template <class List>
const auto& drawn_from(const List& list, SampleRandom& random) {
  return list[draw_below(list.size(), random)];
}

DrawnOperation with_sign(Operation operation, const Magnitude& magnitude, SampleRandom& random) {
  const bool negative = magnitude.has_sign && random.unit() < 0.5;
  return {operation, negative ? -magnitude.value : magnitude.value};
}

std::vector<DrawnOperation> draw_policy(const Policy& policy, ImageSize size, SampleRandom& random) {
  constexpr int kLevels = 10;
  std::vector<DrawnOperation> drawn;
  for (const Step& step : policy)
    if (random.unit() < step.probability)
      drawn.push_back(
          with_sign(step.operation, magnitude_of(step.operation, step.level, kLevels - 1, size), random));
  return drawn;
}

}  // namespace

std::vector<DrawnOperation> draw_operations(AutoAugment kind, ImageSize size, SampleRandom& random) {
  constexpr int kOperations = 2, kLevel = 9, kLevels = 31;
  switch (kind) {
    case AutoAugment::kNone:
      return {};
    case AutoAugment::kImageNet:
      return draw_policy(drawn_from(kImageNet, random), size, random);
    case AutoAugment::kCifar10:
      return draw_policy(drawn_from(kCifar10, random), size, random);
    case AutoAugment::kRandAugment:
      break;
  }
  std::vector<DrawnOperation> drawn;
  for (int i = 0; i < kOperations; ++i) {
    const Operation operation = drawn_from(kRandomOperations, random);
    drawn.push_back(with_sign(operation, magnitude_of(operation, kLevel, kLevels - 1, size), random));
  }
  return drawn;
}

}  // namespace weft::data
