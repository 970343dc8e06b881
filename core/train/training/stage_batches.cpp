// What the micro-batches of a step are, before the schedule runs: whether the stages agree, and which fields
// pass the boundaries.
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "device/tensors.hpp"
#include "host/launch/activity.hpp"
#include "training/passed_fields.hpp"
#include "training/pipeline.hpp"

namespace weft {

Pipeline::Shapes::Shapes(const State& state) {
  for (const auto& [name, tensor] : state)
    fields_.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
}

bool Pipeline::Shapes::are_of(const State& state) const {
  return std::equal(fields_.begin(), fields_.end(), state.begin(), state.end(),
                    [](const Field& field, const auto& other) {
                      const at::Tensor& tensor = other.second;
                      return field.name == other.first && field.dtype == tensor.scalar_type() &&
                             tensor.sizes() == field.shape;
                    });
}

std::string Pipeline::Shapes::text() const {
  std::string text;
  for (const Field& field : fields_)
    text +=
        fmt::format("{} [{}] of {}; ", field.name, fmt::join(field.shape, ", "), c10::toString(field.dtype));
  return text;
}

std::shared_ptr<const Pipeline::Boundaries> Pipeline::boundaries(const Batch& batch, const State& input) {
  constexpr size_t kMostShapes = 1000;  // of a data set in which hardly two batches have the same
  const auto keep = [&](const std::shared_ptr<const Boundaries>& found) {
    latest_ = {Shapes(batch), Shapes(input), found};
    return found;
  };
  if (latest_.boundaries && latest_.batch.are_of(batch) && latest_.input.are_of(input))
    return latest_.boundaries;
  const std::string shapes = Shapes(batch).text() + "| " + Shapes(input).text();
  if (const auto found = boundaries_.find(shapes); found != boundaries_.end()) return keep(found->second);
  const pipeline::StageDivision& division = bindings_.stages();
  const auto runs_here = [&](uint32_t virtual_stage) {
    return bindings_.runs_here(*bindings_.units()[division.begin(virtual_stage)]);
  };
  Boundaries made(division.virtual_stages());
  for (uint32_t v = 1; v < division.virtual_stages(); ++v) {
    if (!runs_here(v - 1) && !runs_here(v)) continue;
    Boundary& boundary = made[v];
    boundary.fields = passed_fields(bindings_, batch, division.begin(v));
    for (const nn::FieldShape& field : boundary.fields) {
      if (!field.from_input) boundary.made.push_back(field);
      if (!field.from_input && field.differentiable) boundary.differentiable.push_back(field);
    }
  }
  if (boundaries_.size() == kMostShapes) boundaries_.clear();
  return keep(boundaries_[shapes] = std::make_shared<const Boundaries>(std::move(made)));
}

namespace {

// Returns the bytes of the fields of `state` that are not fields of `batch`.
size_t bytes_beside(const Batch& batch, const State& state) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : state) {
    const auto shares = [t = &tensor](const auto& field) { return field.second.is_alias_of(*t); };
    if (std::none_of(batch.begin(), batch.end(), shares)) bytes += tensor.nbytes();
  }
  return bytes;
}

// Returns what every stage has. Collective.
std::vector<nlohmann::json> gather(const Communicator& stages, const nlohmann::json& own) {
  std::vector<nlohmann::json> all;
  for (const std::string& text : gather_from_every_rank(stages, [&] { return own.dump(); }))
    all.push_back(nlohmann::json::parse(text));
  return all;
}

// Returns the first difference between the shapes of the stages' micro-batches. Collective.
std::string difference_of_shapes(const Communicator& stages, const weft_step& step) {
  nlohmann::json own = nlohmann::json::array();
  for (const MicroBatch& micro : step.micro) {
    own.push_back(nlohmann::json::object());
    for (const auto& [name, tensor] : micro.batch) own.back()[name] = shape_of(tensor);
  }
  const std::vector<nlohmann::json> all = gather(stages, own);
  for (size_t stage = 1; stage < all.size(); ++stage) {
    if (all[stage].size() != all[0].size())
      return fmt::format("stage 0 has {} micro-batches and stage {} has {}", all[0].size(), stage,
                         all[stage].size());
    for (size_t micro = 0; micro < all[0].size(); ++micro) {
      nlohmann::json fields = all[0][micro];
      fields.update(all[stage][micro]);
      for (const auto& [name, shape] : fields.items()) {
        const auto of = [&, n = name](size_t s) { return all[s][micro].value(n, std::string("missing")); };
        if (of(0) != of(stage))
          return fmt::format("in micro-batch {} the field \"{}\" is {} on stage 0 and {} on stage {}", micro,
                             name, of(0), of(stage), stage);
      }
    }
  }
  return "the order of their fields differs";
}

// Returns "2 of "lm_loss"", for each term of the loss.
std::string text_of(const std::vector<nn::LossCount>& counts) {
  std::vector<std::string> parts;
  for (const nn::LossCount& term : counts)
    parts.push_back(fmt::format("{} of \"{}\"", term.count, term.name));
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

// Returns the first difference between the labels that the stages count. Collective.
std::string difference_of_labels(const Communicator& stages, const std::vector<std::string>& labels) {
  const std::vector<nlohmann::json> all = gather(stages, labels);
  for (size_t stage = 1; stage < all.size(); ++stage)
    for (size_t micro = 0; micro < std::min(all[0].size(), all[stage].size()); ++micro)
      if (all[stage][micro] != all[0][micro])
        return fmt::format("in micro-batch {} the labels that count are {} on stage 0 and {} on stage {}",
                           micro, all[0][micro].get<std::string>(), all[stage][micro].get<std::string>(),
                           stage);
  return "some stages have a criterion and others have none";
}

int64_t digest_of(const std::string& text) {
  return static_cast<int64_t>(std::hash<std::string>()(text) >> 1);
}

}  // namespace

// Without this, a stage could refuse the batch alone, or wait for bytes that its neighbour never sends.
// States that would take much memory until their micro-batches run are made again.
void Pipeline::check_batches(weft_step& step) {
  constexpr size_t kMostBytes = size_t{16} << 20;
  const nn::Model& model = bindings_.model();
  size_t bytes = 0;
  std::exception_ptr refusal;
  std::vector<std::string> labels;
  try {
    for (uint32_t i = 0; i < step.micro.size(); ++i) {
      MicroBatch& micro = step.micro[i];
      State input = step.input(i);
      bytes += bytes_beside(micro.batch, input);
      if (bytes <= kMostBytes) micro.input = std::move(input);
      if (!step.criterion) labels.push_back(text_of(step.counts(i)));
    }
  } catch (...) {
    refusal = std::current_exception();
  }
  std::string shapes;
  std::optional<Shapes> before;
  for (const MicroBatch& micro : step.micro) {
    if (before && before->are_of(micro.batch)) {
      shapes += "=";
    } else {
      before.emplace(micro.batch);
      shapes += before->text() + "| ";
    }
  }
  const int64_t of_shapes = digest_of(shapes),
                of_labels = digest_of(fmt::format("{}", fmt::join(labels, "| ")));
  const at::Tensor most = at::tensor(
      std::vector<int64_t>{of_shapes, -of_shapes, refusal ? 1 : 0, of_labels, -of_labels}, at::kLong);
  const ActivityDetail detail("before the schedule, waiting for the other stages to begin it");
  stages_.all_reduce(most, ReduceOp::kMax, true).wait();
  const std::vector<int64_t> highest = device::values_of<int64_t>(most);
  const auto refuse_different = [&](const std::string& difference) {
    fail(WEFT_FAILED_PRECONDITION, "{}: the stages of a pipeline must have the same batch, but {}",
         model.architecture(), difference);
  };
  if (highest[0] != -highest[1]) refuse_different(difference_of_shapes(stages_, step));
  if (highest[2] != 0)
    on_every_rank(stages_, [&] {
      if (refusal) std::rethrow_exception(refusal);
    });
  if (highest[3] != -highest[4]) refuse_different(difference_of_labels(stages_, labels));
  program(step);
}

}  // namespace weft
