#include "contract/contract.hpp"

#include <ATen/Parallel.h>

#include "base/text.hpp"
#include "contract/checkpoint_io.hpp"
#include "contract/data.hpp"
#include "contract/device.hpp"
#include "contract/hook.hpp"
#include "contract/model.hpp"
#include "contract/objective.hpp"
#include "contract/operation.hpp"
#include "contract/policy.hpp"
#include "contract/strategy.hpp"
#include "contract/tokenizer.hpp"
#include "weft/error.hpp"

namespace weft::contract {

namespace {

struct Suite {
  const char* kind;
  bool takes_options, takes_model;
  void (*run)(const Subject& subject, const Tell& tell);
  bool takes_data = false;
};

constexpr Suite kSuites[] = {
    {"checkpoint_io", true, false,
     [](const Subject& subject, const Tell& tell) {
       check_checkpoint_io(subject.name, subject.options, tell);
     }},
    {"data", true, true,
     [](const Subject& subject, const Tell& tell) {
       check_data(subject.name, subject.options, subject.data, subject.model, tell);
     },
     /*takes_data=*/true},
    {"device", false, false,
     [](const Subject& subject, const Tell& tell) { check_device(subject.name, tell); }},
    {"hook", true, false,
     [](const Subject& subject, const Tell& tell) { check_hook(subject.name, subject.options, tell); }},
    {"objective", true, true,
     [](const Subject& subject, const Tell& tell) {
       check_objective(subject.name, subject.options, subject.data, subject.model, tell);
     },
     /*takes_data=*/true},
    {"strategy", true, false,
     [](const Subject& subject, const Tell& tell) { check_strategy(subject.name, subject.options, tell); }},
    {"shard_policy", false, true,
     [](const Subject& subject, const Tell& tell) { check_policy(subject.name, subject.model, tell); }},
    {"operation", false, true,
     [](const Subject& subject, const Tell& tell) { check_operation(subject.name, subject.model, tell); }},
    {"model", false, true,
     [](const Subject& subject, const Tell& tell) { check_model(subject.name, subject.model, tell); }},
    {"tokenizer", false, true,
     [](const Subject& subject, const Tell& tell) { check_tokenizer(subject.name, subject.model, tell); }}};

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
  if (!suite->takes_options && subject.options != "{}")
    fail(WEFT_INVALID_ARGUMENT, "-o is given, but the checks of kind {} take no options", subject.kind);
  if (!suite->takes_model && !subject.model.empty())
    fail(WEFT_INVALID_ARGUMENT, "--model is given, but the checks of kind {} run a model of their own",
         subject.kind);
  if (!suite->takes_data && !subject.data.empty())
    fail(WEFT_INVALID_ARGUMENT, "--data is given, but the checks of kind {} read none", subject.kind);
  at::set_num_threads(1);  // the threads of libtorch's pool would not survive the forks of run_ranks()
  suite->run(subject, tell);
}

}  // namespace weft::contract
