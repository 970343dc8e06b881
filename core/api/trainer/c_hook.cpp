#include "trainer/c_hook.hpp"

#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "base/appended.hpp"
#include "base/error_sink.hpp"
#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "tokenizer/utf8.hpp"

namespace weft {

namespace {

constexpr std::array<const char*, WEFT_MOMENTS> kMoments = {
    "begin",        "before_epoch", "before_step", "before_micro_batch", "after_micro_batch", "before_update",
    "after_update", "after_step",   "after_epoch", "before_evaluation",  "after_evaluation",  "before_save",
    "after_save",   "end_step",     "end"};

// Returns the bits of the moments from `first` to `last`.
constexpr uint64_t moments_between(uint32_t first, uint32_t last) {
  return WEFT_MOMENT_BIT(last + 1) - WEFT_MOMENT_BIT(first);
}

struct Request {
  uint32_t bit;
  const char* name;
  uint64_t moments;  // at which it has an effect
  void (*perform)(Trainer& trainer);
};
constexpr std::array<Request, 5> kRequests = {
    {{WEFT_ASK_STOP, "WEFT_ASK_STOP", moments_between(WEFT_MOMENT_BEGIN, WEFT_MOMENT_AFTER_EVALUATION),
      [](Trainer& trainer) { trainer.stop(); }},
     {WEFT_ASK_SKIP, "WEFT_ASK_SKIP",
      WEFT_MOMENT_BIT(WEFT_MOMENT_BEFORE_STEP) | WEFT_MOMENT_BIT(WEFT_MOMENT_BEFORE_UPDATE),
      [](Trainer& trainer) { trainer.skip(); }},
     {WEFT_ASK_EVALUATE, "WEFT_ASK_EVALUATE",
      moments_between(WEFT_MOMENT_BEFORE_STEP, WEFT_MOMENT_AFTER_EPOCH),
      [](Trainer& trainer) { trainer.ask_for_evaluation(); }},
     {WEFT_ASK_SAVE, "WEFT_ASK_SAVE", moments_between(WEFT_MOMENT_BEFORE_STEP, WEFT_MOMENT_AFTER_EVALUATION),
      [](Trainer& trainer) { trainer.ask_for_save(); }},
     {WEFT_ASK_CHECK_STEP, "WEFT_ASK_CHECK_STEP", WEFT_MOMENT_BIT(WEFT_MOMENT_BEFORE_STEP),
      [](Trainer& trainer) { trainer.check_step(); }}}};

// Returns "before_step, before_update".
std::string moment_names(uint64_t moments) {
  std::vector<const char*> names;
  for (uint32_t kind = 0; kind < WEFT_MOMENTS; ++kind)
    if ((moments & WEFT_MOMENT_BIT(kind)) != 0) names.push_back(kMoments.at(kind));
  return fmt::format("{}", fmt::join(names, ", "));
}

uint32_t flags_of(const Trainer& trainer) {
  uint32_t flags = 0;
  if (trainer.ends_epoch()) flags |= WEFT_STEP_ENDS_EPOCH;
  if (trainer.is_last_step()) flags |= WEFT_STEP_IS_LAST;
  if (trainer.stopping()) flags |= WEFT_STEP_STOPS;
  if (trainer.is_evaluated()) flags |= WEFT_STEP_IS_EVALUATED;
  return flags;
}

}  // namespace

weft_step_result result_in_c(const StepResult& result) {
  return {sizeof(weft_step_result),
          result.index,
          result.loss,
          result.grad_norm.value_or(-1),
          result.lr,
          result.seconds,
          result.tokens_per_second,
          result.auxiliary_loss.value_or(0),
          result.stop ? 1U : 0U,
          result.updated ? 1U : 0U,
          result.loss_scale.value_or(0)};
}

MomentInC::MomentInC(const Trainer& trainer, uint32_t kind, bool has_result, uint32_t micro_batch,
                     const std::string& folder)
    : result_(result_in_c(trainer.result())) {
  if (trainer.evaluation())
    for (const auto& [name, value] : *trainer.evaluation())
      values_.push_back(
          {borrow(name), value.value_or(std::numeric_limits<double>::quiet_NaN()), value ? 1U : 0U, 0});
  const World& world = trainer.booster().world();
  moment.struct_size = sizeof(moment);
  moment.kind = kind;
  moment.flags = flags_of(trainer);
  moment.step = trainer.step();
  moment.total_steps = trainer.total_steps();
  moment.epoch = trainer.epoch();
  moment.micro_batch = micro_batch;
  moment.rank = static_cast<uint32_t>(world.rank());
  moment.world_size = static_cast<uint32_t>(world.size());
  moment.result = has_result ? &result_ : nullptr;
  moment.evaluation = values_.data();
  moment.num_evaluation = values_.size();
  moment.evaluated_step = trainer.evaluated_step();
  moment.folder = borrow(folder);
}

const char* moment_name(uint32_t kind) {
  return kMoments.at(kind);
}

void check_requests(uint32_t requests, uint32_t kind, const std::string& who) {
  for (const Request& request : kRequests) {
    if ((requests & request.bit) == 0) continue;
    if ((request.moments & WEFT_MOMENT_BIT(kind)) == 0)
      fail(WEFT_INVALID_ARGUMENT, "{} asks for {} at {}, where it has no effect; ask at {}", who,
           request.name, kMoments.at(kind), moment_names(request.moments));
    requests &= ~request.bit;
  }
  if (requests != 0)
    fail(WEFT_INVALID_ARGUMENT, "{} asks at {} for {:#x}, which is no request of this Weft", who,
         kMoments.at(kind), requests);
}

void perform_requests(Trainer& trainer, uint32_t requests, uint32_t kind, const std::string& who) {
  check_requests(requests, kind, who);
  for (const Request& request : kRequests)
    if ((requests & request.bit) != 0) request.perform(trainer);
}

HookInC::HookInC(const weft_hook& hook, std::string who, std::shared_ptr<const void> owner)
    : owner_(std::move(owner)),
      hook_(known_part(who.c_str(), hook, WEFT_END_OF(weft_hook, restore))),
      who_(std::move(who)) {
  const auto refuse = [&](const std::string& what) { fail(WEFT_INVALID_ARGUMENT, "{}: {}", who_, what); };
  if (hook_.name.size == 0 || hook_.name.data == nullptr) refuse("its name is empty");
  name_ = view(hook_.name);
  if (!tokenizer::is_utf8(name_)) refuse("its name is not UTF-8");
  if (const uint64_t unknown = hook_.moments & ~(WEFT_MOMENT_BIT(WEFT_MOMENTS) - 1); unknown != 0)
    refuse(fmt::format("its moments have the bit {}, which is no moment of this Weft",
                       std::countr_zero(unknown)));
  if (hook_.moments != 0 && hook_.at == nullptr) refuse("it has moments, but its function at is null");
  if ((hook_.state == nullptr) != (hook_.restore == nullptr))
    refuse(fmt::format("its function {} is null, but it has the other of state and restore",
                       hook_.state == nullptr ? "state" : "restore"));
}

void HookInC::begin(Trainer& trainer) {
  has_result_ = false;
  failure_ = nullptr;
  call(trainer, WEFT_MOMENT_BEGIN);
}

void HookInC::before_step(Trainer& trainer) {
  has_result_ = false;
  call(trainer, WEFT_MOMENT_BEFORE_STEP);
}

void HookInC::after_step(Trainer& trainer) {
  has_result_ = true;
  call(trainer, WEFT_MOMENT_AFTER_STEP);
}

void HookInC::call(Trainer& trainer, uint32_t kind, uint32_t micro_batch, const std::string& folder) {
  const bool is_combined = kind <= WEFT_MOMENT_AFTER_EVALUATION && trainer.booster().world().size() > 1;
  if (failure_ && !is_combined) std::rethrow_exception(failure_);
  if (failure_ || (hook_.moments & WEFT_MOMENT_BIT(kind)) == 0) return;
  try {
    call_now(trainer, kind, micro_batch, folder);
  } catch (...) {
    if (!is_combined) throw;
    failure_ = std::current_exception();
  }
}

void HookInC::call_now(Trainer& trainer, uint32_t kind, uint32_t micro_batch, const std::string& folder) {
  const MomentInC described(trainer, kind, has_result_, micro_batch, folder);
  uint32_t requests = 0;
  ErrorSink error;
  error.check(hook_.at(hook_.context, &described.moment, &requests, error), who_);
  if ((requests & WEFT_ASK_STOP) != 0 && !trainer.stopping())
    trainer.booster().world().print_on_master(fmt::format("{} stops the training after step {} of {}", who_,
                                                          trainer.step(), trainer.total_steps()));
  perform_requests(trainer, requests, kind, who_);
}

std::string HookInC::state() const {
  if (hook_.state == nullptr) return {};
  AppendedText text;
  const weft_text_sink sink = sink_of(text);
  ErrorSink error;
  error.check(hook_.state(hook_.context, &sink, error), who_);
  std::string state = text.take();
  if (!tokenizer::is_utf8(state)) fail(WEFT_FAILED_PRECONDITION, "{}: its state is not UTF-8", who_);
  return state;
}

void HookInC::restore(const std::string& state) {
  if (hook_.restore == nullptr)
    fail(WEFT_INVALID_ARGUMENT, "{}: the training was saved with a state of this hook, but it has none",
         who_);
  ErrorSink error;
  error.check(hook_.restore(hook_.context, borrow(state), error), who_);
}

}  // namespace weft
