// Verbs that the engine performs: flags become JSON, `-n` starts ranks.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace weft::cli {

// Performs a verb in the engine with these arguments and ends the command.
[[noreturn]] void perform_in_engine(const std::string& verb, const nlohmann::json& arguments);

// Collects flags by the names of the engine's arguments; what was not given is left out.
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

  // --model, --architecture, --adapter.
  EngineVerb& model_flags();
  // --strategy, -o, --booster, --precision, --seed.
  EngineVerb& strategy_flags(const std::string& without);
  // -n: the verb runs on ranks.
  EngineVerb& ranks_flag();

 private:
  void perform();
  std::string name_;
  CLI::App* app_;
  std::shared_ptr<nlohmann::json> arguments_ = std::make_shared<nlohmann::json>(nlohmann::json::object());
  std::shared_ptr<std::optional<int>> num_ranks_ = std::make_shared<std::optional<int>>();
};

}  // namespace weft::cli
