// The verbs that run in the engine: their flags become JSON arguments, and `-n` launches ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace weft::cli {

// Converts the seconds of a flag as milliseconds_of() does, but throws UsageError.
std::chrono::milliseconds milliseconds(const char* flag, double seconds);

// Refuses an empty text, which CLI11 would take for 0, or for a flag that is left out.
inline const CLI::Validator kNumber(
    [](const std::string& text) { return std::string(text.empty() ? "is empty, must be a number" : ""); },
    "");

// Adds a flag for a number that may be left out. `value` must outlive the parsing.
template <class T>
CLI::Option* add_optional(CLI::App& app, const std::string& flags, std::optional<T>& value,
                          const std::string& help) {
  return app
      .add_option_function<T>(
          flags, [&value](const T& given) { value = given; }, help)
      ->check(kNumber);
}

// Runs a verb in the engine and ends the command with its exit code.
[[noreturn]] void perform_in_engine(const std::string& verb, const nlohmann::json& arguments);

// One verb with its flags. A flag that is given becomes the argument `key` of the engine.
class EngineVerb {
 public:
  EngineVerb(CLI::App& application, std::string name, const std::string& description,
             const std::string& footer);
  CLI::App& app() { return *app_; }

  EngineVerb& text(const std::string& flags, const char* key, const std::string& help, bool required = false);
  EngineVerb& integer(const std::string& flags, const char* key, const std::string& help);
  EngineVerb& real(const std::string& flags, const char* key, const std::string& help);
  EngineVerb& flag(const std::string& flags, const char* key, const std::string& help);
  EngineVerb& integers(const std::string& flags, const char* key, const std::string& help);  // 1,2,3
  EngineVerb& reals(const std::string& flags, const char* key, const std::string& help);     // 0.9,0.999
  EngineVerb& words(const std::string& flags, const char* key, const std::string& help);     // repeated

  // Adds --data, --token-type and --sequence-length.
  EngineVerb& data_flags();
  // Adds --device.
  EngineVerb& device_flag();
  // Adds --model, --architecture and --adapter.
  EngineVerb& model_flags();
  // Adds --allow-missing, for verbs that read weights. `otherwise` describes the default.
  EngineVerb& allow_missing_flag(const std::string& otherwise);
  // Adds --strategy, -o, --booster, --precision, --mixed-precision and --seed. `without` describes the
  // default of --strategy.
  EngineVerb& strategy_flags(const std::string& without);
  // Adds -n, which runs the verb on several ranks, --grace and --timeout.
  EngineVerb& ranks_flag();

 private:
  void perform();
  std::string name_;
  CLI::App* app_;
  std::shared_ptr<nlohmann::json> arguments_ = std::make_shared<nlohmann::json>(nlohmann::json::object());
  struct Launch {
    std::optional<int> num_ranks;
    std::optional<double> grace;  // seconds
  };
  std::shared_ptr<Launch> launch_ = std::make_shared<Launch>();
};

}  // namespace weft::cli
