// Runs a step over pipeline stages: each rank runs the operations of its stage in the order of a schedule,
// and passes States and gradients on to its neighbours.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "training/stage_transport.hpp"
#include "training/step.hpp"

namespace weft {

class Pipeline {
 public:
  // The units of `bindings` are divided into several virtual stages.
  explicit Pipeline(Bindings& bindings);

  // Checks the micro-batches of a step, of which only the batches are set, before anything else reads them.
  // Throws on every stage what Model::input or Model::counts throws on any stage, FAILED_PRECONDITION if the
  // stages have micro-batches of different shapes or with different numbers of labels, and INVALID_ARGUMENT
  // if there is no schedule for so many. Collective over the stages.
  void check_batches(weft_step& step);

  // Runs all micro-batches of a step that check_batches has passed: the units of this stage forward and, in
  // training, backward, whole or in two halves. The ranks of the last virtual stage finish each micro-batch.
  // Collective over the stages.
  void run(weft_step& step);

 private:
  class Run;
  // The fields that enter a virtual stage.
  struct Boundary {
    std::vector<nn::FieldShape> fields;          // all, in the order of the State
    std::vector<nn::FieldShape> made;            // without those that each stage makes from the batch
    std::vector<nn::FieldShape> differentiable;  // of those, whose gradients go back
  };
  using Boundaries = std::vector<Boundary>;  // by virtual stage; empty where this rank is on neither side
  // The names, dtypes and shapes of the fields of a State.
  class Shapes {
   public:
    Shapes() = default;
    explicit Shapes(const State& state);
    bool are_of(const State& state) const;
    std::string text() const;

   private:
    struct Field {
      std::string name;
      at::ScalarType dtype;
      std::vector<int64_t> shape;
    };
    std::vector<Field> fields_;
  };

  const StageProgram& program(const weft_step& step);
  std::shared_ptr<const Boundaries> boundaries(const Batch& batch, const State& input);

  Bindings& bindings_;
  Communicator stages_;
  std::map<std::pair<size_t, bool>, StageProgram> programs_;  // by micro-batches, and whether for training
  std::map<std::string, std::shared_ptr<const Boundaries>> boundaries_;  // by the shapes of batch and input
  struct {
    Shapes batch, input;
    std::shared_ptr<const Boundaries> boundaries;
  } latest_;  // those of the latest micro-batch, which most others equal
};

}  // namespace weft
