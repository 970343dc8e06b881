// `weft plan`.
#include <cstdio>

#include "base/text.hpp"
#include "booster/model_plan.hpp"
#include "command/arguments.hpp"
#include "command/command.hpp"
#include "plan/describe_model.hpp"
#include "weft/nn/model.hpp"

namespace weft::command {

int plan(const json& arguments) {
  const Model model = Model::open(text(arguments, "model"), text(arguments, "architecture"), "fp32");
  plan::ParallelSizes sizes;
  sizes.tensor = static_cast<uint32_t>(integer(arguments, "tensor_size", 1));
  std::string identity;
  const weft_shard_policy* policy = find_policy(model.module(), &identity);
  std::printf("%s", plan::explain_model(model.module(), policy, sizes).c_str());
  return 0;
}

}  // namespace weft::command
