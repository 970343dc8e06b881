#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text.hpp"
#include "weft/hooks.hpp"

namespace weft {

EarlyStopping::EarlyStopping(std::string key, int64_t patience) : key_(std::move(key)), patience_(patience) {
  if (patience < 1)
    fail(WEFT_INVALID_ARGUMENT, "EarlyStopping: the patience is {} evaluations, must be more than 0",
         patience);
}

void EarlyStopping::begin(Trainer& trainer) {
  trainer.require_key(key_);
}

void EarlyStopping::after_evaluation(Trainer& trainer) {
  const std::optional<double> value = trainer.evaluation()->at(key_);
  if (is_better(key_, value, best_)) {
    best_ = value;
    waited_ = 0;
    return;
  }
  if (++waited_ < patience_) return;
  trainer.booster().world().print_on_master(fmt::format(
      "{} has not become better than {} in {} evaluation{}: the training stops after step {}", key_,
      best_ ? fmt::format("{:.6g}", *best_) : "undefined", waited_, waited_ == 1 ? "" : "s", trainer.step()));
  trainer.stop();
}

std::string EarlyStopping::state() const {
  return nlohmann::json{
      {"key", key_}, {"waited", waited_}, {"best", best_ ? nlohmann::json(*best_) : nlohmann::json()}}
      .dump();
}

void EarlyStopping::restore(const std::string& state) {
  const nlohmann::json saved = parse_json(state, "the saved state of early_stopping");
  if (saved.value("key", "") != key_) return;  // another key begins anew
  waited_ = saved.at("waited").get<int64_t>();
  best_ = saved.at("best").is_null() ? std::nullopt : std::optional(saved.at("best").get<double>());
}

}  // namespace weft
