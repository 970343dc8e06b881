// Compares every family with its oracles: outputs, losses and gradients of Hugging Face, and names.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "policies/oracle.hpp"
#include "support/expect_error.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/forward_context.hpp"
#include "weft/nn/key_value_cache.hpp"

namespace weft::WEFT_FAMILY {

// Of the model library that is linked.
std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype);

}  // namespace weft::WEFT_FAMILY

namespace weft::test {

std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype) {
  return WEFT_FAMILY::make_model(config, architecture, dtype);
}

namespace {

// The classes of the family, as its plugin.json lists them.
std::set<std::string> classes() {
  std::istringstream words(WEFT_CLASSES);
  return {std::istream_iterator<std::string>(words), {}};
}

TEST(ModelFamily, RefusesUnknownClassesNamingThoseItHas) {
  const Config config = Oracle::load(Oracle::files().front()).config;
  for (const std::string& name : classes()) {
    std::string misspelt = name;
    std::swap(misspelt.back(), misspelt[misspelt.size() - 2]);
    for (const std::string& known : classes())
      EXPECT_ERROR(make_model(config, misspelt), WEFT_NOT_FOUND, "no model class is called \"" + misspelt,
                   "did you mean \"" + name + "\"?", known);
  }
}

TEST(ModelFamily, HasOraclesOfAllItsClasses) {
  std::set<std::string> found;
  for (const std::string& file : Oracle::files()) found.insert(Oracle::load(file).architecture);
  EXPECT_EQ(found, classes());
}

TEST(ModelFamily, RefusesAnEncoderAndADecoderThatShareTheirWeights) {
  const Oracle oracle = Oracle::load(Oracle::files().front());
  const auto make = [&](const char* shared) {
    return make_model(oracle.config.with_json("tie_encoder_decoder", shared), oracle.architecture);
  };
  EXPECT_ERROR(make("true"), WEFT_UNIMPLEMENTED, "\"tie_encoder_decoder\" is true", "set it to false");
  EXPECT_NO_THROW(make("false"));
}

TEST(ModelFamily, RefusesTwoNumbersOfLabels) {
  for (const std::string& file : Oracle::files()) {
    const Oracle oracle = Oracle::load(file);
    if (oracle.config.entries("id2label") != 3) continue;
    EXPECT_ERROR(make_model(oracle.config.with_json("num_labels", "4"), oracle.architecture),
                 WEFT_INVALID_ARGUMENT, "\"num_labels\" is 4", "\"id2label\" has 3 labels");
    EXPECT_NO_THROW(make_model(oracle.config.with_json("num_labels", "3"), oracle.architecture));
  }
}

TEST(ModelFamily, ClassifiesTokensByTheCrossEntropyOfOneLabelOnly) {
  for (const std::string& file : Oracle::files()) {
    const Oracle oracle = Oracle::load(file);
    if (!oracle.architecture.ends_with("ForTokenClassification")) continue;
    const auto make = [&](const Config& config) { return make_model(config, oracle.architecture); };
    for (const char* problem : {"regression", "multi_label_classification"})
      EXPECT_ERROR(make(oracle.config.with("problem_type", problem)), WEFT_INVALID_ARGUMENT, file, problem,
                   "single_label_classification");
    EXPECT_NO_THROW(make(oracle.config.with("problem_type", "single_label_classification")));
    EXPECT_ERROR(make(oracle.config.with_json("id2label", "null").with_json("num_labels", "1")),
                 WEFT_INVALID_ARGUMENT, file, "1 label", "num_labels");
  }
}

// Runs all units for `positions` tokens that continue those in `cache`.
State run_cached(nn::Model& model, const Batch& batch, int64_t positions, nn::KeyValueCache& cache) {
  State state = cache.past() > 0 ? model.continued_input(batch) : model.input(batch);
  nn::ForwardContext context({}, {}, &cache);
  cache.begin(positions);
  for (uint64_t index = 0; nn::Unit * unit : model.units()) {
    const nn::RunningUnit running(context, index++);
    unit->forward(state);
  }
  cache.end();
  return state;
}

// Rows of tokens with padding before the shorter ones, beside the inputs of an encoder.
struct RaggedRows {
  RaggedRows(const Oracle& oracle, nn::Decoding how, int64_t positions) : decoding(std::move(how)) {
    for (const std::string& name : decoding.encoder)
      if (oracle.inputs.contains(name)) encoder.set(name, oracle.inputs.at(name));
    const int64_t rows = decoding.encoder.empty() ? 3 : encoder.samples();
    at::manual_seed(11);
    ids = at::randint(decoding.vocabulary, {rows, positions}, at::kLong);
    for (int64_t row = 0; row < rows; ++row) padding.push_back(row % 3 == 1 ? 0 : 1 + row % 2);
  }
  // Returns a batch of the tokens [begin, begin + count) of all rows.
  Batch of(int64_t begin, int64_t count, const nn::KeyValueCache& cache) const {
    Batch batch;
    if (begin == 0) {
      for (const auto& [name, field] : encoder) batch.set(name, field);
      const at::Tensor mask = at::ones({ids.size(0), count}, at::kLong);
      for (int64_t row = 0; row < ids.size(0); ++row)
        mask[row].narrow(0, 0, padding[static_cast<size_t>(row)]).fill_(0);
      batch.set(decoding.mask, mask);
    }
    batch.set(decoding.ids, ids.narrow(1, begin, count));
    if (!decoding.positions.empty())
      batch.set(decoding.positions, cache.positions(begin + count, ids).narrow(1, begin, count));
    return batch;
  }
  // Returns the tokens of one row up to `end` alone, without padding.
  Batch alone(int64_t row, int64_t end) const {
    Batch batch;
    for (const auto& [name, field] : encoder) batch.set(name, field.narrow(0, row, 1));
    const int64_t first = padding[static_cast<size_t>(row)];
    batch.set(decoding.ids, ids.narrow(0, row, 1).narrow(1, first, end - first));
    return batch;
  }

  nn::Decoding decoding;
  Batch encoder;
  at::Tensor ids;
  std::vector<int64_t> padding;
};

bool generates(const std::string& architecture) {
  for (const char* end : {"LMHeadModel", "DoubleHeadsModel", "ForCausalLM", "ForConditionalGeneration"})
    if (architecture.ends_with(end)) return true;
  return false;
}

// The cache grows from 2 positions. The last forwards are of one token, of two, and of one.
void expect_logits_of_whole_sequences(nn::Model& model, const Oracle& oracle, const nn::Decoding& decoding) {
  constexpr int64_t kPositions = 9;
  const RaggedRows rows(oracle, decoding, kPositions);
  nn::KeyValueCache cache(2, rows.padding);
  for (const int64_t count : {4, 1, 1, 2, 1}) {
    const int64_t begin = cache.past(), end = begin + count;
    const at::Tensor logits = run_cached(model, rows.of(begin, count, cache), count, cache).at("logits");
    ASSERT_EQ(logits.size(1), 1) << "logits of one position";
    for (int64_t row = 0; row < rows.ids.size(0); ++row) {
      const at::Tensor whole = run(model, rows.alone(row, end)).at("logits");
      EXPECT_TRUE(is_near(logits[row][0], whole[0][-1], 1e-5)) << "row " << row << ", " << end << " tokens";
    }
  }
  EXPECT_EQ(cache.past(), kPositions);
}

TEST(ModelFamily, GivesWithACacheTheLogitsOfWholeSequences) {
  const at::NoGradGuard no_grad;
  int compared = 0, causal = 0;
  for (const std::string& name : classes()) causal += generates(name) ? 1 : 0;
  for (const std::string& file : Oracle::files()) {
    const Oracle oracle = Oracle::load(file);
    const auto model = make_model(oracle.config, oracle.architecture);
    const std::optional<nn::Decoding> decoding = model->decoding();
    if (!generates(oracle.architecture) || !decoding) continue;
    SCOPED_TRACE(file);
    bind_weights(*model, oracle.weights);
    model->eval();
    expect_logits_of_whole_sequences(*model, oracle, *decoding);
    ++compared;
  }
  EXPECT_GE(compared, causal);
}

class Parity : public testing::TestWithParam<std::string> {
 protected:
  Parity() : oracle_(Oracle::load(GetParam())), model_(make_model(oracle_.config, oracle_.architecture)) {
    bind_weights(*model_, oracle_.weights);
  }

  // Returns the elements of an output that Hugging Face defines.
  at::Tensor defined(const std::string& name, const at::Tensor& output) const {
    const auto mask = oracle_.defined.find(name);
    return mask == oracle_.defined.end() ? output : output.index({mask->second.to(at::kBool)});
  }

  // Returns the mean losses of the model's terms under the names of the oracle.
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
    oracle_.weighed(last).backward();
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

// Of labels that are classes, as Hugging Face's logits predict them.
TEST_P(Parity, MeasuresTheAccuracyOfAClassifier) {
  if (oracle_.architecture.find("Classification") == std::string::npos) return;
  const Batch batch = oracle_.batch();
  const std::vector<Metric> metrics = model_->metrics(model_->outputs(run(*model_, batch)), batch);
  const at::Tensor labels = batch.at("labels").reshape(-1);
  const bool several = oracle_.config.text("problem_type", "") == "multi_label_classification";
  ASSERT_EQ(metrics.size(), 1u);
  const std::string first = several || !labels.is_floating_point() ? "accuracy" : "mse";
  const Measure measure = metrics[0].measures().at(0);
  EXPECT_EQ(measure.name, first);
  if (labels.is_floating_point()) return;
  const at::Tensor found = oracle_.outputs.at("logits").flatten(0, -2).argmax(-1);
  EXPECT_EQ(measure.count, labels.ne(-100).sum().item<double>());
  EXPECT_DOUBLE_EQ(measure.value * measure.count, found.eq(labels).sum().item<double>());
}

// Of masked tokens, and of the next sentence.
TEST_P(Parity, MeasuresTheAccuracyOfPreTraining) {
  const bool both = oracle_.architecture == "BertForPreTraining";
  if (!both && oracle_.architecture != "BertForMaskedLM") return;
  const Batch batch = oracle_.batch();
  const std::vector<Metric> metrics = model_->metrics(model_->outputs(run(*model_, batch)), batch);
  const auto expect_metric = [&](const Metric& metric, const char* name, const char* logits,
                                 const char* field) {
    const at::Tensor labels = batch.at(field).reshape(-1);
    const at::Tensor found = oracle_.outputs.at(logits).flatten(0, -2).argmax(-1);
    EXPECT_EQ(metric.name, name);
    EXPECT_EQ(metric.sums, (std::vector<double>{found.eq(labels).sum().item<double>(),
                                                labels.ne(-100).sum().item<double>()}));
  };
  ASSERT_EQ(metrics.size(), both ? 2u : 1u);
  expect_metric(metrics[0], "masked_lm_accuracy", both ? "prediction_logits" : "logits", "labels");
  if (both)
    expect_metric(metrics[1], "next_sentence_accuracy", "seq_relationship_logits", "next_sentence_label");
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

TEST_P(Parity, TakesItsExample) {
  const std::optional<Batch> example = model_->example(1, 5);
  ASSERT_TRUE(example);
  // Images and spectra have the size of the configuration.
  if (example->has("input_ids")) EXPECT_EQ(model_->lengths(*example).front().positions, 5);
  EXPECT_EQ(example->samples(), 1);
  EXPECT_NO_THROW(model_->input(*example));
}

TEST_P(Parity, IsMadeWithoutMemoryInTheTypeGiven) {
  const auto made = make_model(oracle_.config, oracle_.architecture, at::kBFloat16);
  for (const auto& item : made->named_parameters()) {
    EXPECT_TRUE(item.value().is_meta()) << item.key();
    EXPECT_TRUE(item.value().requires_grad()) << item.key();
    EXPECT_EQ(item.value().scalar_type(), at::kBFloat16) << item.key();
  }
}

TEST_P(Parity, IsCutIntoUnitsThatUseEveryParameter) {
  std::set<const void*> used;
  for (nn::Unit* unit : model_->units())
    for (torch::nn::Module* module : unit->modules())
      for (const at::Tensor& parameter : module->parameters()) used.insert(parameter.unsafeGetTensorImpl());
  for (const auto& item : model_->named_parameters())
    EXPECT_TRUE(used.contains(item.value().unsafeGetTensorImpl())) << item.key();
  EXPECT_EQ(unit_names(*model_).front(), "prologue");
  EXPECT_EQ(unit_names(*model_).back(), "epilogue");
}

// Rounded to bf16, as the weights of both models are here.
Oracle::Tensors rounded(Oracle::Tensors tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kBFloat16).to(at::kFloat);
  return tensors;
}

// Of `found` what lies along `expected`: rounding leaves it near 1, where an element-wise maximum cannot tell
// a wrong factor from rounding. And what is left, both in units of `expected`.
std::pair<double, double> compare(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor a = found.detach().to(at::kDouble).flatten(),
                   b = expected.detach().to(at::kDouble).flatten();
  const double square = b.dot(b).item<double>(), along = a.dot(b).item<double>() / square;
  return {along, (a - along * b).norm().item<double>() / std::sqrt(square)};
}

// Outputs and all gradients together. With the same weights, so that nothing but the arithmetic differs.
TEST_P(Parity, HasOutputsAndGradientsInBf16NearThoseOfFp32) {
  const Batch batch = oracle_.batch();
  std::vector<at::Tensor> outputs[2], gradients[2];
  for (const bool half : {false, true}) {
    const auto model = make_model(oracle_.config, oracle_.architecture, half ? at::kBFloat16 : at::kFloat);
    bind_weights(*model, rounded(oracle_.weights));
    const State last = run(*model, batch);
    for (const auto& [name, output] : model->outputs(last))
      outputs[half].push_back(defined(name, output).detach().to(at::kFloat).flatten());
    if (oracle_.inputs.contains("cotangent"))
      oracle_.weighed(last).backward();
    else
      total_loss(*model, last, batch).backward();
    for (const auto& item : model->named_parameters())
      if (item.value().grad().defined())
        gradients[half].push_back(item.value().grad().to(at::kFloat).flatten());
  }
  ASSERT_EQ(gradients[0].size(), gradients[1].size());
  for (auto* both : {outputs, gradients}) {
    // The largest of all cases are 0.007 and 0.02 of outputs, 0.035 and 0.1 of gradients: of 18 channels,
    // that rounding does not average out.
    const double times = both == outputs ? 1 : 5;
    const auto [along, rest] = compare(at::cat(both[1]), at::cat(both[0]));
    EXPECT_NEAR(along, 1, times * 0.01) << (both == outputs ? "outputs" : "gradients");
    EXPECT_LT(rest, times * 0.03) << (both == outputs ? "outputs" : "gradients");
  }
}

INSTANTIATE_TEST_SUITE_P(AllCases, Parity, testing::ValuesIn(Oracle::files()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace

}  // namespace weft::test
