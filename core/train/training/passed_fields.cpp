#include "training/passed_fields.hpp"

#include <algorithm>

#include "apply/apply.hpp"
#include "base/text.hpp"
#include "training/input_output.hpp"

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

using Fields = std::vector<nn::FieldShape>;

bool fits(const at::Tensor& tensor, const nn::FieldShape& field) {
  const at::ScalarType dtype = tensor.scalar_type();
  return tensor.sizes() == at::IntArrayRef(field.shape) &&
         (dtype == field.dtype || (at::isFloatingType(dtype) && at::isFloatingType(field.dtype)));
}

// Returns what is wrong with a field, as words that follow "the field "x" that unit u passes to the next
// pipeline stage"; nothing if it is as the model says.
std::string problem_of(const nn::FieldShape& field, const State& left, const State& given) {
  const at::Tensor* const found = left.find(field.name);
  const bool exists = found != nullptr && found->defined();
  if (field.from_input && (!exists || !found->is_alias_of(given.at(field.name))))
    return "is not that of the batch any more, but boundary() of the model says that no unit has changed it "
           "(from_input)";
  if (field.from_input) return "";
  if (!exists || !fits(*found, field))
    return fmt::format("{}, but boundary() of the model says [{}] of {}",
                       exists ? "is " + shape_of(*found) : std::string("does not exist"),
                       fmt::join(field.shape, ", "), c10::toString(field.dtype));
  if (found->requires_grad() && !field.differentiable)
    return "needs a gradient, but boundary() of the model says that it is not differentiable";
  return "";
}

}  // namespace

std::vector<nn::FieldShape> passed_fields(const Bindings& bindings, const Batch& batch, uint32_t unit) {
  std::vector<nn::FieldShape> fields = bindings.model().boundary(fields_of_model(bindings, batch), unit);
  if (bindings.plan() != nullptr)
    for (nn::FieldShape& field : fields) keep_part(bindings.plan()->stream(field.sequence), field);
  return fields;
}

std::string shape_of(const at::Tensor& tensor) {
  return fmt::format("[{}] of {}", fmt::join(tensor.sizes(), ", "), c10::toString(tensor.scalar_type()));
}

void check_left_fields(const Bindings& bindings, uint32_t last, const State& left, const State& given,
                       const Fields& expected) {
  const auto refuse = [&](const std::string& field, const std::string& problem) {
    fail(WEFT_INTERNAL, "{}: the field \"{}\" that unit {} passes to the next pipeline stage {}",
         bindings.model().architecture(), field, bindings.units()[last]->unit->name(), problem);
  };
  for (const nn::FieldShape& field : expected)
    if (const std::string problem = problem_of(field, left, given); !problem.empty())
      refuse(field.name, problem);
  for (const auto& [name, tensor] : left) {
    const auto is_this = [n = &name](const nn::FieldShape& field) { return field.name == *n; };
    if (tensor.defined() && std::none_of(expected.begin(), expected.end(), is_this))
      refuse(name, "is none of those that boundary() of the model lists there");
  }
}

}  // namespace weft
