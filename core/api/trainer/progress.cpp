// Progress: what a training prints while it runs.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "device/device.hpp"
#include "weft/hooks.hpp"

namespace weft {

namespace {

constexpr std::chrono::milliseconds kBarInterval{100};
constexpr std::chrono::seconds kLineInterval{5};
constexpr int kBarWidth = 20;

std::string rate(double tokens_per_second) {
  return tokens_per_second >= 1e4 ? fmt::format("{:.1f} k tokens/s", tokens_per_second / 1e3)
                                  : fmt::format("{:.0f} tokens/s", tokens_per_second);
}

std::string clock_text(double seconds) {
  const int64_t whole = std::llround(seconds);
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
}

}  // namespace

std::string evaluation_text(const EvaluationValues& values) {
  std::string text;
  const auto add = [&](const std::string& key, const std::optional<double>& value, int digits) {
    text += (text.empty() ? "" : "  ") +
            (value ? fmt::format("{} {:.{}f}", key, *value, digits) : key + " undefined");
  };
  for (const char* key : {"loss", "perplexity"})
    if (const auto found = values.find(key); found != values.end())
      add(key, found->second, found->first == "loss" ? 4 : 3);
  for (const auto& [key, value] : values)
    if (key != "loss" && key != "perplexity") add(key, value, 4);
  return text;
}

void Progress::begin(Trainer& trainer) {
  first_ = trainer.step();
  speaks_ = trainer.booster().world().is_master();
  terminal_ = ::isatty(STDERR_FILENO) == 1;
  start_ = Clock::now();
  last_ = start_ - std::chrono::hours(1);
}

void Progress::before_epoch(Trainer& /*trainer*/) {
  epoch_start_ = Clock::now();
  epoch_loss_ = 0;
  epoch_steps_ = 0;
}

void Progress::after_epoch(Trainer& trainer) {
  const bool only = trainer.epoch() == 0 && trainer.step() >= trainer.total_steps();
  if (!speaks_ || only || epoch_steps_ == 0) return;
  print(
      fmt::format("epoch {}  mean loss {:.4f} of {} step{}  {}", trainer.epoch() + 1,
                  epoch_loss_ / static_cast<double>(epoch_steps_), epoch_steps_, epoch_steps_ == 1 ? "" : "s",
                  clock_text(std::chrono::duration<double>(Clock::now() - epoch_start_).count())),
      true);
}

void Progress::after_step(Trainer& trainer) {
  const auto now = Clock::now();
  epoch_loss_ += trainer.result().loss;
  ++epoch_steps_;
  const int64_t step = trainer.step(), total = trainer.total_steps();
  const bool last = step >= total;
  if (!speaks_ ||
      (!last && now - last_ < (terminal_ ? std::chrono::nanoseconds(kBarInterval) : kLineInterval)))
    return;
  last_ = now;
  const StepResult& result = trainer.result();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double left =
      elapsed / static_cast<double>(std::max<int64_t>(1, step - first_)) * static_cast<double>(total - step);
  std::string line = fmt::format("step {}/{}  loss {:.4f}", step, total, result.loss);
  if (result.grad_norm) line += fmt::format("  norm {:.3f}", *result.grad_norm);
  line += fmt::format("  {}  peak {} MiB  {} left", rate(result.tokens_per_second),
                      device::memory_use().peak >> 20, clock_text(left));
  if (terminal_) {
    const int filled = static_cast<int>(kBarWidth * step / std::max<int64_t>(1, total));
    line += "  ";
    for (int i = 0; i < kBarWidth; ++i) line += i < filled ? "█" : "░";
  }
  print(line, !terminal_);
}

void Progress::after_evaluation(Trainer& trainer) {
  if (!speaks_) return;
  print(fmt::format("step {}/{}  evaluation  {}", trainer.step(), trainer.total_steps(),
                    evaluation_text(*trainer.evaluation())),
        true);
}

void Progress::end(Trainer& /*trainer*/) {
  if (std::exchange(open_line_, false)) std::fputc('\n', stderr);
}

Progress::~Progress() {
  if (open_line_) std::fputc('\n', stderr);
}

// A line that stays is above the next one; another one takes its place.
void Progress::print(const std::string& line, bool stays) {
  std::fprintf(stderr, "%s%s%s", terminal_ ? "\r\033[K" : "", line.c_str(), stays ? "\n" : "");
  std::fflush(stderr);
  open_line_ = !stays;
}

}  // namespace weft
