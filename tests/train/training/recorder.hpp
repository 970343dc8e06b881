// A strategy as a bare table in the process of the test, and trainings under it. It holds whole parameters,
// sums gradients over the data axes at the end of backward, and records every hook.
#pragma once

#include <weft/strategy.h>
#include <weft/training.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/training/toy_model.hpp"
#include "training/training.hpp"

namespace weft::test {

class Recorder {
 public:
  Recorder();
  Recorder(const Recorder&) = delete;

  // "before_forward blocks.1", "gradient_ready wte.weight", "begin_backward 0 of 2 synchronised"
  std::vector<std::string> events;
  // Called for every event. It may throw to make the hook fail.
  std::function<void(const std::string& event)> on_event;
  // Called in configure instead of binding whole parameters.
  std::function<void(weft_training*)> configure;
  std::function<void(weft_mesh*)> describe_mesh;
  std::function<void(weft_step*)> run_step;
  std::function<void(weft_shard_sink*)> publish;
  bool sums = true;  // over the data axes, at the end of a synchronised backward

  const weft_strategy_api& api() const { return api_; }
  weft_training* training = nullptr;
  uint32_t world_size = 1;

  // Returns the events after `from` without gradient_ready, whose order is not defined.
  std::vector<std::string> without_gradients(size_t from = 0) const;
  std::vector<std::string> of(const std::string& hook) const;

  void use_run_step();  // fills the slot run_step, which is NULL otherwise
  void note(const std::string& event);
  void end_backward(const weft_pass& pass);
  void bind_whole(weft_training* training);

 private:
  weft_strategy_api api_{};
};

const weft_model_services& model_services();
const weft_comm_services& comm_services();
const weft_memory_services& memory_services();
const weft_step_services& the_step_services();
const weft_publish_services& publish_services();
inline const weft_at_tensor* handle_of(const at::Tensor& tensor) {
  return reinterpret_cast<const weft_at_tensor*>(&tensor);
}
// Throws the error that a function of a table returned.
void call(const std::function<weft_status(weft_error*)>& function);

std::shared_ptr<Training> make_training(World world, std::shared_ptr<nn::Model> model, Recorder& recorder,
                                        TrainingOptions options = {}, const Bindings::MakePlan& plan = {},
                                        std::shared_ptr<ParameterSource> source = nullptr);
// Makes a training without a strategy on one rank.
std::shared_ptr<Training> make_single(std::shared_ptr<nn::Model> model, TrainingOptions options = {});

// Returns copies of the published values and gradients by name. Gradients may be undefined.
std::map<std::string, at::Tensor> gradients_of(Training& training);
std::map<std::string, at::Tensor> values_of(Training& training);

// Returns the expected backward hooks: one pair for each unit, later units first.
std::vector<std::string> backward_events(const std::vector<std::string>& units);

}  // namespace weft::test
