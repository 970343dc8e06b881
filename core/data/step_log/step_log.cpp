#include "weft/step_log.hpp"

#include "base/text.hpp"
#include "step_log/files.hpp"

namespace weft {

namespace {

using nlohmann::json;

// Sets the member of `line` that has this name, in the objects of the groups in it.
void set(json& line, const std::string& name, const StepValue& value) {
  const std::vector<std::string> parts = split(name, '/');
  json* place = &line;
  for (const std::string& part : parts) {
    if (!place->is_object() && !place->is_null())
      fail(WEFT_INVALID_ARGUMENT, "StepLog: \"{}\" is in a group that is also the name of a value", name);
    place = &(*place)[part];
  }
  if (parts.empty() || !place->is_null())
    fail(WEFT_INVALID_ARGUMENT, "StepLog: a value cannot be called \"{}\": the name is {}; choose another",
         name, parts.empty() ? "empty" : "taken");
  std::visit([&](const auto& own) { *place = own; }, value);
}

std::optional<double> number_of(const StepValue& value) {
  return std::visit(
      [](const auto& own) -> std::optional<double> {
        if constexpr (std::is_same_v<decltype(own), const std::string&>)
          return std::nullopt;
        else
          return static_cast<double>(own);
      },
      value);
}

}  // namespace

StepLog::StepLog(const StepLogOptions& options, const World& world)
    : StepLog(std::make_shared<Files>(options, world, own_name)) {}

bool StepLog::wanted() const {
  return files_->lines.wanted() || files_->events.wanted();
}

void StepLog::begin(std::optional<int64_t> resumed_after) {
  files_->lines.begin(resumed_after);
  files_->events.begin(resumed_after);
  files_->begun = true;
}

void StepLog::write(int64_t step, const StepValues& values) {
  if (!files_->begun) fail(WEFT_FAILED_PRECONDITION, "StepLog: begin() comes before the first write()");
  json line = {{"step", step}};
  step_log::Scalars scalars;
  for (const auto& [name, value] : values) {
    set(line, name, value);
    if (const std::optional<double> number = number_of(value)) scalars.emplace_back(name, *number);
  }
  files_->lines.write(line);
  files_->events.write(step, scalars);
}

std::vector<std::string> StepLog::incomplete() const {
  std::vector<std::string> names;
  for (const auto& name : {files_->lines.incomplete(), files_->events.incomplete()})
    if (name) names.push_back(*name);
  return names;
}

}  // namespace weft
