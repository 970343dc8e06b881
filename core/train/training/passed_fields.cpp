#include "training/passed_fields.hpp"

#include "apply/apply.hpp"

namespace weft {

namespace {

int64_t count(const std::vector<Run>& runs) {
  int64_t count = 0;
  for (const Run& run : runs) count += run.count;
  return count;
}

// Reduces the shape of a field to this rank's part. `stream` is the residual stream of the field's sequence.
void keep_part(const parallel::ResidualStream& stream, nn::FieldShape& field) {
  using Division = nn::FieldShape::Division;
  std::vector<int64_t>& shape = field.shape;
  switch (field.division) {
    case Division::kNone:
      return;
    case Division::kPositions:
      shape[1] = count(stream.own(shape[1]));
      return;
    case Division::kRegion:
      shape[1] = count(stream.inside(shape[1]));
      return;
    case Division::kPositionBias:
      const parallel::ResidualStream::BiasPart part = stream.bias_part(shape[1], shape[3]);
      shape[1] = part.heads.count;
      shape[2] = count(part.queries);
      return;
  }
}

}  // namespace

std::vector<nn::FieldShape> passed_fields(const Bindings& bindings, const Batch& batch, uint32_t unit) {
  std::vector<nn::FieldShape> fields = bindings.model().boundary(batch, unit);
  if (bindings.plan() != nullptr)
    for (nn::FieldShape& field : fields) keep_part(bindings.plan()->stream(field.sequence), field);
  return fields;
}

}  // namespace weft
