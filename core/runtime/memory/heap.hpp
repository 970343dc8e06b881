// The memory of host tensors comes from the C library's heap.
#pragma once

namespace weft::memory {

// Makes malloc keep up to 512 MiB of freed memory at the top of the heap for the next step. With its defaults
// glibc returns that memory to the system in each step (malloc_trim), so that the next one takes a page fault
// for every page. Does nothing where the environment has settings of malloc (MALLOC_TRIM_THRESHOLD_,
// MALLOC_MMAP_THRESHOLD_ or glibc.malloc in GLIBC_TUNABLES), or with another C library.
void keep_freed_memory();

}  // namespace weft::memory
