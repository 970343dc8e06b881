// One source, compiled for several instruction sets; the processor's best is chosen at run time.
#pragma once

namespace weft::kernels {

enum class InstructionSet { kPortable, kAvx2, kAvx512 };

inline InstructionSet best_instruction_set() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
    return InstructionSet::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return InstructionSet::kAvx2;
#endif
  return InstructionSet::kPortable;
}

// What kernels run with. A test sets a lesser one.
inline InstructionSet& instruction_set() {
  static InstructionSet used = best_instruction_set();
  return used;
}

// Defines `name parameters`, which calls `name_body arguments`, an always-inline function, compiled for the
// best set.
#ifdef __x86_64__
#define WEFT_DISPATCH(name, parameters, arguments)                                                       \
  __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"))) void name##_avx512 parameters { \
    name##_body<InstructionSet::kAvx512> arguments;                                                      \
  }                                                                                                      \
  __attribute__((target("avx2,fma"))) void name##_avx2 parameters {                                      \
    name##_body<InstructionSet::kAvx2> arguments;                                                        \
  }                                                                                                      \
  void name##_portable parameters {                                                                      \
    name##_body<InstructionSet::kPortable> arguments;                                                    \
  }                                                                                                      \
  void name parameters {                                                                                 \
    switch (instruction_set()) {                                                                         \
      case InstructionSet::kAvx512:                                                                      \
        return name##_avx512 arguments;                                                                  \
      case InstructionSet::kAvx2:                                                                        \
        return name##_avx2 arguments;                                                                    \
      case InstructionSet::kPortable:                                                                    \
        return name##_portable arguments;                                                                \
    }                                                                                                    \
  }
#else
#define WEFT_DISPATCH(name, parameters, arguments)    \
  void name parameters {                              \
    name##_body<InstructionSet::kPortable> arguments; \
  }
#endif

}  // namespace weft::kernels
