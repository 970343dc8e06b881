/* A checkpoint format: named tensors in files. Factory "weft.factory.checkpoint_io/1", tier c.
 *
 * A format reads and writes the bytes of tensors with their dtype and shape. It knows no model, rank or
 * strategy: the host decides which rank reads or writes which box. Bytes are little-endian and contiguous
 * (row-major). A box has an `offset` and an `extent` for each dimension; NULL for both means the whole
 * tensor.
 *
 * Users choose the format of a save by name. When the host reads, it asks `recognises` of every installed
 * format, so a format must say yes to what it wrote and to nothing that another format wrote. */
#ifndef WEFT_CHECKPOINT_IO_H
#define WEFT_CHECKPOINT_IO_H

#include "types.h"

WEFT_BEGIN_C

/* The id of the factory. */
#define WEFT_FACTORY_CHECKPOINT_IO "weft.factory.checkpoint_io/1"

/* A checkpoint that is open for reading, and one that is being written. */
typedef struct weft_checkpoint_reader weft_checkpoint_reader;
typedef struct weft_checkpoint_writer weft_checkpoint_writer;

/* One tensor of a checkpoint. The caller sets `struct_size`, also where a function fills the rest. */
typedef struct weft_tensor_entry {
  uint64_t struct_size;
  weft_str name; /* that of a reader is valid until the reader is closed */
  uint32_t dtype;
  uint32_t ndim;
  int64_t shape[WEFT_MAX_DIMS];
} weft_tensor_entry;

/* The functions of a format. All are [io]: they may be called from any thread and block on files, but issue
 * no collective. Calls with one reader or writer come one after the other, but for `read` and `write`. */
typedef struct weft_checkpoint_io weft_checkpoint_io;
struct weft_checkpoint_io {
  uint64_t struct_size;

  /* The library's own. The host does not read it. Since 0.2. */
  void* context;

  /* Returns 1 if the file or folder `path` is a checkpoint of this format, judged by file names and first
   * bytes, and 0 for anything else, such as a path that does not exist. Reads no tensor.
   * [io] [no collective] since 0.2 */
  uint32_t (*recognises)(const weft_checkpoint_io* io, weft_str path);

  /* Opens a file, an index or a folder, and validates everything that can be checked without reading tensors.
   * `name` is the one under which the factory found this table. Errors: NOT_FOUND names what was looked for;
   * DATA_LOSS names the file, the tensor and the values that disagree. [io] [no collective] since 0.2 */
  weft_status (*open)(const weft_checkpoint_io* io, weft_str name, weft_str path,
                      weft_checkpoint_reader** own, weft_error* error);
  /* Closes a reader. NULL is accepted. [io] [no collective] since 0.2 */
  void (*close)(weft_checkpoint_reader* reader);
  /* Returns how many tensors there are. [io] [no collective] since 0.2 */
  uint64_t (*num_tensors)(weft_checkpoint_reader* reader);
  /* Describes tensor `index` of num_tensors. Fills the members of `out` that its struct_size covers.
   * [io] [no collective] since 0.2 */
  weft_status (*tensor)(weft_checkpoint_reader* reader, uint64_t index, weft_tensor_entry* out,
                        weft_error* error);
  /* Reads a box into `destination`; `size_bytes` must be the size of the box. May be called from several
   * threads at once. [io] [no collective] since 0.2 */
  weft_status (*read)(weft_checkpoint_reader* reader, uint64_t index, const int64_t* offset,
                      const int64_t* extent, void* destination, uint64_t size_bytes, weft_error* error);
  /* Returns the text that is stored under `key` beside the tensors. Its `data` is NULL if there is none.
   * Valid until the reader is closed. [io] [no collective] since 0.2 */
  weft_str (*metadata)(weft_checkpoint_reader* reader, weft_str key);

  /* Creates the files for the tensors of `entries`, an array of pointers, under temporary names, and reserves
   * their space, so that a full disk is reported here. If `path` is an existing folder, the files go into it
   * under the format's usual names, beside files of others; otherwise the format makes a file or a folder of
   * that name. `name` is the one under which the factory found this table. Strings are copied.
   *
   * Options, of which the host passes those that the user asks for: "shard" (bool; true: `path` is a folder
   * that receives files of at most "size_per_shard" MB (int, default 1024) and an index), "prefix" (text,
   * part of the names of the files), "use_safetensors" (bool; false asks for the files of PyTorch), and
   * "metadata.<key>" (text), which every format must keep. Errors: INVALID_ARGUMENT for an option that the
   * format does not have, and for what cannot be written. [io] [no collective] since 0.2 */
  weft_status (*create)(const weft_checkpoint_io* io, weft_str name, weft_str path, const weft_kv* options,
                        uint64_t num_options, const weft_tensor_entry* const* entries, uint64_t num_entries,
                        weft_checkpoint_writer** own, weft_error* error);
  /* Writes a box. Boxes may be written in any order and from several threads at once. Together they must
   * cover every tensor. [io] [no collective] since 0.2 */
  weft_status (*write)(weft_checkpoint_writer* writer, uint64_t index, const int64_t* offset,
                       const int64_t* extent, const void* source, uint64_t size_bytes, weft_error* error);
  /* Syncs the files and renames them to their final names; earlier files are replaced only now. Fails if an
   * element was never written. Destroys the writer, also on failure. [io] [no collective] since 0.2 */
  weft_status (*commit)(weft_checkpoint_writer* writer, weft_error* error);
  /* Removes the temporary files and destroys the writer. Earlier files are untouched. NULL is accepted.
   * [io] [no collective] since 0.2 */
  void (*abandon)(weft_checkpoint_writer* writer);

  /* Returns 1 if a file or folder with the plain name `file` inside a model folder is one that `create`
   * writes for the option "prefix" `prefix`, which may be empty. A save to the folder replaces these files,
   * whatever its own format, and a conversion does not copy them. [io] [no collective] since 0.2 */
  uint32_t (*owns)(const weft_checkpoint_io* io, weft_str file, weft_str prefix);
};

/* What get_factory(WEFT_FACTORY_CHECKPOINT_IO) returns. */
typedef struct weft_checkpoint_io_factory weft_checkpoint_io_factory;
struct weft_checkpoint_io_factory {
  uint64_t struct_size;
  /* Returns the table of the format `name`, one of those that the manifest says the library provides; NULL
   * for another name. One table may serve several names. Valid until the process ends.
   * [any thread] [no collective] since 0.2 */
  const weft_checkpoint_io* (*find)(const weft_checkpoint_io_factory* factory, weft_str name);
};

WEFT_END_C

#endif
