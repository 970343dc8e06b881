// The objects behind the C application API.
#pragma once

#include "weft/booster.h"
#include "weft/weft.hpp"

struct weft_tensor {
  at::Tensor tensor;  // contiguous, on the CPU
};
struct weft_model {
  weft::Model model;
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
struct weft_job {
  weft::Booster booster;
  weft::Job job;
};

namespace weft::application {

// Throws INVALID_ARGUMENT naming the function and the argument.
void require(const void* pointer, const char* function, const char* argument);

// The ranks of this process, joined once.
const World& world();

// Borrowed fields as a batch.
Batch batch_of(const weft_field* fields, uint64_t num_fields);

// A criterion of the caller's as a C++ one: its value and gradients become a node of the graph.
Criterion criterion_of(const weft_criterion& criterion);

}  // namespace weft::application
