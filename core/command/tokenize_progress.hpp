// Prints how much of a text is tokenized.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace weft::command {

// Prints a line that changes on a terminal, otherwise one every few seconds. Nothing about text that takes no
// time.
class TokenizeProgress {
 public:
  TokenizeProgress();
  void operator()(const std::string& source, int64_t done, int64_t total);

 private:
  const bool is_terminal_;
  bool has_printed_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), printed_ = {};
};

}  // namespace weft::command
