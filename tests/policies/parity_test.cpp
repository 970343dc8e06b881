// Hugging Face's outputs, losses and gradients of every oracle of a family.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "policies/oracle.hpp"
#include "support/tolerances.hpp"

namespace weft::test {

namespace {

class Parity : public testing::TestWithParam<std::string> {
 protected:
  Parity() : oracle_(Oracle::load(GetParam())), model_(make_model(oracle_.config, oracle_.architecture)) {
    bind_weights(*model_, oracle_.weights);
  }

  // Only where Hugging Face defines it.
  at::Tensor defined(const std::string& name, const at::Tensor& output) const {
    const auto mask = oracle_.defined.find(name);
    return mask == oracle_.defined.end() ? output : output.index({mask->second.to(at::kBool)});
  }

  // The oracle's losses by the model's own, averaged.
  Oracle::Tensors losses(const State& last, const Batch& batch) const {
    const std::vector<nn::LossCount> counts = model_->counts(batch);
    Oracle::Tensors losses;
    for (size_t i = 0; const nn::LossTerm& term : model_->loss(last, batch)) {
      const std::string name = term.name == "mc_loss" ? "mc_loss" : "loss";
      const at::Tensor mean = (term.weight * term.sum / counts[i++].count).detach();
      losses[name] = losses.contains(name) ? losses[name] + mean : mean;
    }
    return losses;
  }

  const Oracle oracle_;
  const std::shared_ptr<nn::Model> model_;
};

TEST_P(Parity, HasOutputsAndLossesOfHuggingFace) {
  const Batch batch = oracle_.batch();
  const State last = run(*model_, batch);
  Oracle::Tensors found = losses(last, batch);
  for (const auto& [name, output] : model_->outputs(last)) found[name] = output;
  ASSERT_EQ(found.size(), oracle_.outputs.size());
  for (const auto& [name, expected] : oracle_.outputs) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(is_near(defined(name, found[name]), defined(name, expected), kHuggingFaceOutput)) << name;
  }
}

TEST_P(Parity, HasGradientsOfHuggingFace) {
  const Batch batch = oracle_.batch();
  const State last = run(*model_, batch);
  if (oracle_.inputs.contains("cotangent")) {
    (last.at("last_hidden_state") * oracle_.inputs.at("cotangent")).sum().backward();
  } else {
    total_loss(*model_, last, batch).backward();
  }
  double largest = 0;
  for (const auto& [name, gradient] : oracle_.gradients)
    largest = std::max(largest, gradient.abs().max().item<double>());
  size_t compared = 0;
  for (const auto& item : model_->named_parameters()) {
    const auto expected = oracle_.gradients.find(item.key());
    if (expected == oracle_.gradients.end()) continue;  // the second name of a tied one
    ++compared;
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    if (expected->second.abs().max().item<double>() > 0) {
      EXPECT_TRUE(is_near(item.value().grad(), expected->second, kHuggingFaceGradient)) << item.key();
    } else {
      EXPECT_LE(item.value().grad().abs().max().item<double>(), kHuggingFaceGradient * largest) << item.key();
    }
  }
  EXPECT_EQ(compared, oracle_.gradients.size());
}

TEST_P(Parity, PassesTheFieldsThatBoundarySays) {
  const Batch batch = oracle_.batch();
  State state = model_->input(batch);
  const std::vector<nn::Unit*> units = model_->units();
  for (size_t index = 0; index < units.size(); ++index) {
    const std::vector<nn::FieldShape> fields = model_->boundary(batch, index);
    ASSERT_EQ(fields.size(), state.size()) << index;
    for (size_t i = 0; const auto& [name, tensor] : state) {
      EXPECT_EQ(fields[i].name, name) << index;
      EXPECT_EQ(at::IntArrayRef(fields[i].shape), tensor.sizes()) << name;
      EXPECT_EQ(fields[i].dtype, tensor.scalar_type()) << name;
      EXPECT_EQ(fields[i].differentiable, tensor.requires_grad()) << name;
      ++i;
    }
    units[index]->forward(state);
  }
}

TEST_P(Parity, GivesTheSameWhenAUnitIsRunAgain) {
  State state = model_->input(oracle_.batch());
  for (nn::Unit* unit : model_->units()) {
    State again = state;
    unit->forward(state);
    unit->forward(again);
    for (const auto& [name, tensor] : state)
      EXPECT_TRUE(again.at(name).equal(tensor)) << unit->name() << " " << name;
  }
}

INSTANTIATE_TEST_SUITE_P(AllCases, Parity, testing::ValuesIn(Oracle::files()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace

}  // namespace weft::test
