#include "step_log/json_lines.hpp"

#include <cstring>
#include <fstream>
#include <utility>

#include "base/text.hpp"

namespace weft::step_log {

using nlohmann::json;

JsonLines::JsonLines(std::string path, std::string name, const World& world)
    : path_(std::move(path)), name_(std::move(name)), world_(world), file_(name_ + " " + path_, world) {
  if (!wanted()) return;
  // All ranks throw this error. Otherwise they would report that rank 0 is gone.
  world_.priority_execution([&] {
    if (!world_.is_master()) return;
    if (const int code = file_.open(path_, false); code != 0)
      fail(WEFT_UNAVAILABLE, "{} {}: cannot write there: {}", name_, path_, std::strerror(code));
  });
}

void JsonLines::begin(std::optional<int64_t> last_step) {
  if (!wanted()) return;
  world_.priority_execution([&] {
    if (!file_.is_open()) return;
    if (const int code = file_.resize(last_step ? end_of_step(*last_step) : 0); code != 0)
      fail(WEFT_UNAVAILABLE, "{} {}: cannot be shortened: {}", name_, path_, std::strerror(code));
  });
}

void JsonLines::write(const json& line) {
  if (file_.is_open()) file_.append(line.dump() + '\n');
}

// Returns where the line of this step ends. What follows was written by a run that was killed before its next
// save, or is a line that it did not finish.
uintmax_t JsonLines::end_of_step(int64_t step) const {
  std::ifstream file(path_);
  uintmax_t end = 0;
  for (std::string text; std::getline(file, text) && !file.eof();) {
    const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
    const json found = line.is_object() ? line.value("step", json()) : json();
    if (found.is_number_integer() && found > step) break;
    end += text.size() + 1;
  }
  return end;
}

}  // namespace weft::step_log
