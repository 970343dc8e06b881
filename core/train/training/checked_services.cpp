#include "training/checked_services.hpp"

#include <tuple>
#include <type_traits>

#include "base/error_sink.hpp"
#include "plugin_call.hpp"
#include "weft/pools.h"
#include "weft/training.h"

namespace weft {
namespace {

enum class Rule { kThread, kCollective };

template <class Services>
const Services* original = nullptr;

template <auto kMember, Rule kRule>
struct Checked;

// A function of a table that checks the call first.
template <class Services, class Result, class... Arguments, Result (*Services::*kMember)(Arguments...),
          Rule kRule>
struct Checked<kMember, kRule> {
  static inline const char* name = "";

  static Result call(Arguments... arguments) {
    if constexpr (std::is_same_v<Result, weft_status>) {
      // The last argument takes the error.
      weft_error* const error = std::get<sizeof...(Arguments) - 1>(std::tie(arguments...));
      const weft_status status = guarded(error, [] { require_contract(name, kRule == Rule::kCollective); });
      if (status != WEFT_OK) return status;
    } else {
      note_contract(name);
    }
    return (original<Services>->*kMember)(arguments...);
  }
};

template <auto kMember, Rule kRule = Rule::kThread, class Services>
void check(Services& table, const char* name) {
  Checked<kMember, kRule>::name = name;
  table.*kMember = &Checked<kMember, kRule>::call;
}

void check_calls(weft_model_services& t) {
  using S = weft_model_services;
  check<&S::unit_count>(t, "unit_count");
  check<&S::unit>(t, "unit");
  check<&S::unit_index>(t, "unit_index");
  check<&S::unit_name>(t, "unit_name");
  check<&S::unit_params>(t, "unit_params");
  check<&S::param_count>(t, "param_count");
  check<&S::param>(t, "param");
  check<&S::param_info>(t, "param_info");
  check<&S::param_used_by>(t, "param_used_by");
  check<&S::param_read>(t, "param_read");
  check<&S::param_bind>(t, "param_bind");
  check<&S::param_tensor>(t, "param_tensor");
  check<&S::param_gradient>(t, "param_gradient");
  check<&S::param_set_gradient>(t, "param_set_gradient");
  check<&S::buffer_count>(t, "buffer_count");
  check<&S::buffer_name>(t, "buffer_name");
  check<&S::buffer_tensor>(t, "buffer_tensor");
}

void check_calls(weft_memory_services& t) {
  check<&weft_memory_services::resize_storage>(t, "resize_storage");
}

void check_calls(weft_comm_services& t) {
  using S = weft_comm_services;
  check<&S::comm>(t, "comm");
  check<&S::axes>(t, "axes");
  check<&S::subset, Rule::kCollective>(t, "subset");
  check<&S::all_reduce, Rule::kCollective>(t, "all_reduce");
  check<&S::all_gather, Rule::kCollective>(t, "all_gather");
  check<&S::reduce_scatter, Rule::kCollective>(t, "reduce_scatter");
  check<&S::broadcast, Rule::kCollective>(t, "broadcast");
  check<&S::all_to_all, Rule::kCollective>(t, "all_to_all");
  check<&S::send, Rule::kCollective>(t, "send");
  check<&S::recv, Rule::kCollective>(t, "recv");
  check<&S::barrier, Rule::kCollective>(t, "barrier");
}

void check_calls(weft_step_services& t) {
  using S = weft_step_services;
  check<&S::micro_count>(t, "micro_count");
  check<&S::training>(t, "training");
  check<&S::input>(t, "input");
  check<&S::boundary>(t, "boundary");
  check<&S::forward>(t, "forward");
  check<&S::finish>(t, "finish");
  check<&S::backward>(t, "backward");
}

void check_calls(weft_pool_services& t) {
  using S = weft_pool_services;
  check<&S::begin_transfer>(t, "begin_transfer");
  check<&S::end_transfer>(t, "end_transfer");
  check<&S::finish_transfers>(t, "finish_transfers");
}

template <class Services>
const void* checked(const void* plain) {
  static const Services table = [plain] {
    original<Services> = static_cast<const Services*>(plain);
    Services made = *original<Services>;
    check_calls(made);
    return made;
  }();
  return &table;
}

}  // namespace

const void* checked_services(std::string_view id, const void* plain) {
  if (plain == nullptr || !checks_contract()) return plain;
  if (id == WEFT_MODEL_SERVICES) return checked<weft_model_services>(plain);
  if (id == WEFT_COMM_SERVICES) return checked<weft_comm_services>(plain);
  if (id == WEFT_MEMORY_SERVICES) return checked<weft_memory_services>(plain);
  if (id == WEFT_POOL_SERVICES) return checked<weft_pool_services>(plain);
  if (id == WEFT_STEP_SERVICES) return checked<weft_step_services>(plain);
  return plain;
}

}  // namespace weft
