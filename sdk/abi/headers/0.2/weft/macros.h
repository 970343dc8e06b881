/* Macros for structs that can grow: every such struct that crosses the ABI begins with `uint64_t
 * struct_size`, so that each side knows which members the other side has. Compare it with the end of the last
 * member that you need (WEFT_HAS_FIELD), never with sizeof, which grows. */
#ifndef WEFT_MACROS_H
#define WEFT_MACROS_H

#include <stddef.h>

/* Begin and end declarations with C linkage. */
#ifdef __cplusplus
#define WEFT_BEGIN_C extern "C" {
#define WEFT_END_C }
#else
#define WEFT_BEGIN_C
#define WEFT_END_C
#endif

/* Exports a function from a library that is compiled with hidden visibility. */
#define WEFT_EXPORT __attribute__((visibility("default")))

/* The offset of the first byte after `field`. */
#define WEFT_END_OF(type, field) (offsetof(type, field) + sizeof(((type*)0)->field))

/* True if the struct behind `pointer` is new enough to have `field`. */
#define WEFT_HAS_FIELD(pointer, type, field) ((pointer)->struct_size >= WEFT_END_OF(type, field))

/* True if the table behind `pointer` is new enough to have the function `slot`, and the function is not
 * NULL. */
#define WEFT_HAS(pointer, type, slot) (WEFT_HAS_FIELD(pointer, type, slot) && (pointer)->slot != NULL)

#endif
