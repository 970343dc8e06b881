/* Types of the values that cross the ABI. Enums, bool, long and bit fields never cross it, because their
 * sizes depend on the compiler. */
#ifndef WEFT_TYPES_H
#define WEFT_TYPES_H

#include <stdint.h>

#include "macros.h"

WEFT_BEGIN_C

/* The result of a call: 0 is success. The codes are those of Abseil and gRPC. */
typedef int32_t weft_status;
#define WEFT_OK 0
#define WEFT_CANCELLED 1
#define WEFT_UNKNOWN 2
#define WEFT_INVALID_ARGUMENT 3
#define WEFT_DEADLINE_EXCEEDED 4
#define WEFT_NOT_FOUND 5
#define WEFT_ALREADY_EXISTS 6
#define WEFT_PERMISSION_DENIED 7
#define WEFT_RESOURCE_EXHAUSTED 8
#define WEFT_FAILED_PRECONDITION 9
#define WEFT_ABORTED 10
#define WEFT_OUT_OF_RANGE 11
#define WEFT_UNIMPLEMENTED 12
#define WEFT_INTERNAL 13
#define WEFT_UNAVAILABLE 14
#define WEFT_DATA_LOSS 15

/* A UTF-8 string with a length, without a terminating zero. Borrowed for the call unless a comment says
 * otherwise. */
typedef struct weft_str {
  const char* data;
  uint64_t size;
} weft_str;

/* Makes a weft_str from a string literal, as a value or as an initialiser. */
#ifdef __cplusplus
#define WEFT_STR(literal) (weft_str{(literal), sizeof(literal) - 1})
#else
#define WEFT_STR(literal) ((weft_str){(literal), sizeof(literal) - 1})
#endif

/* A named value with a type: an option, an attribute of a plan, a key of a configuration. */
#define WEFT_KIND_NONE 0
#define WEFT_KIND_BOOL 1 /* integer is 0 or 1 */
#define WEFT_KIND_INT 2
#define WEFT_KIND_FLOAT 3
#define WEFT_KIND_TEXT 4
#define WEFT_KIND_JSON 5 /* text holds an array or an object */
#define WEFT_KV_GIVEN 1  /* the user gave this option; without the flag, the value is the default */
typedef struct weft_kv {
  weft_str key;
  uint32_t kind;
  uint32_t flags; /* of WEFT_KV_* */
  int64_t integer;
  double real;
  weft_str text;
} weft_kv;

/* Element types. The numbers are Weft's own. Unknown numbers are errors. */
#define WEFT_F64 1
#define WEFT_F32 2
#define WEFT_F16 3
#define WEFT_BF16 4
#define WEFT_I64 5
#define WEFT_I32 6
#define WEFT_I16 7
#define WEFT_I8 8
#define WEFT_U8 9
#define WEFT_BOOL 10

/* Axes of the mesh of ranks. A set of axes is a bit mask of 1 << axis. The TENSOR coordinate varies fastest
 * from rank to rank. Ranks that split the positions of sequences are data-parallel to each other: DATA and
 * REPLICA include them. */
#define WEFT_AXIS_DATA 0
#define WEFT_AXIS_REPLICA \
  1 /* data-parallel too, outside DATA: parameters are sharded over DATA and replicated over REPLICA */
#define WEFT_AXIS_PIPELINE 2
#define WEFT_AXIS_TENSOR 3
#define WEFT_AXIS_EXPERT 4 /* data-parallel too, inside DATA: its ranks hold different experts */
/* The tensor axis may be laid out as DEPTH x ROW x COLUMN; COLUMN varies fastest. The product of their sizes
 * is the size of TENSOR, and TENSOR in a set of axes stands for all three. They are 1 if the tensor axis has
 * no such layout. */
#define WEFT_AXIS_TENSOR_ROW 5
#define WEFT_AXIS_TENSOR_COLUMN 6
#define WEFT_AXIS_TENSOR_DEPTH 7
#define WEFT_AXES 8 /* the length of arrays indexed by axis */

/* The most dimensions of a tensor that crosses the ABI. */
#define WEFT_MAX_DIMS 8

/* What a plugin may use, and what it must therefore match. */
#define WEFT_TIER_C 0      /* the C headers alone: same ABI */
#define WEFT_TIER_TORCH 1  /* libtorch through weft/torch: same ABI and the same libtorch tag */
#define WEFT_TIER_NATIVE 2 /* the engine's C++ API: same Weft build */

/* Receives the status and text of a failure. The caller owns it. A call writes it at most once. */
typedef struct weft_error weft_error;

WEFT_END_C

#endif
