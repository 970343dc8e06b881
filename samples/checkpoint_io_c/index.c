/* The index: lines of text.
 *
 *   raw_files 1
 *   data raw_files-GENERATION
 *   metadata KEY VALUE
 *   tensor DTYPE NDIM SIZE ... NAME
 *   end
 *
 * Keys, values and names have %XX in place of bytes that would end a word. "end" shows that no line is
 * missing. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raw_files.h"

uint64_t raw_element_bytes(uint32_t dtype) {
  static const unsigned char bytes[] = {0, 8, 4, 2, 2, 8, 4, 2, 1, 1, 1}; /* of WEFT_F64, WEFT_F32, ... */
  return dtype < sizeof bytes ? bytes[dtype] : 0;
}

int raw_set_bytes(raw_tensor* tensor) {
  int64_t product = (int64_t)raw_element_bytes(tensor->dtype);
  int is_empty = 0;
  if (product == 0 || tensor->ndim > WEFT_MAX_DIMS) return 0;
  for (uint32_t d = 0; d < tensor->ndim; ++d) {
    const int64_t size = tensor->shape[d];
    if (size < 0 || __builtin_mul_overflow(product, size > 0 ? size : 1, &product)) return 0;
    is_empty |= size == 0;
  }
  tensor->bytes = is_empty ? 0 : (uint64_t)product;
  return 1;
}

static void write_word(FILE* file, const char* word) {
  for (; *word != '\0'; ++word) {
    const unsigned char c = (unsigned char)*word;
    if (c <= ' ' || c == '%' || c == 0x7f)
      fprintf(file, "%%%02X", c);
    else
      fputc(c, file);
  }
}

char* raw_write_index(const raw_index* index) {
  char* text = NULL;
  size_t size = 0;
  FILE* file = open_memstream(&text, &size);
  if (file == NULL) return NULL;
  fprintf(file, RAW_HEAD "data " RAW_DATA "%s\n", index->generation);
  for (uint64_t i = 0; i < index->num_pairs; ++i) {
    fputs("metadata ", file);
    write_word(file, index->pairs[i].key);
    fputc(' ', file);
    write_word(file, index->pairs[i].value);
    fputc('\n', file);
  }
  for (uint64_t i = 0; i < index->num_tensors; ++i) {
    const raw_tensor* tensor = &index->tensors[i];
    fprintf(file, "tensor %u %u ", tensor->dtype, tensor->ndim);
    for (uint32_t d = 0; d < tensor->ndim; ++d) fprintf(file, "%lld ", (long long)tensor->shape[d]);
    write_word(file, tensor->name);
    fputc('\n', file);
  }
  fputs("end\n", file);
  const int failed = ferror(file);
  if (fclose(file) != 0 || failed) {
    free(text);
    return NULL;
  }
  return text;
}

/* Takes the next word of a line, and turns %XX back into bytes. Returns NULL for a wrong one. */
static char* next_word(char** line) {
  char* const word = *line;
  char* end = strchr(word, ' ');
  *line = end == NULL ? word + strlen(word) : end + 1;
  if (end != NULL) *end = '\0';
  char* to = word;
  for (const char* from = word; *from != '\0'; ++from) {
    if (*from != '%') {
      *to++ = *from;
      continue;
    }
    if (!isxdigit((unsigned char)from[1]) || !isxdigit((unsigned char)from[2])) return NULL;
    const char digits[3] = {from[1], from[2], '\0'};
    if ((*to++ = (char)strtol(digits, NULL, 16)) == '\0') return NULL;
    from += 2;
  }
  *to = '\0';
  return word;
}

/* Takes the next word as a number from 0 to `most`. */
static int next_number(char** line, int64_t most, int64_t* number) {
  const char* word = next_word(line);
  if (word == NULL || *word == '\0' || strlen(word) > 18) return 0;
  *number = 0;
  for (; *word != '\0'; ++word) {
    if (*word < '0' || *word > '9') return 0;
    *number = *number * 10 + (*word - '0');
  }
  return *number <= most;
}

static int parse_tensor(char* line, raw_tensor* tensor) {
  int64_t dtype = 0, ndim = 0;
  if (!next_number(&line, UINT32_MAX, &dtype) || !next_number(&line, WEFT_MAX_DIMS, &ndim)) return 0;
  tensor->dtype = (uint32_t)dtype;
  tensor->ndim = (uint32_t)ndim;
  for (uint32_t d = 0; d < tensor->ndim; ++d)
    if (!next_number(&line, INT64_MAX, &tensor->shape[d])) return 0;
  const char* name = next_word(&line);
  if (name == NULL || *line != '\0' || !raw_set_bytes(tensor)) return 0;
  tensor->name = strdup(name);
  return tensor->name != NULL;
}

static int parse_pair(char* line, raw_pair* pair) {
  const char* key = next_word(&line);
  const char* value = next_word(&line);
  if (key == NULL || value == NULL || *line != '\0') return 0;
  pair->key = strdup(key);
  pair->value = strdup(value);
  return pair->key != NULL && pair->value != NULL;
}

/* Returns 1 if the line is right, and 2 for the last one. */
static int parse_line(char* line, raw_index* index) {
  if (strcmp(line, "end") == 0) return index->generation != NULL ? 2 : 0;
  if (strncmp(line, "data " RAW_DATA, strlen("data " RAW_DATA)) == 0) {
    const char* generation = line + strlen("data " RAW_DATA);
    if (index->generation != NULL || *generation == '\0' || strchr(generation, '/') != NULL) return 0;
    index->generation = strdup(generation);
    return index->generation != NULL;
  }
  if (strncmp(line, "metadata ", 9) == 0) return parse_pair(line + 9, &index->pairs[index->num_pairs++]);
  if (strncmp(line, "tensor ", 7) == 0) return parse_tensor(line + 7, &index->tensors[index->num_tensors++]);
  return 0;
}

static int compare_names(const void* a, const void* b) {
  return strcmp(*(const char* const*)a, *(const char* const*)b);
}

weft_status raw_check_names(const raw_index* index, const char* path, weft_status found_twice,
                            weft_error* error) {
  char** names = malloc((index->num_tensors + 1) * sizeof *names);
  if (names == NULL) return raw_fail(error, WEFT_RESOURCE_EXHAUSTED, "%s: no memory for its names", path);
  for (uint64_t i = 0; i < index->num_tensors; ++i) names[i] = index->tensors[i].name;
  qsort(names, index->num_tensors, sizeof *names, compare_names);
  weft_status status = WEFT_OK;
  for (uint64_t i = 1; status == WEFT_OK && i < index->num_tensors; ++i)
    if (strcmp(names[i - 1], names[i]) == 0)
      status = raw_fail(error, found_twice, "%s: tensor %s is there twice", path, names[i]);
  free(names);
  return status;
}

weft_status raw_parse_index(char* text, const char* path, raw_index* index, weft_error* error) {
  memset(index, 0, sizeof *index);
  uint64_t lines = 1;
  for (const char* c = text; *c != '\0'; ++c) lines += *c == '\n';
  index->tensors = calloc(lines, sizeof *index->tensors);
  index->pairs = calloc(lines, sizeof *index->pairs);
  if (index->tensors == NULL || index->pairs == NULL)
    return raw_fail(error, WEFT_RESOURCE_EXHAUSTED, "%s: no memory for its %llu lines", path,
                    (unsigned long long)lines);
  if (strncmp(text, RAW_HEAD, strlen(RAW_HEAD)) != 0)
    return raw_fail(error, WEFT_DATA_LOSS, "%s: its first line is not \"raw_files 1\"", path);
  char* line = text + strlen(RAW_HEAD);
  for (uint64_t number = 2; *line != '\0'; ++number) {
    char* const end = strchr(line, '\n');
    if (end == NULL) break;
    *end = '\0';
    const int parsed = parse_line(line, index);
    if (parsed == 0 || (parsed == 2 && end[1] != '\0'))
      return raw_fail(error, WEFT_DATA_LOSS, "%s: line %llu is damaged", path, (unsigned long long)number);
    if (parsed == 2) return raw_check_names(index, path, WEFT_DATA_LOSS, error);
    line = end + 1;
  }
  return raw_fail(error, WEFT_DATA_LOSS, "%s: it was truncated, the line \"end\" is missing", path);
}

void raw_free_index(raw_index* index) {
  for (uint64_t i = 0; i < index->num_tensors; ++i) free(index->tensors[i].name);
  for (uint64_t i = 0; i < index->num_pairs; ++i) {
    free(index->pairs[i].key);
    free(index->pairs[i].value);
  }
  free(index->tensors);
  free(index->pairs);
  free(index->generation);
  memset(index, 0, sizeof *index);
}
