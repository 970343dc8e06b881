/* The checkpoint format "raw_files": what the host calls. raw_files.h says what is on disk. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/define_plugin.h>

#include "files.h"
#include "raw_files.h"

static const void* get_factory(const weft_plugin* plugin, weft_str id);
WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

struct weft_checkpoint_reader {
  char* data; /* the folder of the generation */
  raw_index index;
};

/* The boxes of a tensor that were written. */
typedef struct raw_written {
  raw_box* boxes;
  uint64_t count, room;
} raw_written;

struct weft_checkpoint_writer {
  char *folder, *data;
  int is_made, lock; /* is_made: the folder is ours, and goes if nothing is saved */
  raw_index index;
  pthread_mutex_t mutex;
  raw_written* written;
};

weft_status raw_fail(weft_error* error, weft_status status, const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  const int begin = snprintf(text, sizeof text, "raw_files: ");
  const int size = vsnprintf(text + begin, sizeof text - (size_t)begin, format, arguments);
  va_end(arguments);
  if (size < 0) text[begin] = '\0';
  if (error != NULL) weft_plugin_host->error_set(error, status, (weft_str){text, strlen(text)});
  return status;
}

/* Returns a copy of a text that ends with NUL; NULL without memory, or if there is a NUL inside. */
static char* copy_text(weft_str text) {
  if (text.size > 0 && memchr(text.data, '\0', text.size) != NULL) return NULL;
  return raw_text("%.*s", (int)text.size, text.size > 0 ? text.data : "");
}

static int is_text(weft_str text, const char* other) {
  return text.size == strlen(other) && memcmp(text.data, other, text.size) == 0;
}

/* --- reading */

static uint32_t recognises(const weft_checkpoint_io* io, weft_str path) {
  char head[sizeof RAW_HEAD] = "";
  char* const given = copy_text(path);
  char* const folder = given == NULL ? NULL : raw_folder_of(given);
  char* const index = folder == NULL ? NULL : raw_text("%s/" RAW_INDEX, folder);
  FILE* const file = index == NULL ? NULL : fopen(index, "rb");
  (void)io;
  if (file != NULL) {
    if (fread(head, 1, strlen(RAW_HEAD), file) != strlen(RAW_HEAD)) head[0] = '\0';
    fclose(file);
  }
  free(index);
  free(folder);
  free(given);
  return strcmp(head, RAW_HEAD) == 0;
}

static void close_reader(weft_checkpoint_reader* reader) {
  if (reader == NULL) return;
  raw_free_index(&reader->index);
  free(reader->data);
  free(reader);
}

static weft_status check_sizes(const weft_checkpoint_reader* reader, weft_error* error) {
  for (uint64_t i = 0; i < reader->index.num_tensors; ++i) {
    const weft_status status = raw_check_size(reader->data, i, &reader->index.tensors[i], error);
    if (status != WEFT_OK) return status;
  }
  return WEFT_OK;
}

static weft_status open_reader(const weft_checkpoint_io* io, weft_str name, weft_str path,
                               weft_checkpoint_reader** own, weft_error* error) {
  char* const given = copy_text(path);
  char* const folder = given == NULL ? NULL : raw_folder_of(given);
  weft_checkpoint_reader* const reader = calloc(1, sizeof *reader);
  (void)io, (void)name;
  weft_status status = WEFT_OK;
  if (folder == NULL || reader == NULL)
    status = raw_fail(error, WEFT_INVALID_ARGUMENT, "the path is no file name, or there is no memory");
  if (status == WEFT_OK) status = raw_load_index(folder, &reader->index, error);
  if (status == WEFT_OK) reader->data = raw_text("%s/" RAW_DATA "%s", folder, reader->index.generation);
  if (status == WEFT_OK && reader->data == NULL)
    status = raw_fail(error, WEFT_RESOURCE_EXHAUSTED, "%s: no memory", folder);
  if (status == WEFT_OK) status = check_sizes(reader, error);
  free(folder);
  free(given);
  if (status == WEFT_OK)
    *own = reader;
  else
    close_reader(reader);
  return status;
}

static uint64_t num_tensors(weft_checkpoint_reader* reader) {
  return reader->index.num_tensors;
}

static weft_status check_number(const raw_index* index, uint64_t number, weft_error* error) {
  if (number < index->num_tensors) return WEFT_OK;
  return raw_fail(error, WEFT_OUT_OF_RANGE, "there is no tensor %llu, there are %llu",
                  (unsigned long long)number, (unsigned long long)index->num_tensors);
}

static weft_status describe(weft_checkpoint_reader* reader, uint64_t number, weft_tensor_entry* out,
                            weft_error* error) {
  const weft_status status = check_number(&reader->index, number, error);
  if (status != WEFT_OK) return status;
  const raw_tensor* const tensor = &reader->index.tensors[number];
  out->name = (weft_str){tensor->name, strlen(tensor->name)};
  out->dtype = tensor->dtype;
  out->ndim = tensor->ndim;
  memcpy(out->shape, tensor->shape, sizeof out->shape);
  return WEFT_OK;
}

/* Opens the file anew, so that several threads can read. */
static weft_status read_box(weft_checkpoint_reader* reader, uint64_t number, const int64_t* offset,
                            const int64_t* extent, void* destination, uint64_t size_bytes,
                            weft_error* error) {
  raw_box box;
  weft_status status = check_number(&reader->index, number, error);
  if (status != WEFT_OK) return status;
  const raw_tensor* const tensor = &reader->index.tensors[number];
  status = raw_make_box(tensor, offset, extent, size_bytes, &box, error);
  return status != WEFT_OK ? status : raw_read_runs(reader->data, number, tensor, &box, destination, error);
}

static weft_str metadata(weft_checkpoint_reader* reader, weft_str key) {
  for (uint64_t i = 0; i < reader->index.num_pairs; ++i) {
    const raw_pair* const pair = &reader->index.pairs[i];
    if (is_text(key, pair->key)) return (weft_str){pair->value, strlen(pair->value)};
  }
  return (weft_str){NULL, 0};
}

/* --- writing */

static void free_writer(weft_checkpoint_writer* writer) {
  for (uint64_t i = 0; writer->written != NULL && i < writer->index.num_tensors; ++i)
    free(writer->written[i].boxes);
  free(writer->written);
  raw_free_index(&writer->index);
  raw_unlock(writer->lock);
  pthread_mutex_destroy(&writer->mutex);
  free(writer->folder);
  free(writer->data);
  free(writer);
}

static void abandon(weft_checkpoint_writer* writer) {
  if (writer == NULL) return;
  if (writer->data != NULL) raw_remove_generation(writer->data);
  if (writer->is_made) raw_remove_empty(writer->folder);
  free_writer(writer);
}

static weft_status take_options(weft_checkpoint_writer* writer, const weft_kv* options, uint64_t count,
                                weft_error* error) {
  static const char kMetadata[] = "metadata.";
  const size_t head = strlen(kMetadata);
  writer->index.pairs = calloc(count + 1, sizeof *writer->index.pairs);
  if (writer->index.pairs == NULL) return raw_fail(error, WEFT_RESOURCE_EXHAUSTED, "no memory");
  for (uint64_t i = 0; i < count; ++i) {
    const weft_str key = options[i].key;
    if (options[i].kind == WEFT_KIND_NONE) continue; /* the default, as if it were not there */
    if (key.size < head || memcmp(key.data, kMetadata, head) != 0 || options[i].kind != WEFT_KIND_TEXT)
      return raw_fail(error, WEFT_INVALID_ARGUMENT,
                      "there is no option \"%.*s\"; each tensor is a file of its own, and the options are "
                      "metadata.<key> (text)",
                      (int)key.size, key.data);
    raw_pair* const pair = &writer->index.pairs[writer->index.num_pairs++];
    pair->key = copy_text((weft_str){key.data + head, key.size - head});
    pair->value = copy_text(options[i].text);
    if (pair->key == NULL || pair->value == NULL)
      return raw_fail(error, WEFT_INVALID_ARGUMENT, "option \"%.*s\" has a NUL byte, or there is no memory",
                      (int)key.size, key.data);
  }
  return WEFT_OK;
}

static weft_status take_entries(weft_checkpoint_writer* writer, const weft_tensor_entry* const* entries,
                                uint64_t count, weft_error* error) {
  writer->index.tensors = calloc(count + 1, sizeof *writer->index.tensors);
  writer->written = calloc(count + 1, sizeof *writer->written);
  if (writer->index.tensors == NULL || writer->written == NULL)
    return raw_fail(error, WEFT_RESOURCE_EXHAUSTED, "no memory for %llu tensors", (unsigned long long)count);
  for (uint64_t i = 0; i < count; ++i) {
    const weft_tensor_entry* const entry = entries[i];
    raw_tensor* const tensor = &writer->index.tensors[writer->index.num_tensors++];
    tensor->name = copy_text(entry->name);
    tensor->dtype = entry->dtype;
    tensor->ndim = entry->ndim;
    memcpy(tensor->shape, entry->shape, sizeof tensor->shape);
    if (tensor->name == NULL || !raw_set_bytes(tensor))
      return raw_fail(error, WEFT_INVALID_ARGUMENT,
                      "tensor %llu, \"%.*s\": its name, its type or its dimensions cannot be written",
                      (unsigned long long)i, (int)entry->name.size, entry->name.data);
  }
  return raw_check_names(&writer->index, "the tensors to save", WEFT_INVALID_ARGUMENT, error);
}

static weft_status create(const weft_checkpoint_io* io, weft_str name, weft_str path, const weft_kv* options,
                          uint64_t num_options, const weft_tensor_entry* const* entries, uint64_t num_entries,
                          weft_checkpoint_writer** own, weft_error* error) {
  weft_checkpoint_writer* const writer = calloc(1, sizeof *writer);
  (void)io, (void)name;
  if (writer == NULL) return raw_fail(error, WEFT_RESOURCE_EXHAUSTED, "no memory");
  writer->lock = -1;
  pthread_mutex_init(&writer->mutex, NULL);
  writer->folder = copy_text(path);
  weft_status status = WEFT_OK;
  if (writer->folder == NULL || path.size == 0)
    status = raw_fail(error, WEFT_INVALID_ARGUMENT, "the path is no file name, or there is no memory");
  if (status == WEFT_OK) status = take_options(writer, options, num_options, error);
  if (status == WEFT_OK) status = take_entries(writer, entries, num_entries, error);
  if (status == WEFT_OK) status = raw_lock_folder(writer->folder, &writer->is_made, &writer->lock, error);
  if (status == WEFT_OK) status = raw_make_generation(writer->folder, &writer->index, &writer->data, error);
  if (status == WEFT_OK)
    *own = writer;
  else
    abandon(writer);
  return status;
}

static weft_status remember(weft_checkpoint_writer* writer, uint64_t number, const raw_box* box,
                            weft_error* error) {
  raw_written* const written = &writer->written[number];
  weft_status status = WEFT_OK;
  pthread_mutex_lock(&writer->mutex);
  if (written->count == written->room) {
    const uint64_t room = written->room == 0 ? 1 : 2 * written->room;
    raw_box* const boxes = realloc(written->boxes, room * sizeof *boxes);
    if (boxes == NULL) status = raw_fail(error, WEFT_RESOURCE_EXHAUSTED, "no memory for a box");
    if (boxes != NULL) written->boxes = boxes, written->room = room;
  }
  if (status == WEFT_OK) written->boxes[written->count++] = *box;
  pthread_mutex_unlock(&writer->mutex);
  return status;
}

static weft_status write_box(weft_checkpoint_writer* writer, uint64_t number, const int64_t* offset,
                             const int64_t* extent, const void* source, uint64_t size_bytes,
                             weft_error* error) {
  raw_box box;
  weft_status status = check_number(&writer->index, number, error);
  if (status != WEFT_OK) return status;
  const raw_tensor* const tensor = &writer->index.tensors[number];
  status = raw_make_box(tensor, offset, extent, size_bytes, &box, error);
  if (status == WEFT_OK) status = raw_write_runs(writer->data, number, tensor, &box, source, error);
  return status == WEFT_OK ? remember(writer, number, &box, error) : status;
}

static weft_status commit(weft_checkpoint_writer* writer, weft_error* error) {
  weft_status status = WEFT_OK;
  for (uint64_t i = 0; status == WEFT_OK && i < writer->index.num_tensors; ++i) {
    const raw_tensor* const tensor = &writer->index.tensors[i];
    if (!raw_is_covered(tensor, writer->written[i].boxes, writer->written[i].count))
      status = raw_fail(error, WEFT_FAILED_PRECONDITION, "%s: elements of tensor %s were never written",
                        writer->folder, tensor->name);
  }
  if (status == WEFT_OK) status = raw_put_in_place(writer->folder, &writer->data, &writer->index, error);
  if (status == WEFT_OK)
    free_writer(writer);
  else
    abandon(writer);
  return status;
}

static uint32_t owns(const weft_checkpoint_io* io, weft_str file, weft_str prefix) {
  const size_t head = strlen(RAW_DATA);
  (void)io;
  if (prefix.size > 0) return 0; /* this format has none */
  return is_text(file, RAW_INDEX) || (file.size > head && memcmp(file.data, RAW_DATA, head) == 0);
}

static const weft_checkpoint_io kFormat = {
    sizeof(weft_checkpoint_io),
    NULL,
    recognises,
    open_reader,
    close_reader,
    num_tensors,
    describe,
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
  return is_text(name, WEFT_PLUGIN_ID) ? &kFormat : NULL;
}

static const weft_checkpoint_io_factory kFactory = {sizeof(weft_checkpoint_io_factory), find};

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  (void)plugin;
  return is_text(id, WEFT_FACTORY_CHECKPOINT_IO) ? &kFactory : NULL;
}
