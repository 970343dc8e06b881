/* The version of the C ABI. Members and functions are only ever appended: a host loads plugins of every minor
 * from WEFT_ABI_MINOR_OLDEST to its own, and a plugin says which is the oldest host that has what it uses. */
#ifndef WEFT_ABI_VERSION_H
#define WEFT_ABI_VERSION_H

/* The version of these headers. */
#define WEFT_ABI_MAJOR 0
#define WEFT_ABI_MINOR 2

/* The oldest minor that these headers still describe. It is raised on purpose alone, by a change that breaks
 * what was built before; while the major is 0 that may happen. */
#define WEFT_ABI_MINOR_OLDEST 2

#endif
