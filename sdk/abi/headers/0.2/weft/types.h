/* Types of the values that cross the ABI, and the rules that hold for all of its functions and structs.
 * Enums, bool, long and bit fields never cross it, because their sizes depend on the compiler.
 *
 * Tags of functions, in brackets. Which thread calls them:
 *   - [any thread] any thread, several at once.
 *   - [control] the thread that made the object, while no other call for this job runs. The host calls such
 *     functions of a plugin from that thread.
 *   - [step] as [control], or inside a hook of the step, on the thread that the host called the hook on.
 *   - [engine] hooks that the host calls on the thread of the autograd engine, which is that of [control] on
 *     the CPU and may be another one on an accelerator. Two hooks never run at once.
 *   - [io] the function may read and write files, and takes as long as they do.
 *
 * How they communicate with the other ranks:
 *   - [no collective] not at all: a plugin must not begin a collective in such a function.
 *   - [may block] the function may begin collectives and wait for them. Every rank of the group calls it
 *     equally often.
 *   - [blocks] the function waits for other ranks.
 *   - [collective], or "(collective)" in a sentence: every rank must call the function.
 *
 * `since 0.2` names the minor version that added a function.
 *
 * Structs with struct_size. Whoever allocates the struct sets struct_size to the size that it knows: the
 * caller for arguments and for `out` and `inout`, of which the other side fills the members that both know
 * and leaves the rest and struct_size as they are. Such structs cross by pointer only, in arrays as pointers
 * to each, so that they can grow. Structs without struct_size never grow.
 *
 * Errors. `error` may be NULL: then the status alone tells. A function that fails leaves its outputs (`out`,
 * `own`, `inout`) as they were, unless its comment says otherwise. `own` names an object that the caller must
 * destroy; functions that destroy or release accept NULL, and pointers are otherwise never NULL unless a
 * comment allows it.
 *
 * Strings are borrowed for the call, in both directions; a comment says where one lives longer. Tables of
 * functions are constant and live until the process ends. `context` is the owner's own: nobody else reads it.
 *
 * Devices. Work on an accelerator is asynchronous: a function that computes or communicates returns when the
 * work is enqueued. To wait for a work makes the current stream of the calling thread wait, so that what is
 * enqueued later sees the result; on the CPU it makes the thread wait. Only where a comment says that the
 * host waits may host code read the values at once. */
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

/* Where a function appends text, any number of times; it is copied. */
typedef struct weft_text_sink {
  void* context;
  /* [any thread] [no collective] since 0.2 */
  void (*append)(void* context, weft_str text);
} weft_text_sink;

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

/* The most dimensions of a tensor that crosses the ABI. */
#define WEFT_MAX_DIMS 8

/* What a plugin may use, and what it must therefore match. */
#define WEFT_TIER_C 0      /* the C headers alone: an ABI that the host knows */
#define WEFT_TIER_TORCH 1  /* libtorch through weft/torch: the same libtorch tag, too */
#define WEFT_TIER_NATIVE 2 /* the engine's C++ API: same Weft build */
#define WEFT_TIER_STABLE 3 /* libtorch's stable ABI alone: a lowest libtorch, any later one */

/* Receives the status and text of a failure. The caller owns it. A call writes it at most once. */
typedef struct weft_error weft_error;

WEFT_END_C

#endif
