#include "host/tables.hpp"

#include <initializer_list>
#include <utility>

#include "base/struct_size.hpp"
#include "base/text.hpp"
#include "host/error.hpp"
#include "host/host_table.hpp"
#include "host/load_error.hpp"
#include "weft/checkpoint_io.h"
#include "weft/shard_policy.h"
#include "weft/strategy.h"
#include "weft/tokenizer.h"

namespace weft::host {
namespace {

// The fields with which every factory begins.
struct Factory {
  uint64_t struct_size;
  void (*first)();
};

template <typename... Arguments>
[[noreturn]] void refuse(Stage stage, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw LoadError(stage, WEFT_FAILED_PRECONDITION,
                  fmt::format(format, std::forward<Arguments>(arguments)...));
}

void check_size(const char* what, uint64_t found, uint64_t least) {
  if (is_struct_size(found, least)) return;
  refuse(Stage::kTableValidate,
         "its {} says struct_size {}, must be at least {} and at most {}; set it to sizeof", what, found,
         least, kLargestStruct);
}

std::string text_or_empty(weft_str text) {
  // A length greater than that of any id or tag is wrong, and the text must not be read.
  if (text.data == nullptr || text.size > 4096) return "";
  return std::string(view(text));
}

// Checks that a table which `find` returned has the fields of the oldest ABI, and the functions that must not
// be null.
template <class Table>
void check_fields(const Table& table, uint64_t least,
                  std::initializer_list<std::pair<const char*, bool>> given) {
  check_size("table of what it provides", table.struct_size, least);
  for (const auto& [field, is_given] : given)
    if (!is_given) refuse(Stage::kTableValidate, "its table of what it provides has no {}; set it", field);
}

void check_provided_table(const weft_strategy_api& table) {
  check_fields(table, WEFT_END_OF(weft_strategy_api, estimate),
               {{"create", table.create},
                {"destroy", table.destroy},
                {"configure", table.configure},
                {"publish", table.publish},
                {"zero_gradients", table.zero_gradients}});
}

void check_provided_table(const weft_shard_policy& table) {
  check_fields(table, WEFT_END_OF(weft_shard_policy, build), {{"build", table.build}});
}

void check_provided_table(const weft_checkpoint_io& table) {
  check_fields(table, WEFT_END_OF(weft_checkpoint_io, owns),
               {{"recognises", table.recognises},
                {"open", table.open},
                {"close", table.close},
                {"num_tensors", table.num_tensors},
                {"tensor", table.tensor},
                {"read", table.read},
                {"metadata", table.metadata},
                {"create", table.create},
                {"write", table.write},
                {"commit", table.commit},
                {"abandon", table.abandon},
                {"owns", table.owns}});
}

// The engine checks the functions of the class that is asked for: a library may have many.
void check_provided_table(const weft_tokenizer_class& table) {
  check_fields(table, 2 * sizeof(uint64_t), {});
}

template <class KindFactory>
void check_provided(const void* factory, const LibraryEntry& library) {
  for (const std::string& name : library.provides) {
    const auto* const kind_factory = static_cast<const KindFactory*>(factory);
    const auto* table = kind_factory->find(kind_factory, borrow(name));
    if (table == nullptr)
      refuse(Stage::kTableValidate,
             "its manifest says that it provides \"{}\", but its factory does not find that", name);
    check_provided_table(*table);
  }
}

}  // namespace

std::string factory_id(std::string_view kind) {
  return fmt::format("weft.factory.{}/1", kind);
}

weft_query_request make_request(const HostFacts& facts, std::string_view torch_tag) {
  weft_query_request request = {};
  request.struct_size = sizeof(request);
  request.abi_major = facts.abi.major;
  request.abi_minor_min = facts.abi.minor_min;
  request.abi_minor_max = facts.abi.minor;
  request.host_version = borrow(facts.version);
  request.torch_tag = borrow(torch_tag);
  if (!torch_tag.empty()) request.build_id = borrow(facts.build_id);
  request.host = &host_table();
  return request;
}

weft_query_reply negotiate(weft_plugin_query_fn query, const weft_query_request& request,
                           const Manifest& manifest, const LibraryEntry& library) {
  weft_query_reply reply = {};
  reply.struct_size = sizeof(reply);
  weft_error error;
  const weft_status status = query(&request, &reply, &error);
  if (status != WEFT_OK) {
    refuse(Stage::kNegotiate, "the plugin refuses this host (Weft {}, ABI {}.{}): {}",
           view(request.host_version), request.abi_major, request.abi_minor_max,
           error.text.empty() ? "it returned " + status_name(status) + " without a reason" : error.text);
  }
  constexpr uint64_t kNeeded = WEFT_END_OF(weft_query_reply, plugin);
  if (!is_struct_size(reply.struct_size, kNeeded)) {
    refuse(Stage::kNegotiate,
           "its reply says struct_size {}, must be at least {}; set it to sizeof(weft_query_reply)",
           reply.struct_size, kNeeded);
  }
  const uint32_t low = std::max(request.abi_minor_min, manifest.abi.minor_min);
  const uint32_t high = std::min(request.abi_minor_max, manifest.abi.minor);
  if (reply.abi_minor < low || reply.abi_minor > high) {
    refuse(Stage::kNegotiate,
           "it agrees to ABI minor {}, but the host offered {} to {} and its manifest says {} to {}",
           reply.abi_minor, request.abi_minor_min, request.abi_minor_max, manifest.abi.minor_min,
           manifest.abi.minor);
  }
  const std::tuple<const char*, std::string, std::string> pairs[] = {
      {"id", text_or_empty(reply.id), manifest.id},
      {"version", text_or_empty(reply.version), manifest.version},
      {"tier", std::string(tier_name(reply.tier)), std::string(tier_name(library.tier))},
      {"libtorch tag", text_or_empty(reply.torch_tag), library.torch_tag}};
  for (const auto& [what, found, wanted] : pairs) {
    if (found != wanted) {
      refuse(Stage::kNegotiate,
             "the library says {} \"{}\", its manifest \"{}\"; they are not from one build", what,
             printable(found), wanted);
    }
  }
  return reply;
}

void check_tables(const weft_plugin* plugin, const LibraryEntry& library) {
  if (plugin == nullptr) refuse(Stage::kTableValidate, "its reply has no table (plugin is null)");
  check_size("table weft_plugin", plugin->struct_size, WEFT_END_OF(weft_plugin, get_factory));
  if (plugin->get_factory == nullptr)
    refuse(Stage::kTableValidate, "its table weft_plugin has no get_factory");
  const std::string id = factory_id(library.kind);
  const auto* factory = static_cast<const Factory*>(plugin->get_factory(plugin, borrow(id)));
  if (factory == nullptr) {
    refuse(Stage::kTableValidate, "its manifest says kind {}, but get_factory(\"{}\") is null", library.kind,
           id);
  }
  check_size("factory", factory->struct_size, sizeof(Factory));
  if (factory->first == nullptr)
    refuse(Stage::kTableValidate, "the first function of its factory \"{}\" is null", id);
  // The factory of a model creates models; it has no `find`.
  if (library.kind == "strategy") check_provided<weft_strategy_factory>(factory, library);
  if (library.kind == "shard_policy") check_provided<weft_shard_policy_factory>(factory, library);
  if (library.kind == "checkpoint_io") check_provided<weft_checkpoint_io_factory>(factory, library);
  if (library.kind == "tokenizer") check_provided<weft_tokenizer_factory>(factory, library);
}

}  // namespace weft::host
