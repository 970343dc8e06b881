/* Loads the library as Weft does, writes tensors box by box and reads them back, and damages the file.
 *   format_test LIBRARY FOLDER */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/checkpoint_io.h>
#include <weft/plugin.h>

enum { kRows = 5, kColumns = 7 };

static const weft_checkpoint_io* format;
static weft_status last_status;
static char path[4096], file_name[4200];

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

/* A matrix, a scalar, and a tensor without elements. */
static weft_checkpoint_writer* begin_writing(void) {
  const weft_tensor_entry matrix = {
      sizeof(weft_tensor_entry), WEFT_STR("matrix"), WEFT_F32, 2, {kRows, kColumns}};
  const weft_tensor_entry scalar = {sizeof(weft_tensor_entry), WEFT_STR("scalar"), WEFT_I64, 0, {0}};
  const weft_tensor_entry empty = {sizeof(weft_tensor_entry), WEFT_STR("empty"), WEFT_U8, 3, {2, 0, 3}};
  const weft_tensor_entry* const entries[] = {&matrix, &scalar, &empty};
  const weft_kv option = {WEFT_STR("metadata.note"), WEFT_KIND_TEXT, 0, 0, 0, WEFT_STR("kept")};
  weft_checkpoint_writer* writer = NULL;
  EXPECT(format->create(format, kName, str(path), &option, 1, entries, 3, &writer, NULL) == WEFT_OK);
  return writer;
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

static void write_all(float first, int64_t scalar) {
  weft_checkpoint_writer* const writer = begin_writing();
  write_rows(writer, first, 2, kRows);
  write_rows(writer, first, 0, 2);
  EXPECT(format->write(writer, 1, NULL, NULL, &scalar, 8, NULL) == WEFT_OK);
  EXPECT(format->write(writer, 2, NULL, NULL, "", 0, NULL) == WEFT_OK);
  EXPECT(format->commit(writer, NULL) == WEFT_OK);
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
  EXPECT(format->metadata(reader, WEFT_STR("note")).size == 4);
  EXPECT(format->metadata(reader, WEFT_STR("other")).data == NULL);
  format->close(reader);
}

static void refuse_unknown_options(void) {
  const weft_tensor_entry entry = {sizeof entry, WEFT_STR("x"), WEFT_F32, 0, {0}};
  const weft_tensor_entry* const entries[] = {&entry};
  const weft_kv options[] = {{WEFT_STR("speed"), WEFT_KIND_INT, 0, 3, 0, {NULL, 0}},
                             {WEFT_STR("shard"), WEFT_KIND_BOOL, 0, 1, 0, {NULL, 0}}};
  weft_checkpoint_writer* writer = NULL;
  EXPECT(format->create(format, kName, str(path), &options[0], 1, entries, 1, &writer, NULL) ==
         WEFT_INVALID_ARGUMENT);
  EXPECT(format->create(format, kName, str(path), &options[1], 1, entries, 1, &writer, NULL) ==
         WEFT_UNIMPLEMENTED);
  EXPECT(writer == NULL);
}

/* What is there stays until another file is complete. */
static void leave_the_earlier_file(void) {
  weft_checkpoint_writer* writer = begin_writing();
  write_rows(writer, 900, 0, kRows);
  format->abandon(writer);
  format->abandon(NULL);
  expect_all(100, 7);
  writer = begin_writing();
  write_rows(writer, 900, 0, kRows - 1);
  EXPECT(format->commit(writer, NULL) == WEFT_FAILED_PRECONDITION);
  expect_all(100, 7);
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
  EXPECT(file != NULL && fseek(file, 24, SEEK_SET) == 0 && fputc(0xFF, file) == 0xFF && fclose(file) == 0);
  EXPECT(format->open(format, kName, str(path), &reader, NULL) == WEFT_DATA_LOSS);
  EXPECT(unlink(file_name) == 0);
  EXPECT(format->open(format, kName, str(path), &reader, NULL) == WEFT_NOT_FOUND &&
         format->recognises(format, str(path)) == 0);
  EXPECT(reader == NULL);
}

int main(int argc, char** argv) {
  const weft_checkpoint_io_factory* factory;
  if (argc != 3) fail(__LINE__, "usage: format_test LIBRARY FOLDER");
  snprintf(path, sizeof path, "%s", argv[2]);
  snprintf(file_name, sizeof file_name, "%s/model.template_name", argv[2]);
  factory = load_factory(argv[1]);
  EXPECT(factory != NULL && factory->find(factory, WEFT_STR("none")) == NULL);
  format = factory->find(factory, kName);
  EXPECT(format != NULL);
  refuse_unknown_options();
  write_all(500, 6);
  write_all(100, 7);
  expect_all(100, 7);
  leave_the_earlier_file();
  refuse_damaged_files();
  EXPECT(rmdir(path) == 0); /* no temporary file is left */
  puts("passed");
  return 0;
}
