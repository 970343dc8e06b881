/* The version of the C ABI. While the major is 0, both sides must have the same minor; from 1.0 on they agree
 * on one. */
#ifndef WEFT_ABI_VERSION_H
#define WEFT_ABI_VERSION_H

/* The version of these headers. */
#define WEFT_ABI_MAJOR 0
#define WEFT_ABI_MINOR 1

#endif
