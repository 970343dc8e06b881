// Gradients of parameters that units on several pipeline stages use, such as tied embeddings. Each of these
// stages, the holders, has the parameter and computes a part of its gradient. A strategy sees the sum over
// the holders, and only when it is complete: in the last backward of a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "training/handles.hpp"
#include "weft/world.hpp"

namespace weft {

class SharedGradients {
 public:
  // Adds a parameter of this stage. `holders` are the stages that have it, `samples` the ranks of this stage
  // over which the strategy sums its gradient.
  void add(weft_param& param, const Communicator& holders, const Communicator& samples);
  bool empty() const { return entries_.empty(); }

  // Sets the gradients that the strategy keeps in .grad aside, before autograd runs.
  void begin();
  // Takes what autograd has added to .grad since, and puts the strategy's gradients back.
  void end();
  // Sums what end() took since the last complete() over the holders, and adds the sum to .grad. Returns the
  // parameters that got a gradient on any holder, for which `gradient_ready` is due. Blocks until all holders
  // have called it: call it after everything that another stage waits for.
  std::vector<weft_param*> complete();
  // Forgets what end() took.
  void zero();
  // Returns true if end() has taken a gradient since the last complete(): the strategy does not have it.
  bool is_pending() const;

 private:
  struct Entry {
    weft_param* param;
    Communicator holders, samples;
    at::Tensor own;    // what backward gave this stage since the last complete()
    at::Tensor aside;  // the strategy's, while autograd runs
  };
  std::string others() const;
  std::vector<Entry> entries_;  // in the order of parameters, which is the same on all holders
};

}  // namespace weft
