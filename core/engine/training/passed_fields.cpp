#include "training/passed_fields.hpp"

#include "base/text.hpp"
#include "parallel/apply.hpp"

namespace weft {

namespace {

// Reduces the shape of a field to this rank's part.
void keep_part(const Bindings& bindings, nn::FieldShape& field) {
  using Division = nn::FieldShape::Division;
  if (bindings.plan() == nullptr || field.division == Division::kNone) return;
  const int64_t positions = field.division == Division::kPositionBias ? field.shape.back() : field.shape[1];
  int64_t own = 0;
  for (const Run& run : bindings.plan()->own_positions(field.sequence, positions)) own += run.count;
  if (own == positions) return;
  if (field.division != Division::kPositions)
    fail(
        WEFT_UNIMPLEMENTED,
        "{}: the plan of {} splits sequences over ranks, and a schedule cannot pass the field \"{}\" between "
        "stages then; leave sequence parallelism out",
        bindings.strategy_name(), bindings.model().architecture(), field.name);
  field.shape[1] = own;
}

}  // namespace

std::vector<nn::FieldShape> passed_fields(const Bindings& bindings, const Batch& batch, uint32_t unit) {
  std::vector<nn::FieldShape> fields = bindings.model().boundary(batch, unit);
  for (nn::FieldShape& field : fields) keep_part(bindings, field);
  return fields;
}

}  // namespace weft
