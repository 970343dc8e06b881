// Fibers by Boost.Context that the sanitizers know as threads.
#pragma once

#include <boost/context/fiber.hpp>
#include <functional>

namespace on_host {

// A side of a switch between stacks.
struct Stack {
  const void* bottom = nullptr;
  size_t size = 0;
  void* fake = nullptr;  // AddressSanitizer's
  void* tsan = nullptr;  // ThreadSanitizer's
};

// Runs `body` again and again; body calls leave(). It lives as long as the process.
class Fiber {
 public:
  Fiber(int number, std::function<void()> body);
  // Continues the fiber until it leaves. Only for the thread that made it.
  void enter();
  // Goes back to where the fiber was entered.
  void leave();

 private:
  std::function<void()> body_;
  boost::context::fiber context_;
  Stack stack_;
};

// Order memory for ThreadSanitizer: what happens before a release of an edge happens before its next acquire.
void release(void* edge);
void acquire(void* edge);

}  // namespace on_host
