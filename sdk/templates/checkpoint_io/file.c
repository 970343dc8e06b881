#define _POSIX_C_SOURCE 200809L
#include "file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kHead = sizeof FILE_HEAD - 1, kLargestHeader = 1 << 28 };

uint64_t element_size(uint32_t dtype) {
  switch (dtype) {
    case WEFT_F64:
    case WEFT_I64:
      return 8;
    case WEFT_F32:
    case WEFT_I32:
      return 4;
    case WEFT_F16:
    case WEFT_BF16:
    case WEFT_I16:
      return 2;
    case WEFT_I8:
    case WEFT_U8:
    case WEFT_BOOL:
      return 1;
    default:
      return 0;
  }
}

/* Reads or writes all bytes, also in several parts. */
static int all_bytes(int file, char* bytes, uint64_t size, uint64_t at, int writes) {
  while (size > 0) {
    const ssize_t moved = writes ? pwrite(file, bytes, size, (off_t)at) : pread(file, bytes, size, (off_t)at);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) {
      if (moved == 0) errno = EIO;
      return 0;
    }
    bytes += moved;
    at += (uint64_t)moved;
    size -= (uint64_t)moved;
  }
  return 1;
}

static uint64_t header_size(const layout* l) {
  uint64_t i, size = kHead + 3 * 8;
  for (i = 0; i < l->num_texts; ++i) size += 16 + l->keys[i].size + l->values[i].size;
  for (i = 0; i < l->num_tensors; ++i) size += 24 + l->tensors[i].name.size + 8 * l->tensors[i].ndim;
  return size;
}

static int compare_names(const void* left, const void* right) {
  const text *a = left, *b = right;
  const int order = memcmp(a->data, b->data, a->size < b->size ? a->size : b->size);
  return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

static const char* check_names(const layout* l) {
  text* const names = malloc((l->num_tensors + 1) * sizeof *names);
  const char* problem = NULL;
  uint64_t i;
  if (names == NULL) return "has too many tensors for the memory";
  for (i = 0; i < l->num_tensors; ++i) names[i] = l->tensors[i].name;
  qsort(names, l->num_tensors, sizeof *names, compare_names);
  for (i = 1; i < l->num_tensors; ++i)
    if (compare_names(&names[i - 1], &names[i]) == 0) problem = "has a tensor name twice";
  free(names);
  return problem;
}

const char* place_tensors(layout* l) {
  uint64_t i, at = header_size(l);
  for (i = 0; i < l->num_tensors; ++i) {
    tensor* t = &l->tensors[i];
    uint64_t bytes = element_size(t->dtype);
    uint32_t d;
    if (bytes == 0) return "has a tensor of an unknown dtype";
    if (t->ndim > WEFT_MAX_DIMS) return "has a tensor with too many dimensions";
    t->count = 1;
    for (d = 0; d < t->ndim; ++d) {
      if (t->shape[d] < 0) return "has a tensor with a negative size";
      if (__builtin_mul_overflow(t->count, (uint64_t)t->shape[d], &t->count)) return "has too large a tensor";
    }
    t->begin = at;
    if (__builtin_mul_overflow(bytes, t->count, &bytes) || __builtin_add_overflow(at, bytes, &at) ||
        at > INT64_MAX)
      return "has too large a tensor";
  }
  l->size = at;
  return check_names(l);
}

void free_layout(layout* l) {
  uint64_t i;
  for (i = 0; l->keys != NULL && i < l->num_texts; ++i) free(l->keys[i].data);
  for (i = 0; l->values != NULL && i < l->num_texts; ++i) free(l->values[i].data);
  for (i = 0; l->tensors != NULL && i < l->num_tensors; ++i) {
    free(l->tensors[i].name.data);
    free(l->tensors[i].written);
  }
  free(l->keys);
  free(l->values);
  free(l->tensors);
}

/* The header in memory, of which a part is read or written. */
typedef struct cursor {
  char* at;
  const char* end;
} cursor;

static int take_number(cursor* c, uint64_t* number) {
  if (c->end - c->at < 8) return 0;
  memcpy(number, c->at, 8);
  c->at += 8;
  return 1;
}

static int take_text(cursor* c, text* own) {
  if (!take_number(c, &own->size) || own->size > (uint64_t)(c->end - c->at)) return 0;
  own->data = malloc(own->size + 1);
  if (own->data == NULL) return 0;
  memcpy(own->data, c->at, own->size);
  own->data[own->size] = 0;
  c->at += own->size;
  return 1;
}

static int take_tensor(cursor* c, tensor* t) {
  uint64_t dtype, ndim, d, size;
  if (!take_text(c, &t->name) || !take_number(c, &dtype) || !take_number(c, &ndim)) return 0;
  if (dtype > UINT32_MAX || ndim > WEFT_MAX_DIMS) return 0;
  t->dtype = (uint32_t)dtype;
  t->ndim = (uint32_t)ndim;
  for (d = 0; d < ndim; ++d) {
    if (!take_number(c, &size)) return 0;
    t->shape[d] = (int64_t)size;
  }
  return 1;
}

static int take_all(cursor* c, layout* l) {
  uint64_t i;
  const uint64_t most = (uint64_t)(c->end - c->at); /* more than there can be */
  if (!take_number(c, &l->num_texts) || !take_number(c, &l->num_tensors)) return 0;
  if (l->num_texts > most / 16 || l->num_tensors > most / 24) {
    l->num_texts = l->num_tensors = 0;
    return 0;
  }
  l->keys = calloc(l->num_texts + 1, sizeof(text));
  l->values = calloc(l->num_texts + 1, sizeof(text));
  l->tensors = calloc(l->num_tensors + 1, sizeof(tensor));
  if (l->keys == NULL || l->values == NULL || l->tensors == NULL) return 0;
  for (i = 0; i < l->num_texts; ++i)
    if (!take_text(c, &l->keys[i]) || !take_text(c, &l->values[i])) return 0;
  for (i = 0; i < l->num_tensors; ++i)
    if (!take_tensor(c, &l->tensors[i])) return 0;
  return c->at == c->end;
}

const char* read_header(int file, layout* l, int* damaged) {
  struct stat status;
  char first[kHead + 8];
  uint64_t size = 0;
  const char* problem = NULL;
  cursor c;
  char* header;
  *damaged = 0;
  if (fstat(file, &status) != 0) return strerror(errno);
  *damaged = 1;
  if (!all_bytes(file, first, sizeof first, 0, 0) || memcmp(first, FILE_HEAD, kHead) != 0)
    return "does not begin like this format";
  memcpy(&size, first + kHead, 8);
  if (size < sizeof first || size > kLargestHeader || size > (uint64_t)status.st_size)
    return "ends within its header";
  header = malloc(size);
  if (header == NULL || !all_bytes(file, header, size, 0, 0)) {
    free(header);
    return "has a header that cannot be read";
  }
  c.at = header + sizeof first;
  c.end = header + size;
  if (!take_all(&c, l)) problem = "has a damaged header";
  free(header);
  if (problem == NULL) problem = place_tensors(l);
  if (problem == NULL && l->size != (uint64_t)status.st_size)
    problem = "has another size than its header says";
  if (problem == NULL) *damaged = 0;
  return problem;
}

static void put(cursor* c, const void* bytes, uint64_t size) {
  if (size > 0) memcpy(c->at, bytes, size);
  c->at += size;
}

static void put_text(cursor* c, text t) {
  put(c, &t.size, 8);
  put(c, t.data, t.size);
}

const char* write_header(int file, const layout* l) {
  const uint64_t size = header_size(l);
  char* header = size <= kLargestHeader ? malloc(size) : NULL;
  cursor c = {header, NULL};
  uint64_t i;
  int written;
  if (header == NULL) return "there is no memory for the header";
  put(&c, FILE_HEAD, kHead);
  put(&c, &size, 8);
  put(&c, &l->num_texts, 8);
  put(&c, &l->num_tensors, 8);
  for (i = 0; i < l->num_texts; ++i) {
    put_text(&c, l->keys[i]);
    put_text(&c, l->values[i]);
  }
  for (i = 0; i < l->num_tensors; ++i) {
    const tensor* t = &l->tensors[i];
    const uint64_t numbers[2] = {t->dtype, t->ndim};
    put_text(&c, t->name);
    put(&c, numbers, sizeof numbers);
    put(&c, t->shape, 8 * (uint64_t)t->ndim);
  }
  written = all_bytes(file, header, size, 0, 1);
  free(header);
  return written ? NULL : strerror(errno);
}

const char* check_box(const tensor* t, const int64_t* offset, const int64_t* extent, uint64_t size) {
  uint64_t bytes = element_size(t->dtype);
  uint32_t d;
  for (d = 0; d < t->ndim; ++d) {
    const int64_t begin = offset != NULL ? offset[d] : 0, width = extent != NULL ? extent[d] : t->shape[d];
    if (begin < 0 || width < 0 || begin > t->shape[d] || width > t->shape[d] - begin)
      return "a box is not within its tensor";
    bytes *= (uint64_t)width;
  }
  return size == bytes ? NULL : "a box has another number of bytes than its shape";
}

/* Marks elements as written. Threads that write other elements may share a byte of the bits. */
static void mark(unsigned char* written, uint64_t begin, uint64_t count) {
  const uint64_t end = begin + count;
  while (begin < end) {
    if (begin % 8 == 0 && end - begin >= 8) {
      __atomic_store_n(&written[begin / 8], 0xFF, __ATOMIC_RELAXED);
      begin += 8;
    } else {
      __atomic_fetch_or(&written[begin / 8], (unsigned char)(1U << begin % 8), __ATOMIC_RELAXED);
      ++begin;
    }
  }
}

const char* transfer(int file, const tensor* t, const int64_t* offset, const int64_t* extent, char* memory,
                     int writes) {
  const uint64_t bytes = element_size(t->dtype);
  int64_t index[WEFT_MAX_DIMS] = {0}; /* within the box */
  uint64_t count = 1, run, done, at;
  uint32_t d;
  for (d = 0; d < t->ndim; ++d) count *= (uint64_t)(extent != NULL ? extent[d] : t->shape[d]);
  run = t->ndim == 0 ? 1 : (uint64_t)(extent != NULL ? extent[t->ndim - 1] : t->shape[t->ndim - 1]);
  for (done = 0; done < count; done += run) {
    at = 0;
    for (d = 0; d < t->ndim; ++d)
      at = at * (uint64_t)t->shape[d] + (uint64_t)(index[d] + (offset != NULL ? offset[d] : 0));
    if (!all_bytes(file, memory + done * bytes, run * bytes, t->begin + at * bytes, writes))
      return strerror(errno);
    if (writes) mark(t->written, at, run);
    for (d = t->ndim < 2 ? 0 : t->ndim - 1; d-- > 0;) { /* the next row */
      if (++index[d] < (extent != NULL ? extent[d] : t->shape[d])) break;
      index[d] = 0;
    }
  }
  return NULL;
}

static uint64_t num_bits(const tensor* t) {
  return (t->count + 7) / 8 * 8;
}

const char* begin_boxes(layout* l) {
  uint64_t i;
  for (i = 0; i < l->num_tensors; ++i) {
    tensor* t = &l->tensors[i];
    t->written = calloc(num_bits(t) / 8 + 1, 1);
    if (t->written == NULL) return "there is no memory for a bit of each element";
    mark(t->written, t->count, num_bits(t) - t->count); /* the last byte has more bits than elements */
  }
  return NULL;
}

const char* find_unwritten(const layout* l) {
  uint64_t i, n;
  for (i = 0; i < l->num_tensors; ++i)
    for (n = 0; n < num_bits(&l->tensors[i]) / 8; ++n)
      if (l->tensors[i].written[n] != 0xFF) return l->tensors[i].name.data;
  return NULL;
}
