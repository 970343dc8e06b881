// What the rendering of a document may use: no template runs for ever, fills the memory or exhausts the
// stack.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace weft::jinja {

class Dict;

// As long as a step takes: to copy, to compare or to look through so many bytes.
constexpr size_t kBytesPerStep = 64;

// Counts what a document uses. All its renderings count together, except that memory and output begin again
// with each of them.
class Limits {
 public:
  // A rendering with these variables. Until its end, all values that its thread makes count, wherever that
  // happens. The more the variables contain, the more the rendering may use.
  class Rendering {
   public:
    Rendering(Limits& limits, const Dict& variables);
    ~Rendering();
    Rendering(const Rendering&) = delete;

   private:
    Limits* const outer_;
  };

  // Throw RESOURCE_EXHAUSTED beyond a limit. A step takes about as long as to evaluate a name.
  void step(size_t count = 1) {
    steps_ += count;
    if (steps_ > most_steps_) refuse_steps();
  }
  void print(size_t bytes) {
    printed_ += bytes;
    if (printed_ > most_printed_) refuse_output();
  }
  // Enters an expression, a block or a call, which may contain others.
  void enter() {
    if (++depth_ > kDeepest) refuse_depth();
  }
  void leave() { --depth_; }

  // The line of the statement that runs.
  size_t line() const { return line_; }
  void go_to(size_t line) { line_ = line; }

  // The same for functions that do not know their rendering. They do nothing if the thread renders nothing.
  static void count(size_t steps);
  static void hold(size_t bytes);              // memory
  static void release(size_t bytes) noexcept;  // memory that was held
  class Level {                                // between enter() and leave()
   public:
    Level();
    ~Level();
    Level(const Level&) = delete;
  };

 private:
  static constexpr size_t kDeepest = 1000;
  [[noreturn]] void refuse_steps() const;
  [[noreturn]] void refuse_output() const;
  [[noreturn]] void refuse_memory() const;
  [[noreturn]] static void refuse_depth();

  size_t steps_ = 0, most_steps_ = 4'000'000;
  size_t printed_ = 0, most_printed_ = 0;
  size_t held_ = 0, most_held_ = 0;
  size_t depth_ = 0, line_ = 0;
};

// Bytes that are held as long as this lives. A copy holds as many again.
class Held {
 public:
  Held() = default;
  Held(const Held& other) : Held() { set(other.bytes_); }
  Held(Held&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
  Held& operator=(Held other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Held() {
    if (bytes_ > 0) Limits::release(bytes_);
  }
  void set(size_t bytes) {
    if (bytes > bytes_)
      Limits::hold(bytes - bytes_);
    else if (bytes < bytes_)
      Limits::release(bytes_ - bytes);
    bytes_ = bytes;
  }

 private:
  size_t bytes_ = 0;
};

// Allocates memory that is held.
template <class T>
struct HeldAllocator {
  using value_type = T;
  HeldAllocator() = default;
  template <class Other>
  HeldAllocator(const HeldAllocator<Other>&) {}
  T* allocate(size_t count) {
    Limits::hold(count * sizeof(T));
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, size_t count) noexcept {
    std::allocator<T>().deallocate(memory, count);
    Limits::release(count * sizeof(T));
  }
  friend bool operator==(HeldAllocator, HeldAllocator) { return true; }
};

}  // namespace weft::jinja
