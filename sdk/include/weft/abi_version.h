/* The version of the C ABI. While the major version is 0, host and plugin must have the same minor version.
 * From 1.0 on they negotiate one that both know. */
#ifndef WEFT_ABI_VERSION_H
#define WEFT_ABI_VERSION_H

/* The version of these headers. */
#define WEFT_ABI_MAJOR 0
#define WEFT_ABI_MINOR 1

#endif
