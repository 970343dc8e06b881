// Compiled without -fsanitize=thread: what it writes is shared by all fibers on purpose.
#include "fiber.hpp"

#include <boost/context/protected_fixedsize_stack.hpp>
#include <string>
#include <utility>

#include "cuda_on_host.hpp"

#ifdef WEFT_ON_HOST_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

// ThreadSanitizer, if the program is linked with it.
extern "C" {
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void* __tsan_create_fiber(unsigned);
__attribute__((weak)) void __tsan_switch_to_fiber(void*, unsigned);
__attribute__((weak)) void __tsan_set_fiber_name(void*, const char*);
__attribute__((weak)) void __tsan_acquire(void*);
__attribute__((weak)) void __tsan_release(void*);
}

namespace on_host {

namespace {

using boost::context::fiber;

constexpr size_t kStackBytes = 256 << 10;

// The thread that enters fibers.
struct Main {
  fiber context;
  Stack stack;
};
Main& main_side() {
  static Main* const instance = new Main;  // outlives every fiber
  return *instance;
}

void before_switch([[maybe_unused]] Stack& from, const Stack& to) {
#ifdef WEFT_ON_HOST_ASAN
  __sanitizer_start_switch_fiber(&from.fake, to.bottom, to.size);
#endif
  constexpr unsigned kNoEdge = 1;
  if (__tsan_switch_to_fiber != nullptr) __tsan_switch_to_fiber(to.tsan, kNoEdge);
}

void after_switch([[maybe_unused]] Stack& now, [[maybe_unused]] Stack* learn) {
#ifdef WEFT_ON_HOST_ASAN
  if (learn != nullptr)
    __sanitizer_finish_switch_fiber(now.fake, &learn->bottom, &learn->size);
  else
    __sanitizer_finish_switch_fiber(now.fake, nullptr, nullptr);
#endif
}

}  // namespace

Fiber::Fiber(int number, std::function<void()> body) : body_(std::move(body)) {
  Main& main = main_side();
  if (__tsan_get_current_fiber != nullptr) main.stack.tsan = __tsan_get_current_fiber();
  boost::context::protected_fixedsize_stack allocator(kStackBytes);
  const boost::context::stack_context stack = allocator.allocate();
  stack_.size = stack.size;
  stack_.bottom = static_cast<char*>(stack.sp) - stack.size;
  if (__tsan_create_fiber != nullptr) {
    stack_.tsan = __tsan_create_fiber(0);
    __tsan_set_fiber_name(stack_.tsan, ("CUDA thread " + std::to_string(number)).c_str());
  }
  context_ = fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack), allocator,
                   [this](fiber&& entered) {
                     main_side().context = std::move(entered);
                     after_switch(stack_, &main_side().stack);
                     for (;;) body_();
                     return std::move(main_side().context);
                   });
}

void Fiber::enter() {
  before_switch(main_side().stack, stack_);
  context_ = std::move(context_).resume();
  after_switch(main_side().stack, nullptr);
}

void Fiber::leave() {
  before_switch(stack_, main_side().stack);
  main_side().context = std::move(main_side().context).resume();
  after_switch(stack_, &main_side().stack);
}

void release(void* edge) {
  if (__tsan_release != nullptr) __tsan_release(edge);
}
void acquire(void* edge) {
  if (__tsan_acquire != nullptr) __tsan_acquire(edge);
}

}  // namespace on_host
