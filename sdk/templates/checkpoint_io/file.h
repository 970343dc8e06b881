/* The file model.template_name. Numbers are little-endian and have 8 bytes:
 *   FILE_HEAD, then the size of the header, the number of texts and of tensors,
 *   for each text its key and its value, each as size and bytes,
 *   for each tensor its name as size and bytes, its dtype, the number of its dimensions, and each dimension,
 *   then the elements of all tensors, one after the other.
 * Functions return NULL, or a text that says what is wrong. */
#ifndef FORMAT_FILE_H
#define FORMAT_FILE_H

#include <weft/types.h>

#include <stdint.h>

#define FILE_HEAD "template_name 1\n" /* the first bytes of each file; no other format has them */

typedef struct text {
  char* data;
  uint64_t size;
} text;

typedef struct tensor {
  text name;
  uint32_t dtype, ndim;
  int64_t shape[WEFT_MAX_DIMS];
  uint64_t begin;         /* of its elements in the file */
  uint64_t count;         /* of its elements */
  unsigned char* written; /* a bit for each element; NULL unless begin_boxes() made it */
} tensor;

typedef struct layout {
  uint64_t num_texts, num_tensors;
  text* keys;
  text* values;
  tensor* tensors;
  uint64_t size; /* of the file */
} layout;

/* Returns the bytes of an element, or 0 for an unknown dtype. */
uint64_t element_size(uint32_t dtype);

/* Sets `begin` and `count` of each tensor and the size of the file from names, dtypes and shapes, and refuses
 * what cannot be written, such as two tensors with the same name. */
const char* place_tensors(layout* l);

/* Read and write the header. `damaged` is set to 1 if the file is there and is not of this format. */
const char* read_header(int file, layout* l, int* damaged);
const char* write_header(int file, const layout* l);

void free_layout(layout* l);

/* Checks that a box is inside the tensor and has `size` bytes. */
const char* check_box(const tensor* t, const int64_t* offset, const int64_t* extent, uint64_t size);

/* Reads or writes a box that check_box() accepts. Safe from several threads. */
const char* transfer(int file, const tensor* t, const int64_t* offset, const int64_t* extent, char* memory,
                     int writes);

/* Allocates the bits of the elements that transfer() writes. */
const char* begin_boxes(layout* l);

/* Returns the name of a tensor with elements that were never written, or NULL. */
const char* find_unwritten(const layout* l);

#endif
