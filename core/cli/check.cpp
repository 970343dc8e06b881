#include <weft/runtime.h>

#include <memory>

#include "base/text.hpp"
#include "engine_verb.hpp"
#include "verbs.hpp"

namespace weft::cli {

// Lists the plugins before it loads the engine, so that it also works if the engine cannot be loaded.
void add_check(CLI::App& application) {
  CLI::App* const verb = application.add_subcommand("check", "Check that this installation is complete");
  const auto as_json = std::make_shared<bool>(false);
  verb->add_flag("--json", *as_json, "Print JSON");
  verb->footer("The exit code is 1 if something is broken.\nExample: weft check");
  verb->callback([as_json] {
    perform_in_engine("check", {{"json", *as_json},
                                {"version", std::string(view(weft_version()))},
                                {"plugins", inspect_plugins().at("plugins")}});
  });
}

}  // namespace weft::cli
