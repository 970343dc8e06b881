#include "policies/oracle.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "safetensors.hpp"
#include "weft/types.h"

namespace weft::test {

namespace {

at::Tensor tensor_of(const hugging_face::StoredTensor& stored) {
  const at::ScalarType dtype = stored.type->code == WEFT_I64 ? at::kLong : at::kFloat;
  EXPECT_TRUE(stored.type->code == WEFT_I64 || stored.type->code == WEFT_F32) << stored.name;
  return at::from_blob(const_cast<std::byte*>(stored.data), stored.shape, at::TensorOptions().dtype(dtype))
      .clone();
}

void bind_one(at::Tensor& parameter, const at::Tensor& value) {
  ASSERT_EQ(parameter.sizes(), value.sizes());
  const at::Tensor storage = value.to(parameter.scalar_type()).clone();
  parameter.unsafeGetTensorImpl()->shallow_copy_from(storage.variable_data().getIntrusivePtr());
  parameter.set_requires_grad(true);
}

std::map<at::ScalarType, Oracle::Noise> noise_of(const std::string& text) {
  std::map<at::ScalarType, Oracle::Noise> noise;
  const nlohmann::json read = nlohmann::json::parse(text);
  for (const auto& [name, type] : {std::pair("bf16", at::kBFloat16), {"fp16", at::kHalf}})
    noise[type] = {read.at(name).at(0).get<double>(), read.at(name).at(1).get<double>()};
  return noise;
}

std::map<std::string, std::string> canonical_names(const nn::Model& model) {
  std::map<std::string, std::string> names;
  for (const nn::Tie& tie : model.ties()) names[tie.name] = tie.canonical;
  return names;
}

}  // namespace

Oracle Oracle::load(const std::string& file) {
  const hugging_face::WeightFile stored = hugging_face::open_safetensors(
      hugging_face::MappedFile(std::string(WEFT_ORACLES) + "/" + file + ".safetensors"));
  Oracle oracle;
  oracle.architecture = stored.metadata.at("class");
  oracle.config = Config::parse(stored.metadata.at("config"), file);
  oracle.noise = noise_of(stored.metadata.at("noise"));
  for (const hugging_face::StoredTensor& tensor : stored.tensors) {
    const size_t dot = tensor.name.find('.');
    const std::string group = tensor.name.substr(0, dot), name = tensor.name.substr(dot + 1);
    Tensors& tensors = group == "weight"   ? oracle.weights
                       : group == "input"  ? oracle.inputs
                       : group == "output" ? oracle.outputs
                       : group == "grad"   ? oracle.gradients
                                           : oracle.defined;
    tensors[name] = tensor_of(tensor);
  }
  return oracle;
}

std::vector<std::string> Oracle::files() {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_ORACLES)) {
    if (entry.path().extension() == ".safetensors") files.insert(entry.path().stem());
  }
  return {files.begin(), files.end()};
}

Batch Oracle::batch() const {
  Batch batch;
  for (const auto& [name, tensor] : inputs) {
    if (name != "cotangent") batch.set(name, tensor);
  }
  return batch;
}

at::Tensor Oracle::weighed(const State& outputs) const {
  const at::Tensor& cotangent = inputs.at("cotangent");
  const at::Tensor sum = (outputs.at("last_hidden_state") * cotangent).sum();
  const at::Tensor* pooled = outputs.find("pooler_output");
  return pooled == nullptr ? sum
                           : sum + (*pooled * cotangent.select(1, 0).slice(1, 0, pooled->size(1))).sum();
}

void bind_weights(nn::Model& model, const Oracle::Tensors& weights) {
  const std::map<std::string, std::string> canonical = canonical_names(model);
  std::set<std::string> left;
  for (const auto& [name, value] : weights) left.insert(name);
  for (auto& item : model.named_parameters()) {
    if (canonical.contains(item.key())) continue;
    ASSERT_TRUE(weights.contains(item.key())) << item.key();
    ASSERT_TRUE(item.value().is_meta()) << item.key();
    bind_one(item.value(), weights.at(item.key()));
    left.erase(item.key());
  }
  EXPECT_TRUE(left.empty()) << "the model has no " << *left.begin();
}

void bind_random(nn::Model& model, int64_t seed) {
  at::manual_seed(seed);
  Oracle::Tensors weights;
  for (const auto& item : model.named_parameters()) {
    if (!canonical_names(model).contains(item.key()))
      weights[item.key()] = at::randn(item.value().sizes()) * 0.3;
  }
  bind_weights(model, weights);
}

std::vector<std::string> unit_names(nn::Model& model) {
  std::vector<std::string> names;
  for (const nn::Unit* unit : model.units()) names.push_back(unit->name());
  return names;
}

State run(nn::Model& model, const Batch& batch) {
  State state = model.input(batch);
  for (nn::Unit* unit : model.units()) unit->forward(state);
  return state;
}

void expect_dropout_in_training_only(nn::Model& model, const Batch& batch, std::string_view output) {
  const auto forward = [&] { return run(model, batch).at(output); };
  EXPECT_FALSE(forward().equal(forward()));
  at::manual_seed(5);
  const at::Tensor first = forward();
  at::manual_seed(5);
  EXPECT_TRUE(forward().equal(first));
  model.eval();
  EXPECT_TRUE(forward().equal(forward()));
}

at::Tensor total_loss(nn::Model& model, const State& last, const Batch& batch) {
  const std::vector<nn::LossTerm> terms = model.loss(last, batch);
  const std::vector<nn::LossCount> counts = model.counts(batch);
  EXPECT_EQ(terms.size(), counts.size());
  at::Tensor total;
  for (size_t i = 0; i < terms.size(); ++i) {
    EXPECT_EQ(terms[i].name, counts[i].name);
    const at::Tensor part = terms[i].weight * terms[i].sum / counts[i].count;
    total = total.defined() ? total + part : part;
  }
  return total;
}

}  // namespace weft::test
