// The base class of strategies in C++, and a macro that defines the plugin. Contracts: weft/strategy.h.
//   class Mine final : public weft::Strategy { ... }; WEFT_STRATEGY(Mine, "mine")
#pragma once

#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "../define_plugin.h"
#include "handles.hpp"
#include "options.hpp"

namespace weft {
inline namespace sdk_v0 {

// Describes one backward. See weft_backward_info.
struct Backward {
  uint32_t index;    // of the micro-batch
  uint32_t count;    // of micro-batches; 0 if unknown
  bool synchronise;  // false under no_sync
};

// The base class of strategies. Its virtual functions are those of weft_strategy_api.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual void describe_mesh(weft_mesh& mesh) { mesh.size[WEFT_AXIS_DATA] = data_ranks(mesh); }
  virtual void configure(Training& training) = 0;
  virtual void before_forward(Unit) {}
  virtual void after_forward(Unit) {}
  virtual void begin_backward(const Backward&) {}
  virtual void end_backward(const Backward&) {}
  virtual void before_backward(Unit) {}
  virtual void gradient_ready(Parameter) {}
  virtual void after_backward(Unit) {}
  virtual void run_step(Step&) {}
  virtual void publish(ShardSink&) const = 0;
  virtual void values_changed() {}
  virtual void zero_gradients() = 0;

  // Those of weft_strategy_flag that hold for a strategy; it declares its own constant.
  static constexpr uint64_t kFlags = 0;

  // Returns how many ranks the tensor and the pipeline axis leave for the data axes.
  uint32_t data_ranks(const weft_mesh& mesh) const {
    return world_size / (mesh.size[WEFT_AXIS_TENSOR] * mesh.size[WEFT_AXIS_PIPELINE]);
  }

  Options options;
  Training training;
  uint32_t world_size = 1, rank = 0;
  std::string precision;
};

// Runs the body of a C function. Returns the status of an exception, whose text it writes to `error`.
template <class Body>
weft_status guard(weft_error* error, const Body& body) noexcept {
  weft_error* const outer = std::exchange(current_error, error);
  weft_status status = WEFT_OK;
  const auto fail = [&](weft_status code, const char* what) {
    status = code;
    host.host->error_set(error, code, str(what));
  };
  try {
    body();
  } catch (const HostFailure& failure) {
    status = failure.status;
  } catch (const Error& failure) {
    fail(failure.status(), failure.what());
  } catch (const c10::Error& failure) {
    fail(WEFT_INTERNAL, failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    fail(WEFT_INTERNAL, failure.what());
  } catch (...) {
    fail(WEFT_UNKNOWN, "an exception that is no std::exception");
  }
  current_error = outer;
  return status;
}

// Makes the weft_strategy_api of the class T.
template <class T>
struct StrategyTable {
  static Strategy& self(weft_strategy* strategy) { return *reinterpret_cast<Strategy*>(strategy); }

  // Returns a function that calls the hook, or NULL if T does not override it: the host then calls nothing.
  template <auto Base, auto Mine, class Wrapper, class Handle>
  static constexpr auto hook() -> weft_status (*)(weft_strategy*, Handle*, weft_error*) {
    if constexpr (std::is_same_v<decltype(Base), decltype(Mine)>) {
      return nullptr;
    } else {
      return [](weft_strategy* s, Handle* h, weft_error* error) noexcept -> weft_status {
        return guard(error, [&] {
          Wrapper argument(h);
          (self(s).*Base)(argument);
        });
      };
    }
  }
  template <auto Base, auto Mine>
  static constexpr auto backward_hook()
      -> weft_status (*)(weft_strategy*, const weft_backward_info*, weft_error*) {
    if constexpr (std::is_same_v<decltype(Base), decltype(Mine)>) {
      return nullptr;
    } else {
      return [](weft_strategy* s, const weft_backward_info* i, weft_error* error) noexcept -> weft_status {
        return guard(error, [&] { (self(s).*Base)(Backward{i->index, i->count, i->synchronise != 0}); });
      };
    }
  }

  static weft_status create(const weft_strategy_arguments* arguments, weft_strategy** own,
                            weft_error* error) noexcept {
    return guard(error, [&] {
      auto created = std::make_unique<T>();
      created->options = Options(arguments->options, arguments->num_options);
      created->world_size = arguments->world_size;
      created->rank = arguments->rank;
      created->precision = text(arguments->precision);
      *own = reinterpret_cast<weft_strategy*>(static_cast<Strategy*>(created.release()));
    });
  }

  // Calls T::estimate(const Options&, uint32_t ranks, const weft_job_shape&, weft_job_estimate&), a static
  // function, if T has it. `ranks` is the number of ranks that the tensor and the pipeline axis leave.
  static constexpr auto estimate_hook()
      -> weft_status (*)(const weft_strategy_arguments*, const weft_job_shape*, weft_job_estimate*,
                         weft_error*) {
    if constexpr (!requires(const Options& o, const weft_job_shape& j, weft_job_estimate& e) {
                    T::estimate(o, uint32_t{1}, j, e);
                  }) {
      return nullptr;
    } else {
      return [](const weft_strategy_arguments* arguments, const weft_job_shape* job, weft_job_estimate* out,
                weft_error* error) noexcept -> weft_status {
        return guard(error, [&] {
          T::estimate(Options(arguments->options, arguments->num_options), arguments->world_size, *job, *out);
        });
      };
    }
  }

  static const weft_strategy_api* api() {
    using S = Strategy;
    static constexpr weft_strategy_api table = {
        sizeof(weft_strategy_api),
        &create,
        [](weft_strategy* s) noexcept { delete reinterpret_cast<Strategy*>(s); },
        [](weft_strategy* s, weft_mesh* mesh, weft_error* error) noexcept -> weft_status {
          return guard(error, [&] { self(s).describe_mesh(*mesh); });
        },
        [](weft_strategy* s, weft_training* training, weft_error* error) noexcept -> weft_status {
          return guard(error, [&] {
            self(s).training = Training(training);
            self(s).configure(self(s).training);
          });
        },
        hook<&S::before_forward, &T::before_forward, Unit, weft_unit>(),
        hook<&S::after_forward, &T::after_forward, Unit, weft_unit>(),
        backward_hook<&S::begin_backward, &T::begin_backward>(),
        backward_hook<&S::end_backward, &T::end_backward>(),
        hook<&S::before_backward, &T::before_backward, Unit, weft_unit>(),
        hook<&S::gradient_ready, &T::gradient_ready, Parameter, weft_param>(),
        hook<&S::after_backward, &T::after_backward, Unit, weft_unit>(),
        hook<&S::run_step, &T::run_step, Step, weft_step>(),
        [](weft_strategy* s, weft_shard_sink* sink, weft_error* error) noexcept -> weft_status {
          return guard(error, [&] {
            ShardSink wrapped(sink);
            self(s).publish(wrapped);
          });
        },
        std::is_same_v<decltype(&S::values_changed), decltype(&T::values_changed)>
            ? nullptr
            : +[](weft_strategy* s, weft_error* error) noexcept -> weft_status {
          return guard(error, [&] { self(s).values_changed(); });
        },
        [](weft_strategy* s, weft_error* error) noexcept -> weft_status {
          return guard(error, [&] { self(s).zero_gradients(); });
        },
        estimate_hook(),
        T::kFlags};
    return &table;
  }
};

}  // namespace sdk_v0
}  // namespace weft

// Defines a plugin with one strategy. Its id and version come from plugin.json through weft_add_plugin().
#define WEFT_STRATEGY(T, strategy_name)                                                                     \
  static const weft_strategy_api* weft_find_strategy(weft_str name) {                                       \
    return weft::text(name) == strategy_name ? weft::StrategyTable<T>::api() : nullptr;                     \
  }                                                                                                         \
  static const weft_strategy_factory weft_strategies = {sizeof(weft_strategy_factory), weft_find_strategy}; \
  static const weft_host* weft_host_of_plugin();                                                            \
  static const void* weft_find_factory(weft_str id) {                                                       \
    if (weft::text(id) != WEFT_FACTORY_STRATEGY) return nullptr;                                            \
    return weft::fetch_tables(weft_host_of_plugin()) ? &weft_strategies : nullptr;                          \
  }                                                                                                         \
  WEFT_DEFINE_PLUGIN(WEFT_TIER_TORCH, WEFT_TORCH_TAG, weft_find_factory)                                    \
  static const weft_host* weft_host_of_plugin() {                                                           \
    return weft_plugin_host;                                                                                \
  }
