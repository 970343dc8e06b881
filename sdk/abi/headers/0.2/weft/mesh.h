/* The mesh of ranks: named axes with sizes, whose product is the number of ranks. Extension "weft.mesh/1".
 *
 * The host has a list of axes; later hosts have more. Bit i of a set of axes (weft_param_info::gradient_axes,
 * weft_shard::partition_axes) stands for entry i of the list. A plugin looks axes up by name, once.
 *
 *   - "data" ranks that train on different samples. Ranks that split the positions of sequences are among
 *     them, and among "replica".
 *   - "replica" data-parallel too, outside "data": parameters are sharded over "data" and replicated over
 *     "replica".
 *   - "experts" data-parallel too, inside "data": its ranks hold different experts.
 *   - "stages" pipeline stages.
 *   - "tensor" ranks that split the same layers. It varies fastest from rank to rank. It may be laid out as
 *     "tensor.depth" x "tensor.row" x "tensor.column", the last of which varies fastest. The product of their
 *     sizes is that of "tensor", which in a set stands for all three; without such a layout they are 1. */
#ifndef WEFT_MESH_H
#define WEFT_MESH_H

#include "types.h"

WEFT_BEGIN_C

/* The id of the extension. */
#define WEFT_MESH_SERVICES "weft.mesh/1"

/* The mesh while a strategy describes it. */
typedef struct weft_mesh weft_mesh;

/* One axis. */
typedef struct weft_axis {
  uint64_t struct_size;
  weft_str name;  /* valid until the process ends */
  uint32_t index; /* its place in the list, and its bit in a set of axes */
  uint32_t size;
} weft_axis;

/* The functions of the extension, for describe_mesh. [control] [no collective] since 0.2, all of them */
typedef struct weft_mesh_services {
  uint64_t struct_size;
  /* Returns how many axes there are. */
  uint32_t (*count)(const weft_mesh* mesh);
  /* Fills `out` for entry `index`. Errors: OUT_OF_RANGE. */
  weft_status (*axis)(const weft_mesh* mesh, uint32_t index, weft_axis* out, weft_error* error);
  /* Fills `out` for the axis of this name. Errors: NOT_FOUND, with the names that there are. */
  weft_status (*find)(const weft_mesh* mesh, weft_str name, weft_axis* out, weft_error* error);
  /* Sets the size of an axis. Errors: OUT_OF_RANGE for an entry that is not there; INVALID_ARGUMENT for the
   * size 0, and for another size than the host has given the axis (ranks_left). */
  weft_status (*set_size)(weft_mesh* mesh, uint32_t index, uint32_t size, weft_error* error);
  /* Returns how many ranks are left for the other axes: all ranks, divided by the sizes of the axes that the
   * host has set (tensor and pipeline stages; later hosts may set more). set_size does not change it. */
  uint32_t (*ranks_left)(const weft_mesh* mesh);
} weft_mesh_services;

WEFT_END_C

#endif
