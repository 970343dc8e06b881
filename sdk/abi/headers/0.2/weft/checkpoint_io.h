/* A checkpoint format: named tensors in files. Factory "weft.factory.checkpoint_io/1", tier c.
 *
 * A format reads and writes the bytes of tensors with their dtype and shape. It knows no model, rank or
 * strategy: the host decides which rank reads or writes which box. Bytes are little-endian and contiguous
 * (row-major). A box has an `offset` and an `extent` for each dimension; NULL for both means the whole
 * tensor. */
#ifndef WEFT_CHECKPOINT_IO_H
#define WEFT_CHECKPOINT_IO_H

#include "types.h"

WEFT_BEGIN_C

/* The id of the factory. */
#define WEFT_FACTORY_CHECKPOINT_IO "weft.factory.checkpoint_io/1"

/* A checkpoint that is open for reading, and one that is being written. */
typedef struct weft_checkpoint_reader weft_checkpoint_reader;
typedef struct weft_checkpoint_writer weft_checkpoint_writer;

/* One tensor of a checkpoint. */
typedef struct weft_tensor_entry {
  uint64_t struct_size;
  weft_str name; /* that of a reader is valid until the reader is closed */
  uint32_t dtype;
  uint32_t ndim;
  int64_t shape[WEFT_MAX_DIMS];
} weft_tensor_entry;

/* The functions of a format. */
typedef struct weft_checkpoint_io {
  uint64_t struct_size;

  /* Returns 1 if the file or folder `path` looks like this format, judged by file names and first bytes.
   * Reads no tensor. [control, io] [no collective] */
  uint32_t (*recognises)(weft_str path);

  /* Opens a file, an index or a folder, and validates everything that can be checked without reading tensors.
   * Errors: NOT_FOUND names what was looked for; DATA_LOSS names the file, the tensor and the values that
   * disagree. [control, io] [no collective] */
  weft_status (*open)(weft_str path, weft_checkpoint_reader** own, weft_error* error);
  void (*close)(weft_checkpoint_reader* reader);
  uint64_t (*num_tensors)(weft_checkpoint_reader* reader);
  weft_status (*tensor)(weft_checkpoint_reader* reader, uint64_t index, weft_tensor_entry* out,
                        weft_error* error);
  /* Reads a box into `destination`; `size_bytes` must be the size of the box. May be called from several
   * threads at once. */
  weft_status (*read)(weft_checkpoint_reader* reader, uint64_t index, const int64_t* offset,
                      const int64_t* extent, void* destination, uint64_t size_bytes, weft_error* error);
  /* Returns the text that is stored under `key` beside the tensors. Its `data` is NULL if there is none.
   * Valid until the reader is closed. */
  weft_str (*metadata)(weft_checkpoint_reader* reader, weft_str key);

  /* Creates the files for all `entries` at `path` under temporary names and reserves their space, so that a
   * full disk is reported here. Options: "shard" (bool; true: `path` is a folder that receives files of at
   * most "size_per_shard" MB (int, default 1024) and an index; false: `path` is a file, or a folder that
   * receives the format's usual file name), "prefix" (text, part of the file names:
   * model.PREFIX.safetensors), "use_safetensors" (bool, default true), "metadata.<key>" (text). An unknown
   * option is an error. [control, io] [no collective] */
  weft_status (*create)(weft_str path, const weft_kv* options, uint64_t num_options,
                        const weft_tensor_entry* entries, uint64_t num_entries, weft_checkpoint_writer** own,
                        weft_error* error);
  /* Writes a box. Boxes may be written in any order and from several threads at once. Together they must
   * cover every tensor. */
  weft_status (*write)(weft_checkpoint_writer* writer, uint64_t index, const int64_t* offset,
                       const int64_t* extent, const void* source, uint64_t size_bytes, weft_error* error);
  /* Syncs the files and renames them to their final names; earlier files are replaced only now. Fails if an
   * element was never written. Destroys the writer, also on failure. */
  weft_status (*commit)(weft_checkpoint_writer* writer, weft_error* error);
  /* Removes the temporary files and destroys the writer. Earlier files are untouched. NULL is accepted. */
  void (*abandon)(weft_checkpoint_writer* writer);
} weft_checkpoint_io;

/* What get_factory(WEFT_FACTORY_CHECKPOINT_IO) returns. */
typedef struct weft_checkpoint_io_factory {
  uint64_t struct_size;
  const weft_checkpoint_io* (*find)(weft_str name);
} weft_checkpoint_io_factory;

WEFT_END_C

#endif
