// Trainings under torch_fsdp whose collectives are written down with the hooks that started them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/training/toy_model.hpp"
#include "training/training.hpp"

namespace weft::test {

struct Traced {
  std::shared_ptr<Training> training;
  // "before_forward blocks.0: all_gather 27, all_gather 27": hooks that started something, in order, with the
  // elements of each collective's input. Those of the training that was made last.
  std::vector<std::string> collectives() const;
  void forget();
};

// `options` as JSON. One strategy object of the process is traced at a time.
Traced trace(World world, std::shared_ptr<nn::Model> model, const std::string& options,
             TrainingOptions training_options = {});

}  // namespace weft::test
