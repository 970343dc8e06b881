/* The files of the format: each call opens what it needs, so that several threads can read and write. */
#define _GNU_SOURCE
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kLargestIndex = 100 << 20 };

char* raw_text(const char* format, ...) {
  char* text = NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&text, format, arguments) < 0) text = NULL;
  va_end(arguments);
  return text;
}

weft_status raw_fail_errno(weft_error* error, const char* what, const char* path) {
  const int code = errno;
  const weft_status status =
      code == ENOENT                                     ? WEFT_NOT_FOUND
      : code == EACCES || code == EPERM || code == EROFS ? WEFT_PERMISSION_DENIED
      : code == ENOSPC || code == EDQUOT || code == EFBIG || code == ENOMEM || code == EMFILE
          ? WEFT_RESOURCE_EXHAUSTED
          : WEFT_UNAVAILABLE;
  return raw_fail(error, status, "cannot %s %s: %s", what, path == NULL ? "(no memory)" : path,
                  strerror(code));
}

char* raw_folder_of(const char* path) {
  const char* const slash = strrchr(path, '/');
  const char* const name = slash == NULL ? path : slash + 1;
  if (strcmp(name, RAW_INDEX) != 0) return raw_text("%s", path);
  return slash == NULL ? raw_text(".") : raw_text("%.*s", slash == path ? 1 : (int)(slash - path), path);
}

static weft_status read_text(const char* path, char** text, weft_error* error) {
  struct stat found;
  FILE* const file = fopen(path, "rb");
  if (file == NULL) return raw_fail_errno(error, "open the index", path);
  weft_status status = WEFT_OK;
  if (fstat(fileno(file), &found) != 0 || found.st_size > kLargestIndex)
    status = raw_fail(error, WEFT_DATA_LOSS, "%s: it has more than %d bytes", path, kLargestIndex);
  const size_t size = status == WEFT_OK ? (size_t)found.st_size : 0;
  *text = status == WEFT_OK ? calloc(size + 1, 1) : NULL;
  if (status == WEFT_OK && *text == NULL)
    status = raw_fail(error, WEFT_RESOURCE_EXHAUSTED, "%s: no memory", path);
  if (status == WEFT_OK && (fread(*text, 1, size, file) != size || strlen(*text) != size))
    status = raw_fail(error, WEFT_DATA_LOSS, "%s: it has a NUL byte, or became shorter", path);
  fclose(file);
  return status;
}

weft_status raw_load_index(const char* folder, raw_index* index, weft_error* error) {
  char *text = NULL, *path = raw_text("%s/" RAW_INDEX, folder);
  weft_status status = path == NULL ? raw_fail(error, WEFT_RESOURCE_EXHAUSTED, "%s: no memory", folder)
                                    : read_text(path, &text, error);
  if (status == WEFT_OK) status = raw_parse_index(text, path, index, error);
  free(text);
  free(path);
  return status;
}

static char* file_of(const char* data, uint64_t number) {
  return raw_text("%s/%llu.raw", data, (unsigned long long)number);
}

weft_status raw_check_size(const char* data, uint64_t number, const raw_tensor* tensor, weft_error* error) {
  struct stat found;
  char* const path = file_of(data, number);
  weft_status status = WEFT_OK;
  if (path == NULL || stat(path, &found) != 0)
    status = raw_fail(error, WEFT_DATA_LOSS, "the file %s of tensor %s cannot be found: %s",
                      path == NULL ? data : path, tensor->name, strerror(errno));
  else if (!S_ISREG(found.st_mode) || (uint64_t)found.st_size != tensor->bytes)
    status = raw_fail(error, WEFT_DATA_LOSS, "%s: it has %lld bytes, tensor %s has %llu", path,
                      (long long)found.st_size, tensor->name, (unsigned long long)tensor->bytes);
  free(path);
  return status;
}

/* A file, and the next byte in memory. Writes from `source`, or reads into `destination`. */
typedef struct transfer {
  int file;
  const char* path;
  char* destination;
  const char* source;
  weft_error* error;
} transfer;

static weft_status move_run(void* context, uint64_t at, uint64_t size) {
  transfer* const moved = context;
  while (size > 0) {
    const ssize_t done = moved->source != NULL
                             ? pwrite(moved->file, moved->source, (size_t)size, (off_t)at)
                             : pread(moved->file, moved->destination, (size_t)size, (off_t)at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return raw_fail_errno(moved->error, moved->source != NULL ? "write" : "read", moved->path);
    if (done == 0) return raw_fail(moved->error, WEFT_DATA_LOSS, "%s: it was truncated", moved->path);
    if (moved->source != NULL)
      moved->source += done;
    else
      moved->destination += done;
    at += (uint64_t)done;
    size -= (uint64_t)done;
  }
  return WEFT_OK;
}

static weft_status move_box(const char* data, uint64_t number, const raw_tensor* tensor, const raw_box* box,
                            void* destination, const void* source, weft_error* error) {
  char* const path = file_of(data, number);
  transfer moved = {-1, path, destination, source, error};
  if (path != NULL) moved.file = open(path, (source != NULL ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  const weft_status status =
      moved.file < 0 ? raw_fail_errno(error, "open", path) : raw_each_run(tensor, box, move_run, &moved);
  if (moved.file >= 0) close(moved.file);
  free(path);
  return status;
}

weft_status raw_read_runs(const char* data, uint64_t number, const raw_tensor* tensor, const raw_box* box,
                          void* destination, weft_error* error) {
  return move_box(data, number, tensor, box, destination, NULL, error);
}

weft_status raw_write_runs(const char* data, uint64_t number, const raw_tensor* tensor, const raw_box* box,
                           const void* source, weft_error* error) {
  return source == NULL ? WEFT_OK : move_box(data, number, tensor, box, NULL, source, error);
}

/* --- generations */

static weft_status sync_path(const char* path, weft_error* error) {
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return raw_fail_errno(error, "open", path);
  const weft_status status = fsync(file) == 0 ? WEFT_OK : raw_fail_errno(error, "sync", path);
  close(file);
  return status;
}

static weft_status sync_parent(const char* folder, weft_error* error) {
  char* const parent = raw_text("%s/..", folder);
  const weft_status status = sync_path(parent, error);
  free(parent);
  return status;
}

weft_status raw_lock_folder(const char* folder, int* is_made, int* lock, weft_error* error) {
  if (mkdir(folder, 0777) == 0) {
    *is_made = 1;
    const weft_status status = sync_parent(folder, error);
    if (status != WEFT_OK) return status;
  } else if (errno != EEXIST) {
    return raw_fail_errno(error, "make the folder", folder);
  }
  *lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (*lock < 0) return raw_fail_errno(error, "open the folder", folder);
  if (flock(*lock, LOCK_EX | LOCK_NB) == 0) return WEFT_OK;
  return raw_fail_errno(error, errno == EWOULDBLOCK ? "save, because another save runs, to" : "lock", folder);
}

void raw_unlock(int lock) {
  if (lock >= 0) close(lock);
}

void raw_remove_generation(const char* data) {
  DIR* const folder = opendir(data);
  for (struct dirent* entry; folder != NULL && (entry = readdir(folder)) != NULL;)
    if (entry->d_name[0] != '.') unlinkat(dirfd(folder), entry->d_name, 0);
  if (folder != NULL) closedir(folder);
  rmdir(data);
}

void raw_remove_empty(const char* folder) {
  rmdir(folder);
}

/* Removes all generations but one. */
static void remove_generations(const char* folder, const char* kept) {
  DIR* const found = opendir(folder);
  for (struct dirent* entry; found != NULL && (entry = readdir(found)) != NULL;) {
    if (strncmp(entry->d_name, RAW_DATA, strlen(RAW_DATA)) != 0) continue;
    if (kept != NULL && strcmp(entry->d_name + strlen(RAW_DATA), kept) == 0) continue;
    char* const data = raw_text("%s/%s", folder, entry->d_name);
    if (data != NULL) raw_remove_generation(data);
    free(data);
  }
  if (found != NULL) closedir(found);
}

/* A damaged index does not say which generation is whose; then all of them stay until the save is complete.
 */
static void remove_leftovers(const char* folder) {
  raw_index index = {0};
  const weft_status status = raw_load_index(folder, &index, NULL);
  if (status == WEFT_OK || status == WEFT_NOT_FOUND) remove_generations(folder, index.generation);
  raw_free_index(&index);
}

static weft_status reserve_file(const char* path, uint64_t bytes, weft_error* error) {
  const int file = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return raw_fail_errno(error, "make", path);
  errno = bytes == 0 ? 0 : posix_fallocate(file, 0, (off_t)bytes);
  const weft_status status = errno == 0 ? WEFT_OK : raw_fail_errno(error, "reserve space for", path);
  close(file);
  return status;
}

weft_status raw_make_generation(const char* folder, raw_index* index, char** data, weft_error* error) {
  remove_leftovers(folder);
  for (unsigned number = 0;; ++number) {
    char* const made = raw_text("%s/" RAW_DATA "%u", folder, number);
    if (made != NULL && mkdir(made, 0777) == 0) {
      *data = made;
      index->generation = raw_text("%u", number);
      break;
    }
    const int is_taken = made != NULL && errno == EEXIST;
    free(made);
    if (!is_taken) return raw_fail_errno(error, "make a folder in", folder);
  }
  weft_status status = WEFT_OK;
  if (index->generation == NULL) return raw_fail(error, WEFT_RESOURCE_EXHAUSTED, "%s: no memory", folder);
  for (uint64_t i = 0; status == WEFT_OK && i < index->num_tensors; ++i) {
    char* const path = file_of(*data, i);
    status = reserve_file(path, index->tensors[i].bytes, error);
    free(path);
  }
  return status;
}

static weft_status write_index(const char* path, const raw_index* index, weft_error* error) {
  char* const text = raw_write_index(index);
  FILE* const file = text == NULL ? NULL : fopen(path, "wbe");
  if (file == NULL) {
    free(text);
    return raw_fail_errno(error, "write", path);
  }
  const int is_written = fputs(text, file) >= 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
  const weft_status status = is_written ? WEFT_OK : raw_fail_errno(error, "write", path);
  fclose(file);
  free(text);
  return status;
}

weft_status raw_put_in_place(const char* folder, char** data, const raw_index* index, weft_error* error) {
  weft_status status = WEFT_OK;
  for (uint64_t i = 0; status == WEFT_OK && i < index->num_tensors; ++i) {
    char* const path = file_of(*data, i);
    status = sync_path(path, error);
    free(path);
  }
  if (status == WEFT_OK) status = sync_path(*data, error);
  char* const partial = raw_text("%s/" RAW_INDEX_PARTIAL, folder);
  char* const place = raw_text("%s/" RAW_INDEX, folder);
  if (status == WEFT_OK && (partial == NULL || place == NULL))
    status = raw_fail(error, WEFT_RESOURCE_EXHAUSTED, "%s: no memory", folder);
  if (status == WEFT_OK) status = write_index(partial, index, error);
  if (status == WEFT_OK && rename(partial, place) != 0) status = raw_fail_errno(error, "rename", partial);
  if (status == WEFT_OK) {
    /* It is the checkpoint now. The older one goes when the disk knows that. */
    free(*data);
    *data = NULL;
    status = sync_path(folder, error);
    if (status == WEFT_OK) remove_generations(folder, index->generation);
  } else if (partial != NULL) {
    unlink(partial);
  }
  free(partial);
  free(place);
  return status;
}
