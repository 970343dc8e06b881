// Names the memory of the device that the host tried to read or write, before the process dies of it.
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdio>

#include "sim/state.hpp"

namespace weft::sim {

namespace {

struct sigaction before;

const char* kind_of_access(const void* context) {
#if defined(__x86_64__)
  constexpr unsigned long kWrite = 2;  // of a page fault's error code
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  return (static_cast<unsigned long>(registers[REG_ERR]) & kWrite) != 0 ? "writes" : "reads";
#else
  return "reads or writes";
#endif
}

int describe(const char* address, const char* access, char* text, size_t size) {
  State& all = state();
  const std::unique_lock lock(all.mutex, std::try_to_lock);
  if (!lock) return std::snprintf(text, size, "sim: the host %s memory of a device\n", access);
  auto after = all.blocks.upper_bound(address);
  const Block* const block = after == all.blocks.begin() ? nullptr : std::prev(after)->second;
  if (block == nullptr || address >= block->data + block->bytes)
    return std::snprintf(text, size, "sim: the host %s memory of a device that was never allocated\n",
                         access);
  const char* const last = block->log.empty() ? "nothing" : block->log.back().what.c_str();
  return std::snprintf(text, size,
                       "sim: the host %s memory of a device: byte %zu of %s block of %zu bytes on sim:%d, "
                       "last used by %s\n",
                       access, static_cast<size_t>(address - block->data), block->in_use ? "a" : "a freed",
                       block->bytes, static_cast<int>(block->device), last);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto* const address = static_cast<const char*>(info->si_addr);
  if (address >= state().addresses && address < state().addresses + kSpan) {
    static char text[512];
    const int length = describe(address, kind_of_access(context), text, sizeof(text));
    if (length > 0) [[maybe_unused]]
      const ssize_t written =
          write(STDERR_FILENO, text, std::min(static_cast<size_t>(length), sizeof(text) - 1));
  }
  // The access is tried again when this returns, and then dies or is another handler's.
  sigaction(signal, &before, nullptr);
}

}  // namespace

void report_host_accesses() {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &before);
}

}  // namespace weft::sim
