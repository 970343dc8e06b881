#include "opening/library_data.hpp"

#include "base/options.hpp"
#include "base/text.hpp"
#include "loader/random.hpp"
#include "opening/library_options.hpp"
#include "plugins.hpp"

namespace weft {

namespace {

// Some samples of a data set.
class PartOfDataset final : public data::Dataset {
 public:
  PartOfDataset(std::shared_ptr<data::Dataset> whole, std::vector<int64_t> samples)
      : whole_(std::move(whole)), samples_(std::move(samples)) {}

  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }
  Batch get(const std::vector<int64_t>& indices) const override { return whole_->get(in_whole(indices)); }
  Batch get_in_epoch(const std::vector<int64_t>& indices, int64_t epoch) const override {
    return whole_->get_in_epoch(in_whole(indices), epoch);
  }
  int64_t sample_length(int64_t index) const override {
    return whole_->sample_length(samples_.at(static_cast<size_t>(index)));
  }
  std::string objective() const override { return whole_->objective(); }
  std::string name() const override { return whole_->name(); }
  std::string attention() const override { return whole_->attention(); }

 private:
  std::vector<int64_t> in_whole(std::vector<int64_t> indices) const {
    for (int64_t& index : indices) index = samples_.at(static_cast<size_t>(index));
    return indices;
  }

  const std::shared_ptr<data::Dataset> whole_;
  const std::vector<int64_t> samples_;
};

std::string who_reads(const std::string& name) {
  return fmt::format("data set {}", plugin_name(name));
}

}  // namespace

nlohmann::json library_data_options(const std::string& name, const std::vector<std::string>& words) {
  return library_options("data", name, who_reads(name), words);
}

std::shared_ptr<data::Dataset> open_library_data(const std::string& name, const nlohmann::json& options,
                                                 data::OpenRequest request) {
  const weft_loaded loaded = load_plugin("data", name);
  const std::string who = who_reads(name);
  const Options complete(options_of_library(loaded), options, who);
  request.name = plugin_name(name);
  request.options = plugin::Options(complete.data(), complete.size());
  const auto& factory = plugin_factory<data::DataFactory>(loaded, data::kDataFactory);
  std::shared_ptr<data::Dataset> opened = factory.open(request);
  if (opened == nullptr)
    fail(WEFT_FAILED_PRECONDITION, "{} {}: it returned no data set for \"{}\"", view(loaded.id),
         view(loaded.version), request.name);
  if (opened->size() <= 0)
    fail(WEFT_INVALID_ARGUMENT, "{}: {} has {} samples, must have at least one",
         fmt::join(request.paths, ", "), who, opened->size());
  return opened;
}

std::shared_ptr<data::Dataset> part_of(std::shared_ptr<data::Dataset> whole, data::Part part, double held_out,
                                       int64_t seed) {
  if (part == data::Part::kAll) return whole;
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < whole->size(); ++i)
    if (data::is_held_out(i, held_out, seed) == (part == data::Part::kHeldOut)) samples.push_back(i);
  if (samples.empty())
    fail(WEFT_INVALID_ARGUMENT, "{}: of {} samples none {}; change the share of held_out ({})", whole->name(),
         whole->size(), part == data::Part::kHeldOut ? "is held out" : "is left to train on", held_out);
  return std::make_shared<PartOfDataset>(std::move(whole), std::move(samples));
}

}  // namespace weft
