// The base class of strategies in C++, and a macro that defines the plugin. Contracts: weft/strategy.h.
//   class Mine final : public weft::plugin::Strategy { ... }; WEFT_STRATEGY(Mine, "mine")
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "../define_plugin.h"
#include "guard.hpp"
#include "handles.hpp"
#include "options.hpp"

namespace weft::plugin {
inline namespace v0 {

// The forward or backward that a hook belongs to. See weft_pass.
struct Pass {
  Pass() = default;
  explicit Pass(const weft_pass& pass)
      : step(pass.step),
        purpose(pass.purpose),
        micro(pass.micro),
        num_micros(pass.num_micros),
        synchronise(pass.synchronise != 0),
        recomputes(pass.recomputes != 0) {}
  int64_t step = 0;                       // how many updates the training has made
  uint32_t purpose = WEFT_PASS_TRAINING;  // WEFT_PASS_*
  uint32_t micro = 0;                     // the index of the micro-batch
  uint32_t num_micros = 0;                // 0 if unknown
  bool synchronise = true;                // false under no_sync
  bool recomputes = false;                // in before_backward: the unit's forward runs again after it
};

// How often replicas are merged, and the axes over which they differ until then. See
// weft_strategy_api::merge_interval.
struct MergeInterval {
  uint64_t updates = 1;
  uint32_t axes = 0;
};

// The base class of strategies. Its virtual functions are those of weft_strategy_api.
class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual void describe_mesh(const Mesh& mesh) { mesh.set_size("data", mesh.ranks_left()); }
  virtual void configure(Training& training) = 0;
  virtual void before_forward(Unit, const Pass&) {}
  virtual void after_forward(Unit, const Pass&) {}
  virtual void begin_backward(const Pass&) {}
  virtual void end_backward(const Pass&) {}
  virtual void before_backward(Unit, const Pass&) {}
  virtual void gradient_ready(Parameter, const Pass&) {}
  virtual void after_backward(Unit, const Pass&) {}
  virtual void run_step(Step&) {}
  virtual void publish(ShardSink&) const = 0;
  virtual void values_changed(uint32_t /*reason*/) {}
  virtual void zero_gradients() = 0;
  virtual MergeInterval merge_interval() { return {}; }
  virtual void merge_replicas() {}

  // Those of WEFT_STRATEGY_* that hold for a strategy; it declares its own constant.
  static constexpr uint64_t kFlags = 0;

  std::string name;  // under which the strategy was found
  Options options;
  Training training;
  uint32_t world_size = 1, rank = 0;
  std::string precision;
};

// Makes the weft_strategy_api of the class T.
template <class T>
struct StrategyTable {
  static Strategy& self(weft_strategy* strategy) { return *reinterpret_cast<Strategy*>(strategy); }

  // Returns a function that calls the hook, or NULL if T does not override it: the host then calls nothing.
  template <auto Base, auto Mine, class Wrapper, class Handle>
  static constexpr auto hook() -> weft_status (*)(weft_strategy*, Handle*, const weft_pass*, weft_error*) {
    if constexpr (std::is_same_v<decltype(Base), decltype(Mine)>) {
      return nullptr;
    } else {
      return
          [](weft_strategy* s, Handle* h, const weft_pass* pass, weft_error* error) noexcept -> weft_status {
            return guard(error, [&] { (self(s).*Base)(Wrapper(h), Pass(*pass)); });
          };
    }
  }
  template <auto Base, auto Mine>
  static constexpr auto backward_hook() -> weft_status (*)(weft_strategy*, const weft_pass*, weft_error*) {
    if constexpr (std::is_same_v<decltype(Base), decltype(Mine)>) {
      return nullptr;
    } else {
      return [](weft_strategy* s, const weft_pass* pass, weft_error* error) noexcept -> weft_status {
        return guard(error, [&] { (self(s).*Base)(Pass(*pass)); });
      };
    }
  }

  static constexpr auto run_step_hook() -> weft_status (*)(weft_strategy*, weft_step*, weft_error*) {
    if constexpr (std::is_same_v<decltype(&Strategy::run_step), decltype(&T::run_step)>) {
      return nullptr;
    } else {
      return [](weft_strategy* s, weft_step* step, weft_error* error) noexcept -> weft_status {
        return guard(error, [&] {
          Step wrapped(step);
          self(s).run_step(wrapped);
        });
      };
    }
  }

  static weft_status create(const weft_strategy_api*, const weft_strategy_arguments* arguments,
                            weft_strategy** own, weft_error* error) noexcept {
    return guard(error, [&] {
      auto created = std::make_unique<T>();
      created->name = text(arguments->name);
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
      -> weft_status (*)(const weft_strategy_api*, const weft_strategy_arguments*, const weft_job_shape*,
                         weft_job_estimate*, weft_error*) {
    if constexpr (!requires(const Options& o, const weft_job_shape& j, weft_job_estimate& e) {
                    T::estimate(o, uint32_t{1}, j, e);
                  }) {
      return nullptr;
    } else {
      return [](const weft_strategy_api*, const weft_strategy_arguments* arguments, const weft_job_shape* job,
                weft_job_estimate* out, weft_error* error) noexcept -> weft_status {
        return guard(error, [&] {
          T::estimate(Options(arguments->options, arguments->num_options), arguments->world_size, *job, *out);
        });
      };
    }
  }

  // Both functions of merges, or neither.
  static constexpr bool kMerges =
      !std::is_same_v<decltype(&Strategy::merge_interval), decltype(&T::merge_interval)>;
  static_assert(kMerges == !std::is_same_v<decltype(&Strategy::merge_replicas), decltype(&T::merge_replicas)>,
                "override merge_interval and merge_replicas together");
  static weft_status merge_interval(weft_strategy* s, uint64_t* updates, uint32_t* axes,
                                    weft_error* error) noexcept {
    return guard(error, [&] {
      const MergeInterval interval = self(s).merge_interval();
      *updates = interval.updates;
      *axes = interval.axes;
    });
  }
  static weft_status merge_replicas(weft_strategy* s, weft_error* error) noexcept {
    return guard(error, [&] { self(s).merge_replicas(); });
  }

  static const weft_strategy_api* api() {
    using S = Strategy;
    static constexpr weft_strategy_api table = {
        sizeof(weft_strategy_api),
        nullptr,
        T::kFlags,
        &create,
        [](weft_strategy* s) noexcept { delete reinterpret_cast<Strategy*>(s); },
        [](weft_strategy* s, weft_mesh* mesh, weft_error* error) noexcept -> weft_status {
          return guard(error, [&] { self(s).describe_mesh(Mesh(mesh)); });
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
        run_step_hook(),
        [](weft_strategy* s, uint32_t reason, weft_shard_sink* sink,
           weft_error* error) noexcept -> weft_status {
          return guard(error, [&] {
            ShardSink wrapped(sink, reason);
            self(s).publish(wrapped);
          });
        },
        std::is_same_v<decltype(&S::values_changed), decltype(&T::values_changed)>
            ? nullptr
            : +[](weft_strategy* s, uint32_t reason, weft_error* error) noexcept -> weft_status {
          return guard(error, [&] { self(s).values_changed(reason); });
        },
        [](weft_strategy* s, weft_error* error) noexcept -> weft_status {
          return guard(error, [&] { self(s).zero_gradients(); });
        },
        estimate_hook(),
        kMerges ? &merge_interval : nullptr,
        kMerges ? &merge_replicas : nullptr};
    return &table;
  }
};

}  // namespace v0
}  // namespace weft::plugin

// The tier of a strategy, and the libtorch that it must match.
#ifdef WEFT_TORCH_MIN
#define WEFT_STRATEGY_TIER WEFT_TIER_STABLE
#define WEFT_STRATEGY_TORCH_TAG ""
#else
#define WEFT_STRATEGY_TIER WEFT_TIER_TORCH
#define WEFT_STRATEGY_TORCH_TAG WEFT_TORCH_TAG
#endif

// Defines a plugin with one strategy. Its id and version come from plugin.json through weft_add_plugin().
#define WEFT_STRATEGY(T, strategy_name)                                                                     \
  static const weft_strategy_api* weft_find_strategy(const weft_strategy_factory*, weft_str name) {         \
    return weft::plugin::text(name) == strategy_name ? weft::plugin::StrategyTable<T>::api() : nullptr;     \
  }                                                                                                         \
  static const weft_strategy_factory weft_strategies = {sizeof(weft_strategy_factory), weft_find_strategy}; \
  static const weft_host* weft_host_of_plugin();                                                            \
  static const void* weft_find_factory(const weft_plugin*, weft_str id) {                                   \
    if (weft::plugin::text(id) != WEFT_FACTORY_STRATEGY) return nullptr;                                    \
    return weft::plugin::fetch_tables(weft_host_of_plugin()) ? &weft_strategies : nullptr;                  \
  }                                                                                                         \
  WEFT_DEFINE_PLUGIN(WEFT_STRATEGY_TIER, WEFT_STRATEGY_TORCH_TAG, weft_find_factory)                        \
  static const weft_host* weft_host_of_plugin() {                                                           \
    return weft_plugin_host;                                                                                \
  }
