// A plugin whose entry lets an exception out.
#include <weft/note.h>
#include <weft/plugin.h>

#include <stdexcept>

WEFT_PLUGIN_NOTE("id=alpha\nversion=1.0.0\ntier=c\nabi=0.2-2\n");

weft_status weft_plugin_query_v1(const weft_query_request*, weft_query_reply*, weft_error*) {
  throw std::runtime_error("there is no quince");
}
