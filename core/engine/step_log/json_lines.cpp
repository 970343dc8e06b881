#include "step_log/json_lines.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text.hpp"

namespace weft::step_log {

using nlohmann::json;

JsonLines::JsonLines(std::string path, std::string name, const World& world)
    : path_(std::move(path)), name_(std::move(name)), world_(world) {
  if (!wanted()) return;
  // All ranks throw this error. Otherwise they would report that rank 0 is gone.
  world_.priority_execution([&] {
    if (!world_.is_master()) return;
    file_.open(path_, std::ios::app);
    if (!file_) fail(WEFT_UNAVAILABLE, "{} {}: cannot write there: {}", name_, path_, std::strerror(errno));
  });
}

void JsonLines::begin(std::optional<int64_t> last_step) {
  if (!wanted()) return;
  world_.priority_execution([&] {
    if (!file_.is_open() || !std::filesystem::is_regular_file(path_)) return;
    std::error_code error;
    std::filesystem::resize_file(path_, last_step ? end_of_step(*last_step) : 0, error);
    if (error) fail(WEFT_UNAVAILABLE, "{} {}: cannot be shortened: {}", name_, path_, error.message());
  });
}

void JsonLines::write(const json& line) {
  if (!file_.is_open()) return;
  errno = 0;
  file_ << line.dump() << '\n' << std::flush;
  if (!file_ && errno == EPIPE) {
    // `--metrics /dev/stdout | head`: that nobody looks on is no reason to lose the training.
    world_.print_on_master(fmt::format("{} {}: nobody reads it any more; the job continues", name_, path_));
    file_.close();
  } else if (!file_) {
    fail(WEFT_RESOURCE_EXHAUSTED, "{} {}: writing failed: {}", name_, path_, std::strerror(errno));
  }
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
