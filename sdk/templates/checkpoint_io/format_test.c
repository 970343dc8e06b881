/* Loads the library as Weft does, writes tensors box by box and reads them back, lets saves fail, and damages
 * the file.
 *   format_test LIBRARY FOLDER */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/checkpoint_io.h>
#include <weft/plugin.h>

#include "file.h"

enum { kRows = 5, kColumns = 7, kNumTensors = sizeof FILE_HEAD - 1 + 16 /* the place of this number */ };

static const weft_checkpoint_io* format;
static weft_status last_status;
static const char *folder, *path; /* of the checkpoint: the folder, or a file */
static char file_name[4200];

static void fail(int line, const char* what) {
  fprintf(stderr, "line %d: %s\n", line, what);
  exit(1);
}
#define EXPECT(condition) \
  if (!(condition)) fail(__LINE__, #condition)

/* The host's functions that a format uses. */
static void set_error(weft_error* error, weft_status status, weft_str text) {
  (void)error;
  EXPECT(text.size > 0);
  last_status = status;
}
static void log_line(uint32_t level, weft_str from, weft_str text) {
  (void)level;
  printf("%.*s: %.*s\n", (int)from.size, from.data, (int)text.size, text.data);
}
static const void* no_extension(weft_str id) {
  (void)id;
  return NULL;
}

static const void* load_factory(const char* library) {
  static const weft_host host = {sizeof(weft_host), set_error, log_line, no_extension};
  weft_query_request request;
  weft_query_reply reply;
  void* const loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  weft_plugin_query_fn query;
  if (loaded == NULL) fail(__LINE__, dlerror());
  *(void**)&query = dlsym(loaded, WEFT_QUERY_SYMBOL);
  EXPECT(query != NULL);
  memset(&request, 0, sizeof request);
  memset(&reply, 0, sizeof reply);
  request.struct_size = sizeof request;
  reply.struct_size = sizeof reply;
  request.abi_major = WEFT_ABI_MAJOR;
  request.abi_minor_min = request.abi_minor_max = WEFT_ABI_MINOR;
  request.host = &host;
  EXPECT(query(&request, &reply, NULL) == WEFT_OK);
  return reply.plugin->get_factory(reply.plugin, WEFT_STR(WEFT_FACTORY_CHECKPOINT_IO));
}

static weft_str str(const char* text) {
  return (weft_str){text, strlen(text)};
}

static const weft_str kName = {"template_name", sizeof("template_name") - 1};

/* Begins to save a matrix, a scalar, and a tensor without elements. */
static weft_status begin(weft_checkpoint_writer** writer) {
  const weft_tensor_entry matrix = {
      sizeof(weft_tensor_entry), WEFT_STR("matrix"), WEFT_F32, 2, {kRows, kColumns}};
  const weft_tensor_entry scalar = {sizeof(weft_tensor_entry), WEFT_STR("scalar"), WEFT_I64, 0, {0}};
  const weft_tensor_entry empty = {sizeof(weft_tensor_entry), WEFT_STR("empty"), WEFT_U8, 3, {2, 0, 3}};
  const weft_tensor_entry* const entries[] = {&matrix, &scalar, &empty};
  const weft_kv options[] = {{WEFT_STR("metadata.notes"), WEFT_KIND_TEXT, 0, 0, 0, WEFT_STR("several")},
                             {WEFT_STR("metadata.note"), WEFT_KIND_TEXT, 0, 0, 0, WEFT_STR("one")}};
  *writer = NULL;
  return format->create(format, kName, str(path), options, 2, entries, 3, writer, NULL);
}

static weft_checkpoint_writer* begin_writing(void) {
  weft_checkpoint_writer* writer;
  EXPECT(begin(&writer) == WEFT_OK);
  return writer;
}

/* Returns the number of files in the folder, also of those with a temporary name. */
static int count_files(int removes) {
  DIR* const opened = opendir(folder);
  const struct dirent* entry;
  int found = 0;
  EXPECT(opened != NULL);
  while ((entry = readdir(opened)) != NULL) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (removes) unlinkat(dirfd(opened), entry->d_name, 0);
    ++found;
  }
  closedir(opened);
  return found;
}

/* Element (r, c) of the matrix is first + 10 r + c. */
static void write_rows(weft_checkpoint_writer* writer, float first, int64_t begin, int64_t end) {
  const int64_t middle = 3;
  int64_t r, c, n;
  for (n = 0; n < 2; ++n) { /* the columns in two boxes */
    float box[kRows * kColumns];
    const int64_t offset[] = {begin, n == 0 ? 0 : middle};
    const int64_t extent[] = {end - begin, n == 0 ? middle : kColumns - middle};
    for (r = 0; r < extent[0]; ++r)
      for (c = 0; c < extent[1]; ++c)
        box[r * extent[1] + c] = first + (float)(10 * (offset[0] + r) + offset[1] + c);
    EXPECT(format->write(writer, 0, offset, extent, box, (uint64_t)(extent[0] * extent[1]) * 4, NULL) ==
           WEFT_OK);
  }
}

static void finish_writing(weft_checkpoint_writer* writer, float first, int64_t scalar) {
  write_rows(writer, first, 2, kRows);
  write_rows(writer, first, 0, 2);
  EXPECT(format->write(writer, 1, NULL, NULL, &scalar, 8, NULL) == WEFT_OK);
  EXPECT(format->write(writer, 2, NULL, NULL, "", 0, NULL) == WEFT_OK);
  EXPECT(format->commit(writer, NULL) == WEFT_OK);
  EXPECT(count_files(0) == 1);
}

static void write_all(float first, int64_t scalar) {
  finish_writing(begin_writing(), first, scalar);
}

static void expect_all(float first, int64_t scalar) {
  const int64_t offset[] = {1, 2}, extent[] = {3, 4}, beyond[] = {kRows, 4};
  float box[12];
  int64_t found = 0, r, c;
  weft_tensor_entry entry = {sizeof entry, WEFT_STR(""), 0, 0, {0}};
  weft_checkpoint_reader* reader = NULL;
  EXPECT(format->recognises(format, str(path)) == 1);
  EXPECT(format->open(format, kName, str(path), &reader, NULL) == WEFT_OK);
  EXPECT(format->num_tensors(reader) == 3);
  EXPECT(format->tensor(reader, 0, &entry, NULL) == WEFT_OK);
  EXPECT(entry.name.size == 6 && memcmp(entry.name.data, "matrix", 6) == 0);
  EXPECT(entry.dtype == WEFT_F32 && entry.ndim == 2 && entry.shape[0] == kRows && entry.shape[1] == kColumns);
  EXPECT(format->read(reader, 0, offset, extent, box, sizeof box, NULL) == WEFT_OK);
  for (r = 0; r < 3; ++r)
    for (c = 0; c < 4; ++c) EXPECT(box[r * 4 + c] == first + (float)(10 * (r + 1) + c + 2));
  EXPECT(format->read(reader, 0, offset, beyond, box, sizeof box, NULL) != WEFT_OK);
  EXPECT(format->read(reader, 0, offset, extent, box, sizeof box - 4, NULL) != WEFT_OK);
  EXPECT(format->read(reader, 1, NULL, NULL, &found, 8, NULL) == WEFT_OK && found == scalar);
  EXPECT(format->read(reader, 2, NULL, NULL, &found, 0, NULL) == WEFT_OK);
  EXPECT(format->metadata(reader, WEFT_STR("note")).size == 3);
  EXPECT(format->metadata(reader, WEFT_STR("notes")).size == 7);
  EXPECT(format->metadata(reader, WEFT_STR("not")).data == NULL);
  format->close(reader);
}

/* Other keys are refused, also those that are the beginning of one or begin like one. */
static void refuse_unknown_options(void) {
  const weft_tensor_entry entry = {sizeof entry, WEFT_STR("x"), WEFT_F32, 0, {0}};
  const weft_tensor_entry* const entries[] = {&entry, &entry};
  const weft_kv options[] = {{WEFT_STR("speed"), WEFT_KIND_INT, 0, 3, 0, {NULL, 0}},
                             {WEFT_STR("shard"), WEFT_KIND_BOOL, 0, 1, 0, {NULL, 0}},
                             {WEFT_STR("shards"), WEFT_KIND_BOOL, 0, 0, 0, {NULL, 0}},
                             {WEFT_STR("metadata"), WEFT_KIND_TEXT, 0, 0, 0, WEFT_STR("text")},
                             {WEFT_STR("metadata.n"), WEFT_KIND_INT, 0, 3, 0, {NULL, 0}}};
  weft_checkpoint_writer* writer = NULL;
  size_t i;
  for (i = 0; i < sizeof options / sizeof options[0]; ++i)
    EXPECT(format->create(format, kName, str(path), &options[i], 1, entries, 1, &writer, NULL) ==
           WEFT_INVALID_ARGUMENT);
  EXPECT(format->create(format, kName, str(path), NULL, 0, entries, 2, &writer, NULL) ==
         WEFT_INVALID_ARGUMENT); /* two tensors with the same name */
  EXPECT(writer == NULL);
  EXPECT(count_files(0) == 0);
}

static void save_without_a_folder(void) {
  char single[4200];
  snprintf(single, sizeof single, "%s/single", folder);
  path = single;
  write_all(300, 5);
  expect_all(300, 5);
  path = folder;
  EXPECT(unlink(single) == 0);
}

/* What is there stays until another file is complete. Boxes that overlap do not stand for what is missing. */
static void leave_the_earlier_file(void) {
  const int64_t scalar = 9;
  weft_checkpoint_writer* writer = begin_writing();
  write_rows(writer, 900, 0, kRows);
  format->abandon(writer);
  format->abandon(NULL);
  expect_all(100, 7);
  EXPECT(count_files(0) == 1);
  writer = begin_writing();
  EXPECT(format->write(writer, 1, NULL, NULL, &scalar, 8, NULL) == WEFT_OK);
  write_rows(writer, 900, 0, kRows - 1);
  write_rows(writer, 900, 0, kRows - 1);
  EXPECT(format->commit(writer, NULL) == WEFT_FAILED_PRECONDITION);
  EXPECT(count_files(0) == 1);
  writer = begin_writing();
  write_rows(writer, 900, 0, kRows); /* and not the scalar */
  EXPECT(format->commit(writer, NULL) == WEFT_FAILED_PRECONDITION);
  expect_all(100, 7);
  EXPECT(count_files(0) == 1);
}

static void refuse_a_second_save(void) {
  weft_checkpoint_writer *first = begin_writing(), *second;
  EXPECT(begin(&second) == WEFT_UNAVAILABLE && second == NULL);
  finish_writing(first, 200, 8);
  expect_all(200, 8);
  write_all(100, 7);
}

/* A killed save holds no lock, and the next one takes its file, which can be the larger one. */
static void save_after_a_killed_save(void) {
  char left[4200];
  int status;
  const pid_t child = fork();
  if (child == 0) {
    write_rows(begin_writing(), 900, 0, kRows);
    _exit(0);
  }
  EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  expect_all(100, 7);
  EXPECT(count_files(0) == 2);
  snprintf(left, sizeof left, "%s/.model.template_name.partial", folder);
  EXPECT(truncate(left, 100000) == 0);
  write_all(100, 7);
  expect_all(100, 7);
}

/* A limit for the size of files stands for a full disk. */
static void refuse_what_does_not_fit(void) {
  weft_checkpoint_writer* writer;
  struct rlimit all, small;
  EXPECT(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
  EXPECT(getrlimit(RLIMIT_FSIZE, &all) == 0);
  small = all;
  small.rlim_cur = 8;
  EXPECT(setrlimit(RLIMIT_FSIZE, &small) == 0);
  EXPECT(begin(&writer) == WEFT_RESOURCE_EXHAUSTED && writer == NULL);
  EXPECT(setrlimit(RLIMIT_FSIZE, &all) == 0);
  expect_all(100, 7);
  EXPECT(count_files(0) == 1);
}

/* Every shorter file, and a file with a wrong byte in its header, is refused. */
static void refuse_damaged_files(void) {
  struct stat status;
  weft_checkpoint_reader* reader = NULL;
  FILE* file;
  long size;
  EXPECT(stat(file_name, &status) == 0);
  for (size = (long)status.st_size - 1; size >= 0; size -= size > 40 ? 13 : 1) {
    EXPECT(truncate(file_name, size) == 0);
    EXPECT(format->open(format, kName, str(path), &reader, NULL) == WEFT_DATA_LOSS &&
           last_status == WEFT_DATA_LOSS);
  }
  write_all(100, 7);
  file = fopen(file_name, "r+b");
  EXPECT(file != NULL && fseek(file, kNumTensors, SEEK_SET) == 0 && fputc(0xFF, file) == 0xFF &&
         fclose(file) == 0);
  EXPECT(format->open(format, kName, str(path), &reader, NULL) == WEFT_DATA_LOSS);
  EXPECT(unlink(file_name) == 0);
  EXPECT(format->open(format, kName, str(path), &reader, NULL) == WEFT_NOT_FOUND &&
         format->recognises(format, str(path)) == 0);
  EXPECT(reader == NULL);
}

int main(int argc, char** argv) {
  const weft_checkpoint_io_factory* factory;
  if (argc != 3) fail(__LINE__, "usage: format_test LIBRARY FOLDER");
  path = folder = argv[2];
  mkdir(folder, 0777);
  count_files(1); /* what a failed test left */
  snprintf(file_name, sizeof file_name, "%s/model.template_name", argv[2]);
  factory = load_factory(argv[1]);
  EXPECT(factory != NULL && factory->find(factory, WEFT_STR("none")) == NULL);
  EXPECT(factory->find(factory, (weft_str){kName.data, kName.size - 1}) == NULL);
  format = factory->find(factory, kName);
  EXPECT(format != NULL);
  refuse_unknown_options();
  save_without_a_folder();
  write_all(500, 6);
  write_all(100, 7);
  expect_all(100, 7);
  leave_the_earlier_file();
  refuse_a_second_save();
  save_after_a_killed_save();
  refuse_what_does_not_fit();
  refuse_damaged_files();
  EXPECT(rmdir(folder) == 0);
  puts("passed");
  return 0;
}
