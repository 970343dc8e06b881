#include "host/engine.hpp"

#include <atomic>
#include <mutex>

#include "base/dynamic_library.hpp"
#include "base/text.hpp"
#include "host/load_error.hpp"

namespace weft::host {
namespace {

std::atomic<const weft_engine_table*> loaded_engine = nullptr;

const weft_engine_table* open_engine(const HostFacts& facts) {
  const std::string path = facts.engine.string();
  std::error_code code;
  if (!std::filesystem::exists(facts.engine, code)) {
    throw LoadError(Stage::kDlopen, WEFT_NOT_FOUND,
                    fmt::format("this needs Weft's engine, but there is no {}; install Weft whole", path));
  }
  void* symbol = nullptr;
  try {
    symbol = DynamicLibrary(facts.engine).find(WEFT_ENGINE_SYMBOL);
  } catch (const std::exception& error) {
    throw LoadError(Stage::kDlopen, WEFT_FAILED_PRECONDITION,
                    fmt::format("Weft's engine {} does not load: {}; is libtorch in {}?", path, error.what(),
                                (facts.engine.parent_path() / "weft/torch").string()));
  }
  const weft_engine_table* table = symbol == nullptr ? nullptr : reinterpret_cast<weft_engine_fn>(symbol)();
  if (table == nullptr || !WEFT_HAS(table, weft_engine_table, services)) {
    throw LoadError(
        Stage::kEntry, WEFT_FAILED_PRECONDITION,
        fmt::format("{} is not the engine of this Weft: it has no table behind {}; install Weft again", path,
                    WEFT_ENGINE_SYMBOL));
  }
  if (view(table->build_id) != facts.build_id) {
    throw LoadError(Stage::kNegotiate, WEFT_FAILED_PRECONDITION,
                    fmt::format("{} comes from build {}, libweft from build {}; install both from one build",
                                path, view(table->build_id), facts.build_id));
  }
  return table;
}

}  // namespace

const weft_engine_table& load_engine(const HostFacts& facts) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (loaded_engine == nullptr) loaded_engine = open_engine(facts);
  return *loaded_engine;
}

const weft_engine_table* engine_if_loaded() {
  return loaded_engine;
}

}  // namespace weft::host
