#include "plugins/torch_fsdp/traced.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "base/error_sink.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/options.hpp"
#include "training/services.hpp"
#include "weft/host.h"
#include "weft/plugin.h"
#include "weft/runtime.h"

namespace weft::test {

namespace {

const auto* const model =
    static_cast<const weft_model_services*>(training_services(borrow(WEFT_MODEL_SERVICES)));
const weft_strategy_api* plugin = nullptr;  // the table of torch_fsdp itself
std::vector<std::string> hooks;             // with what each of them started

void note(const std::string& collective, const weft_at_tensor* input) {
  const auto elements = reinterpret_cast<const at::Tensor*>(input)->numel();
  const bool first = hooks.back().find(':') == std::string::npos;
  hooks.back() += fmt::format("{} {} {}", first ? ":" : ",", collective, elements);
}

// The host's communicators, listened to.
const weft_comm_services* listening() {
  static const auto* const real =
      static_cast<const weft_comm_services*>(training_services(borrow(WEFT_COMM_SERVICES)));
  static const weft_comm_services table = [] {
    weft_comm_services t = *real;
    t.all_gather = [](weft_comm* c, const weft_at_tensor* out, const weft_at_tensor* in, weft_work** own,
                      weft_error* error) {
      note("all_gather", in);
      return real->all_gather(c, out, in, own, error);
    };
    t.reduce_scatter = [](weft_comm* c, const weft_at_tensor* out, const weft_at_tensor* in, uint32_t op,
                          weft_work** own, weft_error* error) {
      note("reduce_scatter", in);
      return real->reduce_scatter(c, out, in, op, own, error);
    };
    t.all_reduce = [](weft_comm* c, const weft_at_tensor* inout, uint32_t op, weft_work** own,
                      weft_error* error) {
      note("all_reduce", inout);
      return real->all_reduce(c, inout, op, own, error);
    };
    return t;
  }();
  return &table;
}

// The strategy, its hooks written down.
const weft_strategy_api* listened() {
  static weft_strategy_api table;
  table = *plugin;
#define WEFT_LISTEN(slot)                                                                               \
  table.slot = [](weft_strategy* strategy, weft_unit* unit, const weft_pass* pass, weft_error* error) { \
    hooks.push_back(#slot " " + std::string(view(model->unit_name(unit))));                             \
    return plugin->slot(strategy, unit, pass, error);                                                   \
  }
  WEFT_LISTEN(before_forward);
  WEFT_LISTEN(after_forward);
  WEFT_LISTEN(before_backward);
  WEFT_LISTEN(after_backward);
#undef WEFT_LISTEN
  table.begin_backward = [](weft_strategy* strategy, const weft_pass* pass, weft_error* error) {
    hooks.push_back("begin_backward");
    if (plugin->begin_backward == nullptr) return WEFT_OK;
    return plugin->begin_backward(strategy, pass, error);
  };
  table.end_backward = [](weft_strategy* strategy, const weft_pass* pass, weft_error* error) {
    hooks.push_back("end_backward");
    return plugin->end_backward(strategy, pass, error);
  };
  return &table;
}

void load() {
  static const weft_host host = {sizeof(weft_host), &weft_error_set, [](uint32_t, weft_str, weft_str) {},
                                 [](weft_str id) -> const void* {
                                   if (view(id) == WEFT_COMM_SERVICES) return listening();
                                   return training_services(id);
                                 }};
  void* const library = dlopen(WEFT_TORCH_FSDP_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(WEFT_NOT_FOUND, dlerror());
  const auto query = reinterpret_cast<weft_plugin_query_fn>(dlsym(library, WEFT_QUERY_SYMBOL));
  weft_query_request request{};
  request.struct_size = sizeof(request);
  request.abi_major = WEFT_ABI_MAJOR;
  request.abi_minor_min = request.abi_minor_max = WEFT_ABI_MINOR;
  request.host = &host;
  weft_query_reply reply{};
  reply.struct_size = sizeof(reply);
  ErrorSink error;
  error.check(query(&request, &reply, error));
  const auto* const factory = static_cast<const weft_strategy_factory*>(
      reply.plugin->get_factory(reply.plugin, borrow(WEFT_FACTORY_STRATEGY)));
  plugin = factory->find(factory, borrow("torch_fsdp"));
}

Options complete(const std::string& given) {
  const std::filesystem::path manifest =
      std::filesystem::path(WEFT_TORCH_FSDP_LIBRARY).parent_path() / "plugin.json";
  const nlohmann::json parsed = parse_json(read_file(manifest, 1 << 20), manifest.string());
  return Options(OptionTable(parsed.at("options"), manifest.string()), parse_json(given, "options"),
                 "torch_fsdp");
}

}  // namespace

Traced trace(World world, std::shared_ptr<nn::Model> model, const std::string& options,
             TrainingOptions training_options) {
  if (plugin == nullptr) load();
  hooks = {"configure"};
  const Options all = complete(options);
  return {std::make_shared<Training>(std::move(world), std::move(model), listened(), "torch_fsdp",
                                     std::vector<weft_kv>(all.data(), all.data() + all.size()),
                                     std::move(training_options), nullptr)};
}

std::vector<std::string> Traced::collectives() const {
  std::vector<std::string> found;
  std::copy_if(hooks.begin(), hooks.end(), std::back_inserter(found),
               [](const std::string& hook) { return hook.find(':') != std::string::npos; });
  return found;
}

void Traced::forget() {
  hooks = {"nothing"};
}

}  // namespace weft::test
