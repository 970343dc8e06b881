// A hook of the C API (weft/hook.h) as a Hook of a Trainer.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "weft/hook.h"
#include "weft/trainer.hpp"

namespace weft {

// Returns the results of a step as C has them.
weft_step_result result_in_c(const StepResult& result);

// A moment of a training as C has it. It refers to the trainer and to `folder`, which must outlive it.
struct MomentInC {
  // `has_result`: the step that runs, or has run last, has its results.
  MomentInC(const Trainer& trainer, uint32_t kind, bool has_result, uint32_t micro_batch = 0,
            const std::string& folder = "");
  MomentInC(const MomentInC&) = delete;

  weft_moment moment = {};

 private:
  weft_step_result result_ = {};
  std::vector<weft_evaluation_value> values_;
};

// Calls the functions of a weft_hook. Where ranks combine their requests afterwards, up to after_evaluation,
// a failure on one of several ranks is kept until then, so that all of them end with its text. A hook that
// has failed is not called any more.
class HookInC final : public Hook {
 public:
  // `who` begins messages, and `owner` keeps what the hook points to. Throws INVALID_ARGUMENT for a hook that
  // breaks the rules of weft/hook.h.
  HookInC(const weft_hook& hook, std::string who, std::shared_ptr<const void> owner);

  std::string name() const override { return name_; }
  // From before a save on, nothing can be asked for.
  bool asks_alone() const override {
    return (hook_.moments & (WEFT_MOMENT_BIT(WEFT_MOMENT_BEFORE_SAVE) - 1)) != 0;
  }
  uint64_t moments() const { return hook_.moments; }
  std::exception_ptr failure() const override { return failure_; }

  void begin(Trainer& trainer) override;
  void before_epoch(Trainer& trainer) override { call(trainer, WEFT_MOMENT_BEFORE_EPOCH); }
  void before_step(Trainer& trainer) override;
  void before_micro_batch(Trainer& trainer, uint32_t micro_batch) override {
    call(trainer, WEFT_MOMENT_BEFORE_MICRO_BATCH, micro_batch);
  }
  void after_micro_batch(Trainer& trainer, uint32_t micro_batch) override {
    call(trainer, WEFT_MOMENT_AFTER_MICRO_BATCH, micro_batch);
  }
  void before_update(Trainer& trainer) override { call(trainer, WEFT_MOMENT_BEFORE_UPDATE); }
  void after_update(Trainer& trainer) override { call(trainer, WEFT_MOMENT_AFTER_UPDATE); }
  void after_step(Trainer& trainer) override;
  void after_epoch(Trainer& trainer) override { call(trainer, WEFT_MOMENT_AFTER_EPOCH); }
  void before_evaluation(Trainer& trainer) override { call(trainer, WEFT_MOMENT_BEFORE_EVALUATION); }
  void after_evaluation(Trainer& trainer) override { call(trainer, WEFT_MOMENT_AFTER_EVALUATION); }
  void before_save(Trainer& trainer, const std::string& folder) override {
    call(trainer, WEFT_MOMENT_BEFORE_SAVE, 0, folder);
  }
  void after_save(Trainer& trainer, const std::string& folder) override {
    call(trainer, WEFT_MOMENT_AFTER_SAVE, 0, folder);
  }
  void end_step(Trainer& trainer) override { call(trainer, WEFT_MOMENT_END_STEP); }
  void end(Trainer& trainer) override { call(trainer, WEFT_MOMENT_END); }

  std::string state() const override;
  void restore(const std::string& state) override;

 private:
  void call(Trainer& trainer, uint32_t kind, uint32_t micro_batch = 0, const std::string& folder = "");
  void call_now(Trainer& trainer, uint32_t kind, uint32_t micro_batch, const std::string& folder);

  std::shared_ptr<const void> owner_;  // destroyed last
  weft_hook hook_;
  std::string name_, who_;
  bool has_result_ = false;
  std::exception_ptr failure_;
};

// Performs what a hook asks for at a moment. Throws INVALID_ARGUMENT, beginning with `who`, for a request
// that has no effect there, and for an unknown one.
void perform_requests(Trainer& trainer, uint32_t requests, uint32_t kind, const std::string& who);
// Throws like that, and performs nothing.
void check_requests(uint32_t requests, uint32_t kind, const std::string& who);
// Returns the name of a moment, "before_step".
const char* moment_name(uint32_t kind);

}  // namespace weft
