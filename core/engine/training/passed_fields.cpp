#include "training/passed_fields.hpp"

#include <optional>

#include "base/text.hpp"
#include "parallel/apply.hpp"

namespace weft {

namespace {

// Reduces the shape of a field to this rank's part.
void keep_part(const nn::Model& model, const parallel::AppliedPlan* plan, const std::string& strategy,
               nn::FieldShape& field) {
  using Division = nn::FieldShape::Division;
  if (plan == nullptr || field.division == Division::kNone) return;
  const int64_t positions = field.division == Division::kPositionBias ? field.shape.back() : field.shape[1];
  int64_t own = 0;
  for (const Run& run : plan->own_positions(field.sequence, positions)) own += run.count;
  if (own == positions) return;
  if (field.division != Division::kPositions)
    fail(
        WEFT_UNIMPLEMENTED,
        "{}: the plan of {} splits sequences over ranks, and a schedule cannot pass the field \"{}\" between "
        "stages then; leave sequence parallelism out",
        strategy, model.architecture(), field.name);
  field.shape[1] = own;
}

}  // namespace

std::vector<nn::FieldShape> passed_fields(const Bindings& bindings, const Batch& batch, uint32_t unit) {
  std::vector<nn::FieldShape> fields = bindings.model().boundary(batch, unit);
  for (nn::FieldShape& field : fields)
    keep_part(bindings.model(), bindings.plan(), bindings.strategy_name(), field);
  return fields;
}

void check_passed_fields(const nn::Model& model, const parallel::AppliedPlan* plan,
                         const pipeline::StageDivision& stages, const std::string& strategy) {
  if (stages.virtual_stages() == 1) return;
  const std::optional<Batch> batch = model.example(/*samples=*/1, /*positions=*/2);
  if (!batch) return;
  for (uint32_t stage = 1; stage < stages.virtual_stages(); ++stage) {
    std::vector<nn::FieldShape> fields;
    try {
      fields = model.boundary(*batch, stages.begin(stage));
    } catch (const Error&) {
      return;  // the head needs more than an example has, such as ids of its own
    }
    for (nn::FieldShape& field : fields) keep_part(model, plan, strategy, field);
  }
}

}  // namespace weft
