/* Macros for tables and structs that grow: every struct that crosses the ABI begins with `uint64_t
 * struct_size`. */
#ifndef WEFT_MACROS_H
#define WEFT_MACROS_H

#include <stddef.h>

/* Surround declarations with C linkage. */
#ifdef __cplusplus
#define WEFT_BEGIN_C extern "C" {
#define WEFT_END_C }
#else
#define WEFT_BEGIN_C
#define WEFT_END_C
#endif

/* Exports a function from a library that hides its symbols. */
#define WEFT_EXPORT __attribute__((visibility("default")))

/* The offset of the byte after `field`. */
#define WEFT_END_OF(type, field) (offsetof(type, field) + sizeof(((type*)0)->field))

/* True if `pointer` points to a struct that is new enough to hold `field`. */
#define WEFT_HAS_FIELD(pointer, type, field) ((pointer)->struct_size >= WEFT_END_OF(type, field))

/* True if the table is new enough to hold the function `slot` and its owner filled it. */
#define WEFT_HAS(pointer, type, slot) (WEFT_HAS_FIELD(pointer, type, slot) && (pointer)->slot != NULL)

#endif
