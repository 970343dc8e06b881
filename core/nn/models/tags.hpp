// The tags of tokens that mark entities.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "weft/metric.hpp"

namespace weft::nn {

// The tags of a classifier of tokens, by class: "B-X" and "I-X" for the first and the other tokens of an
// entity of type X, "O" for tokens outside.
class Tags {
 public:
  // `names`: of the classes, in their order; may be empty.
  explicit Tags(const std::vector<std::string>& names);

  // Returns whether the names mark entities: each is such a tag, and not all are "O".
  bool name_entities() const { return name_entities_; }
  // Returns "entities", of Metric::kEntities: an entity is found if its type, its first and its last token
  // are right. As in seqeval without a mode, an "I-X" that follows no token of type X begins an entity.
  // Tokens whose label does not count are left out first. predicted, labels: (N, T), integers.
  Metric entities(const at::Tensor& predicted, const at::Tensor& labels) const;

 private:
  struct Tag {
    bool begins = false;
    int type = -1;  // -1: outside
  };
  std::vector<Tag> tags_;
  bool name_entities_ = false;
};

}  // namespace weft::nn
