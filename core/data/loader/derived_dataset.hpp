// The base of data sets that make fields from those of another data set.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/setting_name.hpp"
#include "weft/data/dataset.hpp"

namespace weft::data {

// The samples of another data set, with fields that are made from them.
class DerivedDataset : public Dataset {
 public:
  int64_t size() const final { return dataset_->size(); }
  int64_t sample_length(int64_t index) const final { return dataset_->sample_length(index); }
  std::string name() const final { return dataset_->name(); }
  std::string attention() const final { return dataset_->attention(); }
  Batch get(const std::vector<int64_t>& indices) const final { return get_in_epoch(indices, 0); }
  // Throws INVALID_ARGUMENT if check() does, or for another number of samples than `indices` has.
  Batch get_in_epoch(const std::vector<int64_t>& indices, int64_t epoch) const final;

 protected:
  DerivedDataset(std::shared_ptr<Dataset> dataset, SettingName called)
      : dataset_(std::move(dataset)), called_(std::move(called)) {}

  // Throws INVALID_ARGUMENT unless the fields can be made from `batch`.
  virtual void check(const Batch& batch) const = 0;
  // Makes the fields in `batch`, which passed check(): the samples at `indices`, as epoch `epoch` has them.
  virtual void make(const std::vector<int64_t>& indices, int64_t epoch, Batch& batch) const = 0;

  // Returns `own`, the description of this objective, behind that of the other data set if it has one.
  std::string with_objective_before(const std::string& own) const;
  Batch first_sample() const { return dataset_->get({0}); }
  // Returns what messages call a setting of the objective.
  std::string setting_name(const char* setting) const { return called_(setting); }
  // Throws INVALID_ARGUMENT with "<name of the data>: <text>".
  [[noreturn]] void refuse(const std::string& text) const;
  // Throws INVALID_ARGUMENT because the data has `field`, which the objective makes.
  [[noreturn]] void refuse_given(const char* field) const;

 private:
  const std::shared_ptr<Dataset> dataset_;
  const SettingName called_;
};

}  // namespace weft::data
