/* compare_weights WANTED FOUND: compares the weights of two safetensors files in fp64. Ends with 0 if they
 * have the same tensors, all elements are equal up to rounding, and not all of them are 0. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct weights {
  char* header; /* JSON: for each tensor its dtype, shape and place */
  double* data;
  uint64_t count;
} weights;

static void fail(const char* path, const char* why) {
  fprintf(stderr, "compare_weights: %s %s\n", path, why);
  exit(2);
}

/* The header's size comes first, as a little-endian number. */
static weights read_weights(const char* path) {
  const uint64_t most = (uint64_t)1 << 32;
  weights w = {NULL, NULL, 0};
  uint64_t size = 0;
  long bytes = 0;
  FILE* file = fopen(path, "rb");
  if (file == NULL) fail(path, "cannot be opened");
  if (fread(&size, sizeof size, 1, file) != 1 || size > most) fail(path, "is no safetensors file");
  w.header = calloc(size + 1, 1);
  if (w.header == NULL || fread(w.header, 1, size, file) != size) fail(path, "ends within its header");
  if (fseek(file, 0, SEEK_END) != 0 || (bytes = ftell(file)) < 0) fail(path, "cannot be read");
  w.count = ((uint64_t)bytes - 8 - size) / sizeof(double);
  w.data = malloc(w.count * sizeof(double) + 1);
  if (w.data == NULL || fseek(file, (long)(8 + size), SEEK_SET) != 0 ||
      fread(w.data, sizeof(double), w.count, file) != w.count)
    fail(path, "cannot be read");
  fclose(file);
  return w;
}

/* Writes the name of the tensor whose bytes have `place`, and returns its first byte. Stops at a tensor that
 * is not in fp64. */
static uint64_t find_tensor(const char* path, const char* header, uint64_t place, char* name, size_t size) {
  const char* at = header;
  while ((at = strstr(at, "\"dtype\":\"")) != NULL) {
    const char *end = at, *begin, *offsets = strstr(at, "\"data_offsets\":[");
    char* next = NULL;
    uint64_t first, last;
    if (strncmp(at + 9, "F64\"", 4) != 0) fail(path, "has a tensor that is not in fp64");
    if (offsets == NULL) fail(path, "has a tensor without a place");
    first = strtoull(offsets + 16, &next, 10);
    last = strtoull(next + 1, NULL, 10);
    while (end > header && *end != ':') --end;
    for (begin = end - 2; begin > header && *begin != '"';) --begin;
    if (place >= first && place < last) {
      snprintf(name, size, "%.*s", (int)(end - 2 - begin), begin + 1);
      return first;
    }
    at = offsets;
  }
  fail(path, "has bytes of no tensor");
  return 0;
}

int main(int argc, char** argv) {
  weights wanted, found;
  double largest = 0, sum = 0;
  uint64_t i, worst = 0, first;
  char name[256];
  if (argc != 3) fail("usage:", "compare_weights WANTED FOUND");
  wanted = read_weights(argv[1]);
  found = read_weights(argv[2]);
  if (strcmp(wanted.header, found.header) != 0) {
    fprintf(stderr, "the tensors differ:\n%s\n%s\n", wanted.header, found.header);
    return 1;
  }
  if (wanted.count == 0) fail(argv[1], "has no elements");
  for (i = 0; i < wanted.count && largest == largest; ++i) { /* until one is no number */
    sum += fabs(wanted.data[i]);
    const double difference = fabs(wanted.data[i] - found.data[i]) / (1 + fabs(wanted.data[i]));
    if (!(difference <= largest)) {
      largest = difference;
      worst = i;
    }
  }
  first = find_tensor(argv[1], wanted.header, worst * sizeof(double), name, sizeof name);
  printf("largest difference: %s, element %llu: %.17g, must be %.17g\n", name,
         (unsigned long long)(worst - first / sizeof(double)), found.data[worst], wanted.data[worst]);
  free(wanted.header);
  free(wanted.data);
  free(found.header);
  free(found.data);
  if (sum == 0) fail(argv[1], "has zeros alone: nothing was trained");
  return largest <= 1e-10 ? 0 : 1;
}
