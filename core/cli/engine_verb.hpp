// The verbs that run in the engine: their flags become JSON arguments, and `-n` launches ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>
#include <weft/error.hpp>

#include "host/launch/run_ranks.hpp"
#include "numbers.hpp"
#include "verbs.hpp"

namespace weft::cli {

// The numbers that -n takes.
inline constexpr IntegerRange kRanksPerHost = {1, launch::kMostRanksPerHost};

// Converts the seconds of a flag as milliseconds_of() does, but throws UsageError.
std::chrono::milliseconds milliseconds(const char* flag, double seconds);

// Returns what `action` returns. Throws UsageError where `action` throws Error with INVALID_ARGUMENT.
template <class Action>
auto with_usage_errors(const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    if (error.status() == WEFT_INVALID_ARGUMENT) throw UsageError(error.what());
    throw;
  }
}

// Ends a verb with an error: that of the command or, in a rank, that of the job.
[[noreturn]] void fail_verb(weft_status status, const std::string& text);

// Runs a verb in the engine and ends the command with its exit code.
[[noreturn]] void perform_in_engine(const std::string& verb, const nlohmann::json& arguments);

// One verb with its flags. A flag that is given becomes the argument `key` of the engine, which knows the
// verb as `engine_verb` where that is not its name.
class EngineVerb {
 public:
  EngineVerb(CLI::App& application, std::string name, const std::string& description,
             const std::string& footer, const char* engine_verb = nullptr);
  CLI::App& app() { return *app_; }

  EngineVerb& text(const std::string& flags, const char* key, const std::string& help, bool required = false);
  EngineVerb& integer(const std::string& flags, const char* key, const std::string& help);
  EngineVerb& real(const std::string& flags, const char* key, const std::string& help);
  EngineVerb& flag(const std::string& flags, const char* key, const std::string& help);
  // 1,2,3, or "" if the list `may_be_empty`
  EngineVerb& integers(const std::string& flags, const char* key, const std::string& help,
                       bool may_be_empty = false);
  EngineVerb& reals(const std::string& flags, const char* key, const std::string& help);  // 0.9,0.999
  EngineVerb& words(const std::string& flags, const char* key, const std::string& help,
                    bool required = false);  // repeated

  // Adds --data and the flags that say how it is read, such as --sequence-length and --tokenizer.
  EngineVerb& data_flags();
  // Adds --workers.
  EngineVerb& loader_flags();
  // Adds --objective and its settings.
  EngineVerb& objective_flags();
  // Adds --device, --deterministic and --allow-tf32.
  EngineVerb& device_flags();
  // Adds --model, --architecture and --adapter.
  EngineVerb& model_flags();
  // Adds --allow-missing, for verbs that read weights. `otherwise` describes the default.
  EngineVerb& allow_missing_flag(const std::string& otherwise);
  // Adds --strategy, -o, --booster, --precision, --mixed-precision and --seed. `without` describes the
  // default of --strategy.
  EngineVerb& strategy_flags(const std::string& without);
  // Adds -n, which runs the verb on several ranks, --grace and --timeout. A verb that `saves` has a use for
  // --grace under every launcher.
  EngineVerb& ranks_flag(bool saves = false);

 private:
  void perform();
  // Returns a function that makes its value the argument `key`.
  template <class T>
  auto keep(const char* key) const {
    return [arguments = arguments_, key](const T& value) { (*arguments)[key] = value; };
  }

  std::string name_;
  CLI::App* app_;
  std::shared_ptr<nlohmann::json> arguments_ = std::make_shared<nlohmann::json>(nlohmann::json::object());
  struct Launch {
    std::optional<int> num_ranks;
    std::optional<std::chrono::milliseconds> grace;
    bool grace_is_of_launcher = false;  // it needs -n
  };
  std::shared_ptr<Launch> launch_ = std::make_shared<Launch>();
};

}  // namespace weft::cli
