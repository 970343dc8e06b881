#include "loader/derived_dataset.hpp"

#include "base/text.hpp"

namespace weft::data {

Batch DerivedDataset::get_in_epoch(const std::vector<int64_t>& indices, int64_t epoch) const {
  Batch batch = dataset_->get_in_epoch(indices, epoch);
  check(batch);
  if (const auto asked = static_cast<int64_t>(indices.size()); batch.samples() != asked)
    refuse(fmt::format("get() returned {} samples, must return the {} that were asked for", batch.samples(),
                       asked));
  make(indices, epoch, batch);
  return batch;
}

std::string DerivedDataset::with_objective_before(const std::string& own) const {
  const std::string before = dataset_->objective();
  return before.empty() ? own : fmt::format("{}, and {}", before, own);
}

void DerivedDataset::refuse(const std::string& text) const {
  fail(WEFT_INVALID_ARGUMENT, "{}: {}", name().empty() ? "the data" : name(), text);
}

void DerivedDataset::refuse_given(const char* field) const {
  refuse(
      fmt::format("the samples have \"{}\" already, and an objective makes its own; leave out {} to train on "
                  "those of the data",
                  field, setting_name("objective")));
}

}  // namespace weft::data
