#include "models/tags.hpp"

#include <algorithm>
#include <map>

#include "device/tensors.hpp"
#include "weft/nn/field_names.hpp"

namespace weft::nn {

namespace {

// An entity: its type, and its first and last token.
struct Entity {
  int type;
  size_t first, last;
  bool operator==(const Entity&) const = default;
};

}  // namespace

Tags::Tags(const std::vector<std::string>& names) {
  std::map<std::string, int> types;
  bool all_tags = true;
  for (const std::string& name : names) {
    const bool is_entity = name.starts_with("B-") || name.starts_with("I-");
    all_tags = all_tags && (is_entity || name == "O");
    if (is_entity) types.emplace(name.substr(2), static_cast<int>(types.size()));
    tags_.push_back(is_entity ? Tag{name[0] == 'B', types.at(name.substr(2))} : Tag{});
  }
  name_entities_ = all_tags && !types.empty();
}

Metric Tags::entities(const at::Tensor& predicted, const at::Tensor& labels) const {
  const std::vector<int64_t> of_found = device::values_of<int64_t>(predicted.to(at::kLong).reshape(-1)),
                             of_wanted = device::values_of<int64_t>(labels.to(at::kLong).reshape(-1));
  const auto entities_of = [&](const std::vector<int64_t>& row) {
    std::vector<Entity> entities;
    int type = -1;  // of the token before
    for (size_t t = 0; t < row.size(); ++t) {
      const Tag& tag = tags_[static_cast<size_t>(row[t])];
      if (tag.type >= 0 && (tag.begins || tag.type != type))
        entities.push_back({tag.type, t, t});
      else if (tag.type >= 0)
        entities.back().last = t;
      type = tag.type;
    }
    return entities;
  };
  double right = 0, all_found = 0, all_wanted = 0;
  const auto positions = static_cast<size_t>(labels.size(-1));
  for (size_t begin = 0; begin < of_wanted.size(); begin += positions) {
    std::vector<int64_t> row_found, row_wanted;
    for (size_t at = begin; at < begin + positions; ++at) {
      if (of_wanted[at] == kIgnored) continue;
      row_found.push_back(of_found[at]);
      row_wanted.push_back(of_wanted[at]);
    }
    const std::vector<Entity> predictions = entities_of(row_found), truth = entities_of(row_wanted);
    for (const Entity& each : truth)
      right += std::find(predictions.begin(), predictions.end(), each) != predictions.end() ? 1 : 0;
    all_found += static_cast<double>(predictions.size());
    all_wanted += static_cast<double>(truth.size());
  }
  return {"entities", Metric::Kind::kEntities, {right, all_found, all_wanted}};
}

}  // namespace weft::nn
