// Kills and full disks, for tests of saves.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace weft::test {

// Runs `prepare` and `body` in a child process, of which ptrace sees the system calls of `body`. Returns how
// many it made; nothing where ptrace is not allowed.
std::optional<size_t> count_system_calls(const std::function<void()>& prepare,
                                         const std::function<void()>& body);
// The same, but kills the child as it begins the call of this number, counted from 0. Returns false if it
// ended before.
bool kill_at_system_call(size_t number, const std::function<void()>& prepare,
                         const std::function<void()>& body);

// Runs `body`, which may use GoogleTest's assertions, in a child process that alone sees an empty disk of
// this size at `folder`. Returns whether it passed; nothing where no disk can be mounted.
std::optional<bool> passes_on_small_disk(const std::string& folder, size_t size_bytes,
                                         const std::function<void()>& body);

}  // namespace weft::test
