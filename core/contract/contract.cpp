#include "contract/contract.hpp"

#include <ATen/Parallel.h>

#include "base/text.hpp"
#include "contract/strategy.hpp"
#include "weft/error.hpp"

namespace weft::contract {

namespace {

struct Suite {
  const char* kind;
  void (*run)(const Subject& subject, const Tell& tell);
};

constexpr Suite kSuites[] = {{"strategy", [](const Subject& subject, const Tell& tell) {
                                check_strategy(subject.name, subject.options, tell);
                              }}};

const Suite* find_suite(const std::string& kind) {
  for (const Suite& suite : kSuites)
    if (kind == suite.kind) return &suite;
  return nullptr;
}

}  // namespace

bool has_suite(const std::string& kind) {
  return find_suite(kind) != nullptr;
}

void check(const Subject& subject, const Tell& tell) {
  const Suite* const suite = find_suite(subject.kind);
  if (suite == nullptr) fail(WEFT_NOT_FOUND, "there is no suite for plugins of kind {}", subject.kind);
  at::set_num_threads(1);  // the threads of libtorch's pool would not survive the forks of run_ranks()
  suite->run(subject, tell);
}

}  // namespace weft::contract
