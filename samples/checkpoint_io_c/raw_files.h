/* What the sources of the format share. On disk, a checkpoint is
 *
 *   raw_files.txt                 the index: what there is, one line each (index.c)
 *   raw_files-GENERATION/0.raw    the bytes of the first tensor, and so on
 *
 * A save writes a new generation. The rename of the index is the moment at which it becomes the checkpoint.
 */
#ifndef RAW_FILES_H
#define RAW_FILES_H

#include <pthread.h>
#include <stddef.h>
#include <weft/checkpoint_io.h>

#define RAW_INDEX "raw_files.txt"
#define RAW_INDEX_PARTIAL ".raw_files.txt.partial"
#define RAW_DATA "raw_files-"
#define RAW_HEAD "raw_files 1\n" /* the first line of an index */

/* Sets the error of a call, as printf does, and returns `status`. `error` may be NULL. */
weft_status raw_fail(weft_error* error, weft_status status, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
/* Fails with the reason in errno. */
weft_status raw_fail_errno(weft_error* error, const char* what, const char* path);
/* Returns text that the caller frees, as printf does; NULL without memory. */
char* raw_text(const char* format, ...) __attribute__((format(printf, 1, 2)));

/* --- index.c */

typedef struct raw_tensor {
  char* name;
  uint32_t dtype;
  uint32_t ndim;
  int64_t shape[WEFT_MAX_DIMS];
  uint64_t bytes;
} raw_tensor;

typedef struct raw_pair {
  char *key, *value;
} raw_pair;

typedef struct raw_index {
  char* generation;
  raw_tensor* tensors;
  uint64_t num_tensors;
  raw_pair* pairs; /* the metadata */
  uint64_t num_pairs;
} raw_index;

/* Returns the size of an element; 0 for a type that there is not. */
uint64_t raw_element_bytes(uint32_t dtype);
/* Sets `bytes` of a tensor. Returns 0 if its type, its dimensions or their product are impossible. */
int raw_set_bytes(raw_tensor* tensor);
/* Returns the text of an index, which the caller frees; NULL without memory. */
char* raw_write_index(const raw_index* index);
/* Parses the text of `path`, which it changes. DATA_LOSS names the line. */
weft_status raw_parse_index(char* text, const char* path, raw_index* index, weft_error* error);
/* Fails with `found_twice` if two tensors have one name. */
weft_status raw_check_names(const raw_index* index, const char* path, weft_status found_twice,
                            weft_error* error);
void raw_free_index(raw_index* index);

/* --- boxes.c */

typedef struct raw_box {
  int64_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
} raw_box;

/* Makes a box of a call's arguments. Fails if it is not inside the tensor or `size_bytes` is not its size. */
weft_status raw_make_box(const raw_tensor* tensor, const int64_t* offset, const int64_t* extent,
                         uint64_t size_bytes, raw_box* box, weft_error* error);
/* Calls `move` for each run of the box that is contiguous in the tensor, in the order of the box's bytes:
 * `at` is its place in the tensor. Stops at the first status that is not OK. */
typedef weft_status (*raw_move)(void* context, uint64_t at, uint64_t size);
weft_status raw_each_run(const raw_tensor* tensor, const raw_box* box, raw_move move, void* context);
/* Returns 1 if every element of the tensor is in one of the boxes. */
int raw_is_covered(const raw_tensor* tensor, const raw_box* boxes, uint64_t count);

#endif
