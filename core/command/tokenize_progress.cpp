#include "command/tokenize_progress.hpp"

#include <unistd.h>

#include <cstdio>

namespace weft::command {

TokenizeProgress::TokenizeProgress() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}

void TokenizeProgress::operator()(const std::string& source, int64_t done, int64_t total) {
  using Clock = std::chrono::steady_clock;
  const auto now = Clock::now();
  const bool is_last = done >= total;
  const std::chrono::milliseconds interval(is_terminal_ ? 100 : 5000);
  if (now - printed_ < interval && !(is_last && has_printed_)) return;
  // Nothing about text that takes no time.
  if (!has_printed_ && now - start_ < interval) return;
  std::fprintf(stderr, "%stokenizing %s: %.0f %% of %.1f MB%s", is_terminal_ ? "\r\033[K" : "",
               source.c_str(),
               total > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total) : 100.0,
               static_cast<double>(total) / 1e6, is_terminal_ && !is_last ? "" : "\n");
  printed_ = now;
  has_printed_ = !is_last;
}

}  // namespace weft::command
