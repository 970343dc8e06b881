/* The files of the format. `data` is the folder of a generation, in which tensor number N is N.raw. */
#ifndef RAW_FILES_FILES_H
#define RAW_FILES_FILES_H

#include "raw_files.h"

/* Returns the folder of a checkpoint, given as a folder or by its index. The caller frees it. */
char* raw_folder_of(const char* path);
/* Reads the index of a folder. NOT_FOUND without one. */
weft_status raw_load_index(const char* folder, raw_index* index, weft_error* error);
/* DATA_LOSS if the file of a tensor is not as long as the tensor. */
weft_status raw_check_size(const char* data, uint64_t number, const raw_tensor* tensor, weft_error* error);

/* Move a box between its file and memory. */
weft_status raw_read_runs(const char* data, uint64_t number, const raw_tensor* tensor, const raw_box* box,
                          void* destination, weft_error* error);
weft_status raw_write_runs(const char* data, uint64_t number, const raw_tensor* tensor, const raw_box* box,
                           const void* source, weft_error* error);

/* Makes the folder unless it is there, and locks it until raw_unlock or the end of the process. UNAVAILABLE
 * if another save has it. */
weft_status raw_lock_folder(const char* folder, int* is_made, int* lock, weft_error* error);
void raw_unlock(int lock);
/* Removes what killed saves left, and makes a generation with files of the right sizes. */
weft_status raw_make_generation(const char* folder, raw_index* index, char** data, weft_error* error);
/* Syncs a generation, gives it the index and removes the others. Sets `data` to NULL once it has the index,
 * since it must stay from then on. */
weft_status raw_put_in_place(const char* folder, char** data, const raw_index* index, weft_error* error);
void raw_remove_generation(const char* data);
void raw_remove_empty(const char* folder);

#endif
