/* A checkpoint format that says it is the default, recognises what is not its own, and reads and writes
 * nothing. What a folder contains makes it say yes ("claimed") or abort ("crash"). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/checkpoint_io.h>
#include <weft/define_plugin.h>

static const void* get_factory(const weft_plugin* plugin, weft_str id);
WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

static int has(weft_str folder, const char* name) {
  char path[4096];
  snprintf(path, sizeof path, "%.*s/%s", (int)folder.size, folder.data, name);
  return access(path, F_OK) == 0;
}

static uint32_t recognises(const weft_checkpoint_io* io, weft_str path) {
  (void)io;
  if (has(path, "crash")) abort();
  return has(path, "claimed");
}

static weft_status refuse(weft_error* error) {
  weft_plugin_host->error_set(error, WEFT_UNIMPLEMENTED, WEFT_STR("claims reads and writes nothing"));
  return WEFT_UNIMPLEMENTED;
}

static weft_status open_reader(const weft_checkpoint_io* io, weft_str name, weft_str path,
                               weft_checkpoint_reader** own, weft_error* error) {
  (void)io, (void)name, (void)path, (void)own;
  return refuse(error);
}

static void close_reader(weft_checkpoint_reader* reader) {
  (void)reader;
}

static uint64_t num_tensors(weft_checkpoint_reader* reader) {
  (void)reader;
  return 0;
}

static weft_status tensor(weft_checkpoint_reader* reader, uint64_t index, weft_tensor_entry* out,
                          weft_error* error) {
  (void)reader, (void)index, (void)out;
  return refuse(error);
}

static weft_status read_box(weft_checkpoint_reader* reader, uint64_t index, const int64_t* offset,
                            const int64_t* extent, void* destination, uint64_t size_bytes,
                            weft_error* error) {
  (void)reader, (void)index, (void)offset, (void)extent, (void)destination, (void)size_bytes;
  return refuse(error);
}

static weft_str metadata(weft_checkpoint_reader* reader, weft_str key) {
  (void)reader, (void)key;
  return (weft_str){NULL, 0};
}

static weft_status create(const weft_checkpoint_io* io, weft_str name, weft_str path, const weft_kv* options,
                          uint64_t num_options, const weft_tensor_entry* const* entries, uint64_t num_entries,
                          weft_checkpoint_writer** own, weft_error* error) {
  (void)io, (void)name, (void)path, (void)options, (void)num_options, (void)entries, (void)num_entries;
  (void)own;
  return refuse(error);
}

static weft_status write_box(weft_checkpoint_writer* writer, uint64_t index, const int64_t* offset,
                             const int64_t* extent, const void* source, uint64_t size_bytes,
                             weft_error* error) {
  (void)writer, (void)index, (void)offset, (void)extent, (void)source, (void)size_bytes;
  return refuse(error);
}

static weft_status commit(weft_checkpoint_writer* writer, weft_error* error) {
  (void)writer;
  return refuse(error);
}

static void abandon(weft_checkpoint_writer* writer) {
  (void)writer;
}

static uint32_t owns(const weft_checkpoint_io* io, weft_str file, weft_str prefix) {
  (void)io, (void)file, (void)prefix;
  return 0;
}

static const weft_checkpoint_io kFormat = {
    sizeof(weft_checkpoint_io),
    NULL,
    recognises,
    open_reader,
    close_reader,
    num_tensors,
    tensor,
    read_box,
    metadata,
    create,
    write_box,
    commit,
    abandon,
    owns,
};

static const weft_checkpoint_io* find(const weft_checkpoint_io_factory* factory, weft_str name) {
  (void)factory;
  return name.size == strlen("claims") && memcmp(name.data, "claims", name.size) == 0 ? &kFormat : NULL;
}

static const weft_checkpoint_io_factory kFactory = {sizeof(weft_checkpoint_io_factory), find};

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  const char* const ours = WEFT_FACTORY_CHECKPOINT_IO;
  return id.size == strlen(ours) && memcmp(id.data, ours, id.size) == 0 ? &kFactory : NULL;
}
