#include "command/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

namespace weft::command {

namespace {

constexpr std::chrono::milliseconds kBarInterval{100};
constexpr std::chrono::seconds kLineInterval{5};
constexpr int kBarWidth = 20;

std::string rate(double tokens_per_second) {
  return tokens_per_second >= 1e4 ? fmt::format("{:.1f} k tokens/s", tokens_per_second / 1e3)
                                  : fmt::format("{:.0f} tokens/s", tokens_per_second);
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
}

}  // namespace

Progress::Progress(int64_t first_step, int64_t total_steps, bool speaks)
    : first_(first_step),
      total_(total_steps),
      speaks_(speaks),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_ - std::chrono::hours(1)) {}

Progress::~Progress() {
  if (open_line_) std::fputc('\n', stderr);
}

void Progress::step(const StepResult& result, int64_t step, int64_t peak_bytes) {
  const auto now = std::chrono::steady_clock::now();
  const bool last = step >= total_;
  if (!speaks_ ||
      (!last && now - last_ < (terminal_ ? std::chrono::nanoseconds(kBarInterval) : kLineInterval)))
    return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double left =
      elapsed / static_cast<double>(std::max<int64_t>(1, step - first_)) * static_cast<double>(total_ - step);
  std::string line = fmt::format("step {}/{}  loss {:.4f}", step, total_, result.loss);
  if (result.grad_norm) line += fmt::format("  norm {:.3f}", *result.grad_norm);
  line += fmt::format("  {}  peak {} MiB  {} left", rate(result.tokens_per_second), peak_bytes >> 20,
                      clock_text(left));
  if (!terminal_) {
    std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  const int filled = static_cast<int>(kBarWidth * step / std::max<int64_t>(1, total_));
  line += "  ";
  for (int i = 0; i < kBarWidth; ++i) line += i < filled ? "█" : "░";
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  open_line_ = true;
}

}  // namespace weft::command
