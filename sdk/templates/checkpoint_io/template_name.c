/* A checkpoint format: one file for all tensors of a model. The host decides which rank reads and writes
 * which box; the format knows tensors by name, dtype and shape. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/checkpoint_io.h>
#include <weft/define_plugin.h>

#include "file.h"

enum { kPath = 4096 };
static const char kName[] = "model.template_name";

static const weft_host* host(void);

struct weft_checkpoint_reader {
  int file;
  layout layout;
};

struct weft_checkpoint_writer {
  int file;
  layout layout;
  char path[kPath], temporary[kPath + 32];
};

static weft_status refuse(weft_error* error, weft_status status, const char* path, const char* why) {
  char message[kPath + 512];
  const int size = snprintf(message, sizeof message, "template_name: %s: %s", path, why);
  host()->error_set(error, status,
                    (weft_str){message, size < (int)sizeof message ? (uint64_t)size : sizeof message - 1});
  return status;
}

/* Sets the path of the file: `path` itself if it ends like one, otherwise the file with the usual name in
 * this folder, which is made if `makes_folder`. Returns 0 for a path that is too long. */
static int file_path(weft_str path, char* out, int makes_folder) {
  static const char kExtension[] = ".template_name";
  const size_t size = path.size, ending = sizeof kExtension - 1;
  struct stat status;
  if (size == 0 || size >= kPath - sizeof kName - 1 || memchr(path.data, 0, size) != NULL) return 0;
  memcpy(out, path.data, size);
  out[size] = 0;
  if (size >= ending && memcmp(out + size - ending, kExtension, ending) == 0 &&
      !(stat(out, &status) == 0 && S_ISDIR(status.st_mode)))
    return 1;
  if (makes_folder) mkdir(out, 0777); /* a failure shows when the file is made */
  snprintf(out + size, kPath - size, "/%s", kName);
  return 1;
}

static uint32_t recognises(const weft_checkpoint_io* io, weft_str path) {
  (void)io;
  char name[kPath], first[8];
  int file, same;
  if (!file_path(path, name, 0) || (file = open(name, O_RDONLY | O_CLOEXEC)) < 0) return 0;
  same = read(file, first, sizeof first) == (ssize_t)sizeof first && memcmp(first, "WEFTFILE", 8) == 0;
  close(file);
  return (uint32_t)same;
}

static void close_reader(weft_checkpoint_reader* reader) {
  if (reader == NULL) return;
  if (reader->file >= 0) close(reader->file);
  free_layout(&reader->layout);
  free(reader);
}

static weft_status open_reader(const weft_checkpoint_io* io, weft_str format, weft_str path,
                               weft_checkpoint_reader** own, weft_error* error) {
  (void)io, (void)format;
  char name[kPath];
  int damaged = 0;
  const char* problem;
  weft_checkpoint_reader* reader;
  if (!file_path(path, name, 0)) return refuse(error, WEFT_INVALID_ARGUMENT, "the path", "is too long");
  reader = calloc(1, sizeof *reader);
  if (reader == NULL) return refuse(error, WEFT_RESOURCE_EXHAUSTED, name, "there is no memory for it");
  reader->file = open(name, O_RDONLY | O_CLOEXEC);
  if (reader->file < 0) {
    const int found = errno;
    close_reader(reader);
    return refuse(error, found == ENOENT ? WEFT_NOT_FOUND : WEFT_UNAVAILABLE, name, strerror(found));
  }
  problem = read_header(reader->file, &reader->layout, &damaged);
  if (problem != NULL) {
    const weft_status status = refuse(error, damaged ? WEFT_DATA_LOSS : WEFT_UNAVAILABLE, name, problem);
    close_reader(reader);
    return status;
  }
  *own = reader;
  return WEFT_OK;
}

static uint64_t num_tensors(weft_checkpoint_reader* reader) {
  return reader->layout.num_tensors;
}

static weft_status describe(weft_checkpoint_reader* reader, uint64_t index, weft_tensor_entry* out,
                            weft_error* error) {
  const tensor* t;
  if (index >= reader->layout.num_tensors)
    return refuse(error, WEFT_OUT_OF_RANGE, kName, "has no tensor of this number");
  t = &reader->layout.tensors[index];
  out->name = (weft_str){t->name.data, t->name.size};
  out->dtype = t->dtype;
  out->ndim = t->ndim;
  memcpy(out->shape, t->shape, t->ndim * sizeof(int64_t));
  return WEFT_OK;
}

static weft_status read_box(weft_checkpoint_reader* reader, uint64_t index, const int64_t* offset,
                            const int64_t* extent, void* destination, uint64_t size, weft_error* error) {
  const char* problem;
  if (index >= reader->layout.num_tensors)
    return refuse(error, WEFT_OUT_OF_RANGE, kName, "has no tensor of this number");
  problem = transfer(reader->file, &reader->layout.tensors[index], offset, extent, destination, size, 0);
  return problem == NULL ? WEFT_OK
                         : refuse(error, WEFT_DATA_LOSS, reader->layout.tensors[index].name.data, problem);
}

static weft_str metadata(weft_checkpoint_reader* reader, weft_str key) {
  const layout* l = &reader->layout;
  uint64_t i;
  for (i = 0; i < l->num_texts; ++i)
    if (l->keys[i].size == key.size && memcmp(l->keys[i].data, key.data, key.size) == 0)
      return (weft_str){l->values[i].data, l->values[i].size};
  return (weft_str){NULL, 0};
}

static int copy_text(text* own, weft_str from) {
  own->size = from.size;
  own->data = malloc(from.size + 1);
  if (own->data == NULL) return 0;
  if (from.size > 0) memcpy(own->data, from.data, from.size);
  own->data[from.size] = 0;
  return 1;
}

static int begins(weft_str text, const char* with) {
  return text.size >= strlen(with) && memcmp(text.data, with, strlen(with)) == 0;
}

/* Options that ask for what one file cannot be are refused; "metadata.<key>" becomes a text. */
static weft_status take_options(layout* l, const weft_kv* options, uint64_t count, weft_error* error) {
  static const char kMetadata[] = "metadata.";
  uint64_t i;
  l->keys = calloc(count + 1, sizeof(text));
  l->values = calloc(count + 1, sizeof(text));
  if (l->keys == NULL || l->values == NULL)
    return refuse(error, WEFT_RESOURCE_EXHAUSTED, kName, "there is no memory for its texts");
  for (i = 0; i < count; ++i) {
    const weft_kv* kv = &options[i];
    const weft_str key = kv->key;
    if (kv->kind == WEFT_KIND_NONE) continue; /* the default */
    if (begins(key, kMetadata) && kv->kind == WEFT_KIND_TEXT) {
      const uint64_t skipped = sizeof kMetadata - 1, n = l->num_texts++;
      if (!copy_text(&l->keys[n], (weft_str){key.data + skipped, key.size - skipped}) ||
          !copy_text(&l->values[n], kv->text))
        return refuse(error, WEFT_RESOURCE_EXHAUSTED, kName, "there is no memory for its texts");
    } else if (begins(key, "shard") && kv->integer != 0) {
      return refuse(error, WEFT_UNIMPLEMENTED, kName, "is always one file: leave out the option shard");
    } else if (begins(key, "prefix") && kv->text.size != 0) {
      return refuse(error, WEFT_UNIMPLEMENTED, kName, "has no prefix in its name: leave out the option");
    } else if (begins(key, "use_safetensors") && kv->integer == 0) {
      return refuse(error, WEFT_UNIMPLEMENTED, kName, "is no file of torch.save: leave out use_safetensors");
    } else if (!begins(key, "shard") && !begins(key, "prefix") && !begins(key, "use_safetensors") &&
               !begins(key, "size_per_shard")) {
      return refuse(error, WEFT_INVALID_ARGUMENT, kName,
                    "has no such option; there are shard, size_per_shard, prefix, use_safetensors and "
                    "metadata.<key>");
    }
  }
  return WEFT_OK;
}

static weft_status take_entries(layout* l, const weft_tensor_entry* const* entries, uint64_t count,
                                weft_error* error) {
  const char* problem;
  uint64_t i;
  l->tensors = calloc(count + 1, sizeof(tensor));
  if (l->tensors == NULL) return refuse(error, WEFT_RESOURCE_EXHAUSTED, kName, "there is no memory");
  for (i = 0; i < count; ++i) {
    const weft_tensor_entry* entry = entries[i];
    tensor* t = &l->tensors[l->num_tensors++];
    if (!copy_text(&t->name, entry->name))
      return refuse(error, WEFT_RESOURCE_EXHAUSTED, kName, "there is no memory for names");
    t->dtype = entry->dtype;
    t->ndim = entry->ndim;
    if (t->ndim <= WEFT_MAX_DIMS) memcpy(t->shape, entry->shape, t->ndim * sizeof(int64_t));
  }
  problem = place_tensors(l);
  return problem == NULL ? WEFT_OK : refuse(error, WEFT_INVALID_ARGUMENT, kName, problem);
}

static void abandon(weft_checkpoint_writer* writer) {
  if (writer == NULL) return;
  if (writer->file >= 0) {
    close(writer->file);
    unlink(writer->temporary);
  }
  free_layout(&writer->layout);
  free(writer);
}

/* Makes the file under a temporary name, with all of its space. */
static weft_status make_file(weft_checkpoint_writer* writer, weft_error* error) {
  const char* problem;
  int full;
  snprintf(writer->temporary, sizeof writer->temporary, "%s.%ld.saving", writer->path, (long)getpid());
  writer->file = open(writer->temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (writer->file < 0) return refuse(error, WEFT_UNAVAILABLE, writer->temporary, strerror(errno));
  full = posix_fallocate(writer->file, 0, (off_t)writer->layout.size);
  if (full != 0) return refuse(error, WEFT_RESOURCE_EXHAUSTED, writer->path, strerror(full));
  problem = write_header(writer->file, &writer->layout);
  return problem == NULL ? WEFT_OK : refuse(error, WEFT_UNAVAILABLE, writer->path, problem);
}

static weft_status create(const weft_checkpoint_io* io, weft_str format, weft_str path,
                          const weft_kv* options, uint64_t num_options,
                          const weft_tensor_entry* const* entries, uint64_t num_entries,
                          weft_checkpoint_writer** own, weft_error* error) {
  (void)io, (void)format;
  weft_status status;
  weft_checkpoint_writer* writer = calloc(1, sizeof *writer);
  if (writer == NULL) return refuse(error, WEFT_RESOURCE_EXHAUSTED, kName, "there is no memory");
  writer->file = -1;
  status = file_path(path, writer->path, 1) ? WEFT_OK
                                            : refuse(error, WEFT_INVALID_ARGUMENT, "the path", "is too long");
  if (status == WEFT_OK) status = take_options(&writer->layout, options, num_options, error);
  if (status == WEFT_OK) status = take_entries(&writer->layout, entries, num_entries, error);
  if (status == WEFT_OK) status = make_file(writer, error);
  if (status == WEFT_OK)
    *own = writer;
  else
    abandon(writer);
  return status;
}

static weft_status write_box(weft_checkpoint_writer* writer, uint64_t index, const int64_t* offset,
                             const int64_t* extent, const void* source, uint64_t size, weft_error* error) {
  tensor* t;
  const char* problem;
  if (index >= writer->layout.num_tensors)
    return refuse(error, WEFT_OUT_OF_RANGE, writer->path, "has no tensor of this number");
  t = &writer->layout.tensors[index];
  problem = transfer(writer->file, t, offset, extent, (char*)source, size, 1);
  if (problem != NULL) return refuse(error, WEFT_UNAVAILABLE, writer->path, problem);
  __atomic_fetch_add(&t->written, size / element_size(t->dtype), __ATOMIC_RELAXED);
  return WEFT_OK;
}

/* The file gets its name when all of it is on the disk: an earlier one is there until then. */
static weft_status commit(weft_checkpoint_writer* writer, weft_error* error) {
  weft_status status = WEFT_OK;
  uint64_t i;
  for (i = 0; status == WEFT_OK && i < writer->layout.num_tensors; ++i)
    if (writer->layout.tensors[i].written < writer->layout.tensors[i].count)
      status = refuse(error, WEFT_FAILED_PRECONDITION, writer->layout.tensors[i].name.data,
                      "has elements that were never written");
  if (status == WEFT_OK && (fsync(writer->file) != 0 || rename(writer->temporary, writer->path) != 0))
    status = refuse(error, WEFT_UNAVAILABLE, writer->path, strerror(errno));
  if (status == WEFT_OK) {
    close(writer->file);
    writer->file = -1;
  }
  abandon(writer);
  return status;
}

static uint32_t owns(const weft_checkpoint_io* io, weft_str file, weft_str prefix) {
  (void)io, (void)prefix; /* take_options refuses one */
  return file.size == strlen(kName) && begins(file, kName);
}

static const weft_checkpoint_io* find(const weft_checkpoint_io_factory* factory, weft_str name) {
  (void)factory;
  static const weft_checkpoint_io kFormat = {sizeof(weft_checkpoint_io),
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
                                             owns};
  return name.size == strlen(WEFT_PLUGIN_ID) && begins(name, WEFT_PLUGIN_ID) ? &kFormat : NULL;
}

static const void* get_factory(const weft_plugin* plugin, weft_str id) {
  (void)plugin;
  static const weft_checkpoint_io_factory kFactory = {sizeof(weft_checkpoint_io_factory), find};
  return id.size == strlen(WEFT_FACTORY_CHECKPOINT_IO) && begins(id, WEFT_FACTORY_CHECKPOINT_IO) ? &kFactory
                                                                                                 : NULL;
}

WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

static const weft_host* host(void) {
  return weft_plugin_host;
}
