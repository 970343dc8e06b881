// Keeps values below the stack pointer, as the code does that oneDNN generates for matrix products, and finds
// out whether a signal handler ran on that stack.
#pragma once

#include <cstdint>

namespace weft::test {

// Writes 1,000 values below the stack pointer, reads them again, and so on, `rounds` times. Returns how many
// had another value. The kernel puts the frame of a handler there, of 1 to 12 KiB.
inline uint64_t overwritten_below_stack(uint64_t rounds) {
  uint64_t overwritten = 0;
  asm volatile(
      "1: lea -8192(%%rsp), %%rdi\n"
      "mov $1000, %%rdx\n"
      "2: mov %%rdx, (%%rdi)\n"
      "add $8, %%rdi\n"
      "dec %%rdx\n"
      "jnz 2b\n"
      "lea -8192(%%rsp), %%rdi\n"
      "mov $1000, %%rdx\n"
      "3: cmp %%rdx, (%%rdi)\n"
      "je 4f\n"
      "inc %[overwritten]\n"
      "4: add $8, %%rdi\n"
      "dec %%rdx\n"
      "jnz 3b\n"
      "dec %[rounds]\n"
      "jnz 1b\n"
      : [overwritten] "+r"(overwritten), [rounds] "+r"(rounds)
      :
      : "rdi", "rdx", "cc", "memory");
  return overwritten;
}

}  // namespace weft::test
