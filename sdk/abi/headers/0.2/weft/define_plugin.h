/* WEFT_DEFINE_PLUGIN defines the function that a plugin exports. `weft_add_plugin()` defines WEFT_PLUGIN_ID,
 * WEFT_PLUGIN_VERSION and WEFT_PLUGIN_ABI_MINOR_MIN, from plugin.json and its argument ABI_MINOR_MIN. */
#ifndef WEFT_DEFINE_PLUGIN_H
#define WEFT_DEFINE_PLUGIN_H

#include "plugin.h"

/* The minor of the oldest host that the plugin runs on. A plugin that uses a member or a function which came
 * later, without asking for it with WEFT_HAS, says the minor in which it came. */
#ifndef WEFT_PLUGIN_ABI_MINOR_MIN
#define WEFT_PLUGIN_ABI_MINOR_MIN WEFT_ABI_MINOR_OLDEST
#endif

/* Defines weft_plugin_query_v1 for a plugin of this tier and libtorch tag, with `factory_function` as its
 * get_factory. From the first query on, the file-local variable weft_plugin_host points to the host's
 * table. */
#define WEFT_DEFINE_PLUGIN(tier_value, tag, factory_function)                                              \
  static const weft_host* weft_plugin_host;                                                                \
  static const weft_plugin weft_plugin_table = {sizeof(weft_plugin), NULL, NULL, NULL,                     \
                                                factory_function,    NULL};                                \
  WEFT_BEGIN_C                                                                                             \
  WEFT_EXPORT weft_status weft_plugin_query_v1(const weft_query_request* request, weft_query_reply* reply, \
                                               weft_error* error) {                                        \
    uint32_t agreed = 0;                                                                                   \
    weft_status status = weft_negotiate(request, WEFT_PLUGIN_ABI_MINOR_MIN, &agreed, error);               \
    if (status != WEFT_OK) return status;                                                                  \
    if (reply == NULL || !WEFT_HAS_FIELD(reply, weft_query_reply, plugin)) return WEFT_INVALID_ARGUMENT;   \
    weft_plugin_host = request->host;                                                                      \
    reply->struct_size = WEFT_END_OF(weft_query_reply, plugin);                                            \
    reply->abi_minor = agreed;                                                                             \
    reply->tier = tier_value;                                                                              \
    reply->id = WEFT_STR(WEFT_PLUGIN_ID);                                                                  \
    reply->version = WEFT_STR(WEFT_PLUGIN_VERSION);                                                        \
    reply->torch_tag = WEFT_STR(tag);                                                                      \
    reply->plugin = &weft_plugin_table;                                                                    \
    return WEFT_OK;                                                                                        \
  }                                                                                                        \
  WEFT_END_C

#endif
