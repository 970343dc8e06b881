// How well a model predicts labels, beside its loss.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft {

// A number that says how well labels are predicted.
struct Measure {
  std::string name;  // "accuracy", "f1_macro", "pearson"
  // NaN where it is undefined: nothing counts, or a correlation with values that are all the same.
  double value = 0;
  double count = 0;  // how many labels, samples or answers it is of
};

// Statistics of labels and predictions, from which measures follow. Those of several batches and ranks are
// added: sums by element, and values one behind the other, in any order.
struct Metric {
  enum class Kind {
    kMean,        // sums: of values, and their number. Gives the measure of the metric's own name
    kClasses,     // sums: for each class its labels that are predicted, its predictions, its labels. Gives
                  // accuracy, f1_macro, f1_micro and matthews
    kIndicators,  // of several labels a sample. sums: those of kClasses, the samples of which all are right,
                  // and all samples. Gives accuracy, f1_macro and f1_micro
    kValues,      // values: label and prediction of each sample. Gives mse, pearson and spearman
    kEntities,    // sums: entities that are found, predicted and labelled. Gives entity_f1
  };

  Metric() = default;
  // A mean.
  Metric(std::string of, double sum, double count) : name(std::move(of)), sums{sum, count} {}
  Metric(std::string of, Kind is, std::vector<double> statistics)
      : name(std::move(of)), kind(is), sums(std::move(statistics)) {}

  std::string name;
  Kind kind = Kind::kMean;
  std::vector<double> sums, values;

  // Adds the statistics of other samples. Throws INVALID_ARGUMENT unless they are of the same kind and size.
  Metric& operator+=(const Metric& other);
  // Sets all statistics to those of no sample.
  void clear();
  // Returns the measures, as scikit-learn and SciPy define them: f1_macro is the mean of the F1 of the
  // classes that have a label or a prediction (of kIndicators, of all), an F1 without either is 0, and
  // matthews is 0 where labels or predictions are all one class.
  std::vector<Measure> measures() const;
};

}  // namespace weft
