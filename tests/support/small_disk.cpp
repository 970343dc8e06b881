#include "support/small_disk.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

namespace weft::test {

namespace {

constexpr int kUnavailable = 77;

}  // namespace

std::optional<bool> passes_on_small_disk(const std::string& folder, size_t size_bytes,
                                         const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    const std::string size = "size=" + std::to_string(size_bytes);
    const bool mounted = (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
                         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount("tmpfs", folder.c_str(), "tmpfs", 0, size.c_str()) == 0;
    if (!mounted) _exit(kUnavailable);
    int status = 1;
    try {
      body();
      status = testing::Test::HasFailure() ? 1 : 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::fflush(nullptr);
    _exit(status);
  }
  int status = 0;
  waitpid(process, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kUnavailable) return std::nullopt;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace weft::test
