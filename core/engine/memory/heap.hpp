// The memory of host tensors comes from the C library's heap.
#pragma once

namespace weft::memory {

// Makes the heap keep up to 512 MiB of freed memory for the next step. By default glibc gives it back to the
// system at the end of each step, and the next one pays for every page again. Does nothing where the
// environment has settings of the heap (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_ or glibc.malloc in
// GLIBC_TUNABLES), or for the heap of another C library.
void keep_freed_memory();

}  // namespace weft::memory
