/* The version of the C ABI. While the major is 0 the minor must be equal on both sides; from 1.0 on ranges rule. */
#ifndef WEFT_ABI_VERSION_H
#define WEFT_ABI_VERSION_H

#define WEFT_ABI_MAJOR 0
#define WEFT_ABI_MINOR 1

#endif
