// A hook in C that notes its moments, and asks for what a test wants.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/trainer.hpp"
#include "base/text.hpp"
#include "trainer/c_hook.hpp"
#include "weft/runtime.h"

namespace weft::test {

class NotesInC {
 public:
  Names seen;
  std::function<uint32_t(const weft_moment&)> then = [](const weft_moment&) { return 0U; };
  std::string kept, restored;
  weft_hook hook = {
      sizeof(weft_hook), this, WEFT_STR("notes_in_c"), WEFT_MOMENT_BIT(WEFT_MOMENTS) - 1, at, state, restore};

  NotesInC() = default;
  NotesInC(const NotesInC&) = delete;
  std::shared_ptr<Hook> as_hook() const {
    return std::make_shared<HookInC>(hook, "hook notes_in_c", nullptr);
  }

 private:
  static weft_status at(void* context, const weft_moment* moment, uint32_t* requests, weft_error* error) {
    auto& own = *static_cast<NotesInC*>(context);
    std::string name = moment_name(moment->kind);
    if (name.ends_with("_micro_batch")) name += " " + std::to_string(moment->micro_batch);
    own.seen.push_back(name);
    try {
      *requests = own.then(*moment);
    } catch (const Error& wrong) {
      weft_error_set(error, wrong.status(), borrow(wrong.what()));
      return wrong.status();
    }
    return WEFT_OK;
  }
  static weft_status state(void* context, const weft_text_sink* text, weft_error*) {
    const std::string& kept = static_cast<NotesInC*>(context)->kept;
    text->append(text->context, borrow(std::string_view(kept).substr(0, kept.size() / 2)));
    text->append(text->context, borrow(std::string_view(kept).substr(kept.size() / 2)));
    return WEFT_OK;
  }
  static weft_status restore(void* context, weft_str state, weft_error*) {
    static_cast<NotesInC*>(context)->restored = view(state);
    return WEFT_OK;
  }
};

// Returns what asks for `request` at a moment of a step.
inline std::function<uint32_t(const weft_moment&)> asks(uint32_t request, uint32_t kind, int64_t step) {
  return [=](const weft_moment& moment) { return moment.kind == kind && moment.step == step ? request : 0U; };
}

}  // namespace weft::test
