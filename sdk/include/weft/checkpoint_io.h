/* A checkpoint format: named tensors in files. Factory "weft.factory.checkpoint_io/1", tier c.
 *
 * A format moves bytes with their dtype and shape, box by box, and knows no model, rank or strategy. The host
 * decides what is read and written where. Bytes are little-endian and contiguous (row-major). A box is an
 * `offset` and an `extent` along each dimension; NULL for both means the whole tensor. */
#ifndef WEFT_CHECKPOINT_IO_H
#define WEFT_CHECKPOINT_IO_H

#include "types.h"

WEFT_BEGIN_C

/* The id of the factory. */
#define WEFT_FACTORY_CHECKPOINT_IO "weft.factory.checkpoint_io/1"

/* An open checkpoint, and files that are being written. */
typedef struct weft_checkpoint_reader weft_checkpoint_reader;
typedef struct weft_checkpoint_writer weft_checkpoint_writer;

/* One tensor of a checkpoint. */
typedef struct weft_tensor_entry {
  uint64_t struct_size;
  weft_str name; /* from a reader: valid until it is closed */
  uint32_t dtype;
  uint32_t ndim;
  int64_t shape[WEFT_MAX_DIMS];
} weft_tensor_entry;

/* The functions of a format. */
typedef struct weft_checkpoint_io {
  uint64_t struct_size;

  /* Returns 1 if `path`, a file or a folder, looks like this format by names and first bytes. Cheap.
   * [control, io] [no collective] */
  uint32_t (*recognises)(weft_str path);

  /* Opens a file, an index or a folder and validates everything that can be known without reading the
   * tensors. Errors: NOT_FOUND names what was looked for; DATA_LOSS names the file, the tensor and the values
   * that disagree. [control, io] [no collective] */
  weft_status (*open)(weft_str path, weft_checkpoint_reader** own, weft_error* error);
  void (*close)(weft_checkpoint_reader* reader);
  uint64_t (*num_tensors)(weft_checkpoint_reader* reader);
  weft_status (*tensor)(weft_checkpoint_reader* reader, uint64_t index, weft_tensor_entry* out,
                        weft_error* error);
  /* Reads a box into `destination`, whose size must be that of the box. May be called from several threads.
   */
  weft_status (*read)(weft_checkpoint_reader* reader, uint64_t index, const int64_t* offset,
                      const int64_t* extent, void* destination, uint64_t size_bytes, weft_error* error);
  /* Returns a text stored beside the tensors; its `data` is NULL if there is none under this key. Valid until
   * close. */
  weft_str (*metadata)(weft_checkpoint_reader* reader, weft_str key);

  /* Plans the files for all `entries` at `path` and reserves their space under temporary names, so that a
   * full disk is found here. Options: "shard" (bool: `path` is a folder, files of at most "size_per_shard" MB
   * (int, default 1024) and an index; otherwise `path` is a file, or a folder that receives the format's
   * usual file name), "prefix" (text, part of the files' names: model.PREFIX.safetensors), "use_safetensors"
   * (bool, default true), "metadata.<key>" (text). An unknown option is an error. [control, io] [no
   * collective] */
  weft_status (*create)(weft_str path, const weft_kv* options, uint64_t num_options,
                        const weft_tensor_entry* entries, uint64_t num_entries, weft_checkpoint_writer** own,
                        weft_error* error);
  /* Writes a box. Boxes may come in any order and from several threads; together they must cover every
   * tensor. */
  weft_status (*write)(weft_checkpoint_writer* writer, uint64_t index, const int64_t* offset,
                       const int64_t* extent, const void* source, uint64_t size_bytes, weft_error* error);
  /* Syncs the files and gives them their names, replacing earlier files only now. Fails if an element was
   * never written. Destroys the writer, also on failure. */
  weft_status (*commit)(weft_checkpoint_writer* writer, weft_error* error);
  /* Removes what was written and destroys the writer; earlier files are untouched. NULL is accepted. */
  void (*abandon)(weft_checkpoint_writer* writer);
} weft_checkpoint_io;

/* What get_factory(WEFT_FACTORY_CHECKPOINT_IO) returns. */
typedef struct weft_checkpoint_io_factory {
  uint64_t struct_size;
  const weft_checkpoint_io* (*find)(weft_str name);
} weft_checkpoint_io_factory;

WEFT_END_C

#endif
