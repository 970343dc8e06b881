/* A checkpoint format: one file for all tensors of a model. The host decides which rank reads and writes
 * which box; the format knows tensors by name, dtype and shape. */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/checkpoint_io.h>
#include <weft/define_plugin.h>

#include "file.h"

enum { kPath = 4096 };
static const char kName[] = "model.template_name";

static const void* get_factory(const weft_plugin* plugin, weft_str id);
WEFT_DEFINE_PLUGIN(WEFT_TIER_C, "", get_factory)

struct weft_checkpoint_reader {
  int file;
  layout layout;
  char path[kPath];
};

struct weft_checkpoint_writer {
  int file; /* under its temporary name and locked, or -1 */
  layout layout;
  char path[kPath], folder[kPath], temporary[2 * kPath];
};

/* Sets the error as printf does, and returns `status`. */
__attribute__((format(printf, 3, 4))) static weft_status refuse(weft_error* error, weft_status status,
                                                                const char* format, ...) {
  char message[2 * kPath] = "template_name: ";
  const size_t begin = strlen(message);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message + begin, sizeof message - begin, format, arguments);
  va_end(arguments);
  weft_plugin_host->error_set(error, status, (weft_str){message, strlen(message)});
  return status;
}

static int is_text(weft_str text, const char* other) {
  return text.size == strlen(other) && memcmp(text.data, other, text.size) == 0;
}

/* Sets the path of the file: in a folder the usual name, otherwise `path` itself. Returns 0 for a path that
 * is empty or too long. */
static int file_path(weft_str path, char* out) {
  const size_t size = path.size;
  struct stat status;
  if (size == 0 || size >= kPath - sizeof kName - 1 || memchr(path.data, 0, size) != NULL) return 0;
  memcpy(out, path.data, size);
  out[size] = 0;
  if (stat(out, &status) == 0 && S_ISDIR(status.st_mode)) snprintf(out + size, kPath - size, "/%s", kName);
  return 1;
}

static uint32_t recognises(const weft_checkpoint_io* io, weft_str path) {
  (void)io;
  char name[kPath], first[sizeof FILE_HEAD - 1];
  int file, same;
  if (!file_path(path, name) || (file = open(name, O_RDONLY | O_CLOEXEC)) < 0) return 0;
  same =
      read(file, first, sizeof first) == (ssize_t)sizeof first && memcmp(first, FILE_HEAD, sizeof first) == 0;
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
  int damaged = 0;
  const char* problem;
  weft_status status = WEFT_OK;
  weft_checkpoint_reader* reader = calloc(1, sizeof *reader);
  if (reader == NULL) return refuse(error, WEFT_RESOURCE_EXHAUSTED, "there is no memory");
  reader->file = -1;
  if (!file_path(path, reader->path)) {
    status = refuse(error, WEFT_INVALID_ARGUMENT, "the path is empty or too long");
  } else if ((reader->file = open(reader->path, O_RDONLY | O_CLOEXEC)) < 0) {
    status = errno == ENOENT ? WEFT_NOT_FOUND : WEFT_UNAVAILABLE;
    refuse(error, status, "cannot open %s: %s", reader->path, strerror(errno));
  } else if ((problem = read_header(reader->file, &reader->layout, &damaged)) != NULL) {
    status = damaged ? WEFT_DATA_LOSS : WEFT_UNAVAILABLE;
    refuse(error, status, "%s: it %s", reader->path, problem);
  }
  if (status == WEFT_OK)
    *own = reader;
  else
    close_reader(reader);
  return status;
}

static uint64_t num_tensors(weft_checkpoint_reader* reader) {
  return reader->layout.num_tensors;
}

static weft_status describe(weft_checkpoint_reader* reader, uint64_t index, weft_tensor_entry* out,
                            weft_error* error) {
  const tensor* t;
  if (index >= reader->layout.num_tensors)
    return refuse(error, WEFT_OUT_OF_RANGE, "%s: there is no tensor of this number", reader->path);
  t = &reader->layout.tensors[index];
  out->name = (weft_str){t->name.data, t->name.size};
  out->dtype = t->dtype;
  out->ndim = t->ndim;
  memcpy(out->shape, t->shape, t->ndim * sizeof(int64_t));
  return WEFT_OK;
}

/* Returns the tensor of a call of `read` or `write`, or NULL if the call does not fit the tensors. */
static const tensor* find_tensor(const layout* l, const char* path, uint64_t index, const int64_t* offset,
                                 const int64_t* extent, uint64_t size, weft_error* error) {
  const char* const problem = index >= l->num_tensors ? "there is no tensor of this number"
                                                      : check_box(&l->tensors[index], offset, extent, size);
  if (problem == NULL) return &l->tensors[index];
  refuse(error, WEFT_INVALID_ARGUMENT, "%s: %s", path, problem);
  return NULL;
}

static weft_status read_box(weft_checkpoint_reader* reader, uint64_t index, const int64_t* offset,
                            const int64_t* extent, void* destination, uint64_t size, weft_error* error) {
  const tensor* const t = find_tensor(&reader->layout, reader->path, index, offset, extent, size, error);
  const char* problem;
  if (t == NULL) return WEFT_INVALID_ARGUMENT;
  problem = transfer(reader->file, t, offset, extent, destination, 0);
  if (problem == NULL) return WEFT_OK;
  return refuse(error, WEFT_DATA_LOSS, "%s: cannot read tensor %s: %s", reader->path, t->name.data, problem);
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

/* "metadata.<key>" becomes a text; there are no other options. */
static weft_status take_options(layout* l, const weft_kv* options, uint64_t count, weft_error* error) {
  static const char kMetadata[] = "metadata.";
  const size_t head = sizeof kMetadata - 1;
  uint64_t i;
  l->keys = calloc(count + 1, sizeof(text));
  l->values = calloc(count + 1, sizeof(text));
  if (l->keys == NULL || l->values == NULL)
    return refuse(error, WEFT_RESOURCE_EXHAUSTED, "there is no memory for the metadata");
  for (i = 0; i < count; ++i) {
    const weft_str key = options[i].key;
    uint64_t n;
    if (options[i].kind == WEFT_KIND_NONE) continue; /* the default */
    if (key.size < head || memcmp(key.data, kMetadata, head) != 0 || options[i].kind != WEFT_KIND_TEXT)
      return refuse(error, WEFT_INVALID_ARGUMENT,
                    "there is no option \"%.*s\"; a checkpoint is always one file, and the only options are "
                    "metadata.<key> (text)",
                    (int)key.size, key.data);
    n = l->num_texts++;
    if (!copy_text(&l->keys[n], (weft_str){key.data + head, key.size - head}) ||
        !copy_text(&l->values[n], options[i].text))
      return refuse(error, WEFT_RESOURCE_EXHAUSTED, "there is no memory for the metadata");
  }
  return WEFT_OK;
}

static weft_status take_entries(layout* l, const weft_tensor_entry* const* entries, uint64_t count,
                                weft_error* error) {
  const char* problem;
  uint64_t i;
  l->tensors = calloc(count + 1, sizeof(tensor));
  if (l->tensors == NULL) return refuse(error, WEFT_RESOURCE_EXHAUSTED, "there is no memory for the tensors");
  for (i = 0; i < count; ++i) {
    const weft_tensor_entry* entry = entries[i];
    tensor* t = &l->tensors[l->num_tensors++];
    if (!copy_text(&t->name, entry->name))
      return refuse(error, WEFT_RESOURCE_EXHAUSTED, "there is no memory for the tensors");
    t->dtype = entry->dtype;
    t->ndim = entry->ndim;
    if (t->ndim <= WEFT_MAX_DIMS) memcpy(t->shape, entry->shape, t->ndim * sizeof(int64_t));
  }
  problem = place_tensors(l);
  return problem == NULL ? WEFT_OK : refuse(error, WEFT_INVALID_ARGUMENT, "what is saved %s", problem);
}

/* Removes the temporary file before it unlocks it: afterwards the name can be that of another save's file. */
static void abandon(weft_checkpoint_writer* writer) {
  if (writer == NULL) return;
  if (writer->file >= 0) {
    unlink(writer->temporary);
    close(writer->file);
  }
  free_layout(&writer->layout);
  free(writer);
}

/* Fails with the reason in errno. */
static weft_status refuse_errno(weft_error* error, const char* what, const char* path) {
  const int code = errno;
  const int is_full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return refuse(error, is_full ? WEFT_RESOURCE_EXHAUSTED : WEFT_UNAVAILABLE, "cannot %s %s: %s", what, path,
                strerror(code));
}

/* Opens the temporary file, also one that a killed save left, and locks it until it is closed, at the latest
 * by the end of the process. */
static weft_status lock_file(weft_checkpoint_writer* writer, weft_error* error) {
  const char* const slash = strrchr(writer->path, '/');
  const int head = slash == NULL ? 0 : (int)(slash - writer->path) + 1;
  struct stat locked, named;
  int file;
  snprintf(writer->folder, sizeof writer->folder, "%.*s.", head, writer->path);
  snprintf(writer->temporary, sizeof writer->temporary, "%.*s.%s.partial", head, writer->path,
           writer->path + head);
  file = open(writer->temporary, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return refuse_errno(error, "open", writer->temporary);
  /* Until the lock is ours, another save can rename or remove the file: then the name is not that of `file`.
   */
  if (flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &locked) == 0 &&
      stat(writer->temporary, &named) == 0 && locked.st_ino == named.st_ino) {
    writer->file = file;
    return WEFT_OK;
  }
  close(file);
  return refuse(error, WEFT_UNAVAILABLE,
                "cannot save %s: its temporary file is locked; does another save run?", writer->path);
}

/* Gives the file its size, so that a full disk is known now. */
static weft_status make_file(weft_checkpoint_writer* writer, weft_error* error) {
  const char* problem;
  if (ftruncate(writer->file, 0) != 0) return refuse_errno(error, "empty", writer->temporary);
  errno = posix_fallocate(writer->file, 0, (off_t)writer->layout.size);
  if (errno != 0) return refuse_errno(error, "reserve space for", writer->path);
  problem = begin_boxes(&writer->layout);
  if (problem != NULL) return refuse(error, WEFT_RESOURCE_EXHAUSTED, "%s: %s", writer->path, problem);
  problem = write_header(writer->file, &writer->layout);
  if (problem != NULL) return refuse(error, WEFT_UNAVAILABLE, "cannot write %s: %s", writer->path, problem);
  return WEFT_OK;
}

static weft_status create(const weft_checkpoint_io* io, weft_str format, weft_str path,
                          const weft_kv* options, uint64_t num_options,
                          const weft_tensor_entry* const* entries, uint64_t num_entries,
                          weft_checkpoint_writer** own, weft_error* error) {
  (void)io, (void)format;
  weft_status status = WEFT_OK;
  weft_checkpoint_writer* writer = calloc(1, sizeof *writer);
  if (writer == NULL) return refuse(error, WEFT_RESOURCE_EXHAUSTED, "there is no memory");
  writer->file = -1;
  if (!file_path(path, writer->path))
    status = refuse(error, WEFT_INVALID_ARGUMENT, "the path is empty or too long");
  if (status == WEFT_OK) status = take_options(&writer->layout, options, num_options, error);
  if (status == WEFT_OK) status = take_entries(&writer->layout, entries, num_entries, error);
  if (status == WEFT_OK) status = lock_file(writer, error);
  if (status == WEFT_OK) status = make_file(writer, error);
  if (status == WEFT_OK)
    *own = writer;
  else
    abandon(writer);
  return status;
}

static weft_status write_box(weft_checkpoint_writer* writer, uint64_t index, const int64_t* offset,
                             const int64_t* extent, const void* source, uint64_t size, weft_error* error) {
  const tensor* const t = find_tensor(&writer->layout, writer->path, index, offset, extent, size, error);
  const char* problem;
  if (t == NULL) return WEFT_INVALID_ARGUMENT;
  problem = transfer(writer->file, t, offset, extent, (char*)source, 1);
  if (problem == NULL) return WEFT_OK;
  return refuse(error, WEFT_UNAVAILABLE, "%s: cannot write tensor %s: %s", writer->path, t->name.data,
                problem);
}

static int sync_folder(const char* folder) {
  const int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int is_synced = file >= 0 && fsync(file) == 0;
  if (file >= 0) close(file);
  return is_synced;
}

/* The file gets its name when all of it is on the disk: an earlier one is there until then. */
static weft_status commit(weft_checkpoint_writer* writer, weft_error* error) {
  const char* const unwritten = find_unwritten(&writer->layout);
  weft_status status = WEFT_OK;
  if (unwritten != NULL) {
    status = refuse(error, WEFT_FAILED_PRECONDITION, "%s: elements of tensor %s were never written",
                    writer->path, unwritten);
  } else if (fsync(writer->file) != 0 || rename(writer->temporary, writer->path) != 0) {
    status = refuse_errno(error, "save", writer->path);
  } else {
    close(writer->file);
    writer->file = -1; /* no longer temporary */
    if (!sync_folder(writer->folder)) status = refuse_errno(error, "sync the folder of", writer->path);
  }
  abandon(writer);
  return status;
}

static uint32_t owns(const weft_checkpoint_io* io, weft_str file, weft_str prefix) {
  (void)io;
  return prefix.size == 0 && is_text(file, kName);
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
