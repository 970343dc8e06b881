/* The anchor of the ABI: a library with one function for each struct that crosses, so that its debug
 * information describes them all; and the rules of layout, checked by the compiler. Built with -g, never
 * installed. */
#include <weft/abi_version.h>
#include <weft/booster.h>
#include <weft/checkpoint_io.h>
#include <weft/comm.h>
#include <weft/generation.h>
#include <weft/hook.h>
#include <weft/host.h>
#include <weft/mesh.h>
#include <weft/operation.h>
#include <weft/plugin.h>
#include <weft/pools.h>
#include <weft/runtime.h>
#include <weft/shard_policy.h>
#include <weft/strategy.h>
#include <weft/tensor.h>
#include <weft/tokenizer.h>
#include <weft/training.h>
#include <weft/types.h>

/* Tail padding would make a member that is added later look present in structs of older plugins. */
#define CHECK_END(type, last)                                               \
  _Static_assert(sizeof(type) == WEFT_END_OF(type, last),                   \
                 #type ": pad it explicitly, or name its new last member"); \
  _Static_assert(sizeof(type) % 8 == 0, #type ": its size must be a multiple of 8");
#define CHECK_SIZE_FIRST(type)                                                             \
  _Static_assert(offsetof(type, struct_size) == 0 && sizeof(((type*)0)->struct_size) == 8, \
                 #type ": must begin with uint64_t struct_size");
#define CHECK_SLOT(type, last, slot)                                                         \
  _Static_assert(offsetof(type, last) == sizeof(uint64_t) + (slot) * sizeof(void (*)(void)), \
                 #type ": " #last " must be function number " #slot "; functions are only ever appended");
#define ANCHOR(type)                                \
  WEFT_EXPORT void weft_anchor_##type(const type*); \
  void weft_anchor_##type(const type* value) {      \
    (void)value;                                    \
  }

#define TABLE(type, last, slot) \
  CHECK_END(type, last) CHECK_SIZE_FIRST(type) CHECK_SLOT(type, last, slot) ANCHOR(type)
#define SIZED(type, last) CHECK_END(type, last) CHECK_SIZE_FIRST(type) ANCHOR(type)
#define VALUE(type, last) CHECK_END(type, last) ANCHOR(type)
#include "structs.h"
