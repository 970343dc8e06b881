#include "policies/trials.hpp"

#include "policies/vit/tiny_vit.hpp"

namespace weft::test {

namespace {

TinyTrial trial_of(const std::string& name, const TinyVit& vit,
                   const std::vector<std::string>& precisions = {"fp64"}) {
  return {name, [=](const std::string& precision) { return vit_trial(vit, precision); }, precisions};
}

}  // namespace

const char* const kFamily = "vit";

// Sequences of 7, 17, 10 and 2 positions.
FamilyTrials family_trials() {
  const TinyVit masked = {kMasked, kSquare, 8, 8};
  const TinyVit larger = {
      kMasked, R"("image_size": 4, "patch_size": 2, "encoder_stride": 2, "interpolate_pos_encoding": true)",
      6, 6};
  const TinyVit without_biases = {.biases = false};
  FamilyTrials trials;
  trials.models = {trial_of(kClassifier, {}, {"fp32", "fp64"}), trial_of(kMasked, masked),
                   trial_of("ViTForMaskedImageModeling, larger images", larger),
                   trial_of("fewer positions than ranks", {kClassifier, kOnePatch, 2, 3})};
  trials.bases = {trial_of("ViTModel", {"ViTModel"})};
  trials.plans = {trial_of(kClassifier, without_biases)};
  trials.forms = {trial_of(kClassifier, {.dropout = 0.2, .biases = false}, {"fp32", "fp64"})};
  return trials;
}

}  // namespace weft::test
