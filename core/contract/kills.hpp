// Forks of this process that end early: killed at a system call, or by what they do.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace weft::contract {

// Runs `prepare` and `body` in a fork, of which ptrace sees the system calls of `body`. Returns how many it
// made; nothing where ptrace is not allowed.
std::optional<size_t> count_system_calls(const std::function<void()>& prepare,
                                         const std::function<void()>& body);

// The same, but kills the fork as it begins the call of this number, counted from 0. Returns false if it
// ended before.
bool kill_at_system_call(size_t number, const std::function<void()>& prepare,
                         const std::function<void()>& body);

// Runs `body` in a fork, for at most 10 seconds, and returns what it returns; or how the fork ended instead,
// "was killed by SIGSEGV". An exception is its text.
std::string in_fork(const std::function<std::string()>& body);

}  // namespace weft::contract
