// The objects behind the C application API.
#pragma once

#include <string>

#include "trainer/c_hook.hpp"
#include "weft/generation.h"
#include "weft/tokenizer.hpp"
#include "weft/weft.hpp"

struct weft_tensor {
  at::Tensor tensor;  // contiguous, on the CPU
};
struct weft_model {
  weft::Model model;
  std::string path;  // from which it was opened
};
struct weft_optimizer {
  weft::optim::Optimizer optimizer;
};
struct weft_scheduler {
  weft::optim::Scheduler scheduler;
};
struct weft_data {
  weft::data::Loader loader;
};
struct weft_booster {
  weft::Booster booster;
};
struct weft_tokenizer {
  weft::Tokenizer tokenizer;
};
struct weft_job {
  weft::Booster booster;
  weft::Job job;
  std::vector<weft::Measure> metrics = {};  // of the last evaluation
};
struct weft_stop_signals {
  weft::StopSignals signals;
};
struct weft_trainer {
  weft::Trainer trainer;
  std::shared_ptr<weft::NonFiniteGuard> guard;  // null: none was asked for
  std::shared_ptr<weft::StepRecords> records;   // null: nothing is recorded
  bool has_run = false;
  std::unique_ptr<weft::MomentInC> described = {};  // what the last weft_trainer_describe returned
};

namespace weft::application {

// Throws INVALID_ARGUMENT naming the function and the argument if `pointer` is null.
void require(const void* pointer, const char* function, const char* argument);

// Returns the world of this process, which the first call joins.
const World& world();

// Returns a batch of the caller's tensors. It refers to their memory. `function` is named where a field is
// wrong.
Batch batch_of(weft_fields fields, const char* function);

// Returns a text from a struct of arguments. Throws INVALID_ARGUMENT if it has a size and no data.
std::string_view text_of_argument(weft_str text, const char* function, const char* argument);

// Wraps a criterion of the C API as a C++ one: the loss and the gradients that it returns become a node of
// the autograd graph.
Criterion criterion_of(const weft_criterion& criterion);

}  // namespace weft::application
