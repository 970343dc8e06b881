#include "jinja/limits.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "jinja/value.hpp"

namespace weft::jinja {

namespace {

thread_local Limits* running = nullptr;

// What values contain, down to their last parts.
struct Size {
  size_t values = 0, bytes = 0;
  void add(const Value& value) {
    ++values;
    if (const Text* const text = value.text()) bytes += text->size();
    if (const List* const list = value.list())
      for (const Value& item : *list) add(item);
    if (const Dict* const dict = value.dict()) add(*dict);
  }
  void add(const Dict& dict) {
    for (const auto& [key, value] : dict.items()) {
      add(key);
      add(value);
    }
  }
};

constexpr size_t kMiB = size_t{1} << 20;

}  // namespace

Limits::Rendering::Rendering(Limits& limits, const Dict& variables)
    : outer_(std::exchange(running, &limits)) {
  constexpr size_t kStepsPerValue = 2000, kMostSteps = 1'000'000'000;
  constexpr size_t kGrowth = 32;  // how many times the size of its variables
  Size size;
  size.add(variables);
  limits.most_steps_ = std::min(limits.most_steps_ + kStepsPerValue * size.values, kMostSteps);
  limits.most_printed_ = 4 * kMiB + kGrowth * size.bytes;
  limits.most_held_ = 64 * kMiB + kGrowth * (size.bytes + sizeof(Value) * size.values);
  limits.printed_ = limits.held_ = limits.depth_ = limits.line_ = 0;
}

Limits::Rendering::~Rendering() {
  running = outer_;
}

void Limits::count(size_t steps) {
  if (running != nullptr) running->step(steps);
}

void Limits::hold(size_t bytes) {
  if (running == nullptr) return;
  running->held_ += bytes;
  if (running->held_ > running->most_held_) running->refuse_memory();
  running->step(bytes / kBytesPerStep);
}

void Limits::release(size_t bytes) noexcept {
  if (running != nullptr) running->held_ -= std::min(running->held_, bytes);
}

Limits::Level::Level() {
  if (running != nullptr) running->enter();
}
Limits::Level::~Level() {
  if (running != nullptr) running->leave();
}

void Limits::refuse_steps() const {
  fail(WEFT_RESOURCE_EXHAUSTED, "more than {} steps for one document, which is more than Weft takes",
       most_steps_);
}
void Limits::refuse_output() const {
  fail(WEFT_RESOURCE_EXHAUSTED, "the text of the document is longer than {:.1f} MiB",
       static_cast<double>(most_printed_) / kMiB);
}
void Limits::refuse_memory() const {
  fail(WEFT_RESOURCE_EXHAUSTED, "the values take more than {:.1f} MiB of memory",
       static_cast<double>(most_held_) / kMiB);
}
void Limits::refuse_depth() {
  fail(WEFT_RESOURCE_EXHAUSTED, "more than {} expressions, blocks and calls are inside each other", kDeepest);
}

}  // namespace weft::jinja
