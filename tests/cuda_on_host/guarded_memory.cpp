#include "guarded_memory.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "cuda_on_host.hpp"

namespace on_host {

namespace {

constexpr int kPoison = 0xFF;

#ifndef WEFT_ON_HOST_ASAN

constexpr size_t kPage = 4096, kAlignment = 16;

struct Handlers {
  std::string (*where)() = nullptr;
  struct sigaction segment, bus;
} handlers;

void report(int, siginfo_t* info, void*) {
  char address[32];
  std::snprintf(address, sizeof address, "%p", info->si_addr);
  const std::string text =
      handlers.where() + "reads or writes out of bounds, at the address " + address + "\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(2);
  _exit(1);
}

#endif

}  // namespace

#ifdef WEFT_ON_HOST_ASAN

GuardedMemory::GuardedMemory(size_t bytes, size_t past) : bytes_(bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, bytes + past) != 0) throw std::bad_alloc();
  mapped_ = static_cast<unsigned char*>(memory);
  data_ = mapped_ + past;
  std::memset(mapped_, kPoison, bytes + past);
}
GuardedMemory::~GuardedMemory() {
  std::free(mapped_);
}
std::string GuardedMemory::damage() const {
  return {};
}

AccessReports::AccessReports(std::string (*)()) {}
AccessReports::~AccessReports() = default;

#else

GuardedMemory::GuardedMemory(size_t bytes, size_t past) : bytes_(bytes) {
  const size_t usable = (bytes + kPage + kAlignment - 1) / kPage * kPage + kPage;
  mapped_bytes_ = usable + kPage;
  void* const memory =
      mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mapped_ = static_cast<unsigned char*>(memory);
  std::memset(mapped_, kPoison, usable);
  if (mprotect(mapped_ + usable, kPage, PROT_NONE) != 0) throw std::bad_alloc();
  const size_t last = usable - bytes, room = (last - past % kAlignment) % kAlignment;
  data_ = mapped_ + last - room;
}

GuardedMemory::~GuardedMemory() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
}

std::string GuardedMemory::damage() const {
  if (mapped_ == nullptr) return {};
  const unsigned char *const end = data_ + bytes_, *const last = mapped_ + mapped_bytes_ - kPage;
  for (const unsigned char* at = mapped_; at != last; ++at) {
    if (at == data_) at = end;
    if (at == last) break;
    if (*at == kPoison) continue;
    return at < data_ ? std::to_string(data_ - at) + " bytes before the start"
                      : std::to_string(at - end) + " bytes past the end";
  }
  return {};
}

AccessReports::AccessReports(std::string (*where)()) {
  handlers.where = where;
  struct sigaction action = {};
  action.sa_sigaction = report;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, &handlers.segment);
  sigaction(SIGBUS, &action, &handlers.bus);
}
AccessReports::~AccessReports() {
  sigaction(SIGSEGV, &handlers.segment, nullptr);
  sigaction(SIGBUS, &handlers.bus, nullptr);
}

#endif

}  // namespace on_host
