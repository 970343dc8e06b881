// Compares packed documents of every family with the same documents by themselves.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "policies/oracle.hpp"
#include "support/tolerances.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::test {

namespace {

// The lengths of the documents of two rows.
constexpr int64_t kDocuments[2][3] = {{4, 1, 4}, {2, 7, 0}};
constexpr int64_t kPositions = 9;

// Calls `visit` with the row, begin and length of each document.
template <class Visit>
void each_document(Visit visit) {
  for (int64_t row = 0; row < 2; ++row) {
    int64_t begin = 0;
    for (const int64_t length : kDocuments[row]) {
      if (length > 0) visit(row, begin, length);
      begin += length;
    }
  }
}

// Returns what a model computes for each token, (N, T, C).
at::Tensor output_of(nn::Model& model, const Batch& batch) {
  const State outputs = model.outputs(run(model, batch));
  for (const char* name : {"logits", "last_hidden_state", "prediction_logits"})
    if (const at::Tensor* const found = outputs.find(name)) return *found;
  ADD_FAILURE() << model.architecture() << " has no output of tokens";
  return {};
}

// Rows of several documents, and each document by itself.
struct PackedRows {
  explicit PackedRows(int64_t vocabulary) {
    at::manual_seed(7);
    ids = at::randint(3, vocabulary, {2, kPositions}, at::kLong);
    documents = at::zeros_like(ids);
    positions = at::zeros_like(ids);
    each_document([&, number = int64_t{0}](int64_t row, int64_t begin, int64_t length) mutable {
      documents[row].narrow(0, begin, length).fill_(++number);
      positions[row].narrow(0, begin, length).copy_(at::arange(length));
    });
  }
  // Returns the output of each document by itself, in the place that the document has.
  at::Tensor apart(nn::Model& model) const {
    std::vector<at::Tensor> outputs;
    each_document([&](int64_t row, int64_t begin, int64_t length) {
      outputs.push_back(
          output_of(model, Batch{{"input_ids", ids.narrow(0, row, 1).narrow(1, begin, length)}})[0]);
    });
    return at::cat(outputs).unflatten(0, {2, kPositions});
  }

  at::Tensor ids, documents, positions;
};

void expect_the_same_gradients(const nn::Model& model, const at::Tensor& packed, const at::Tensor& apart) {
  const at::Tensor up = at::randn(packed.sizes());
  const std::vector<at::Tensor> parameters = model.parameters();
  const auto gradients = [&](const at::Tensor& output) {
    return torch::autograd::grad({(output * up).sum()}, parameters, {}, {}, false, /*allow_unused=*/true);
  };
  const auto found = gradients(packed), expected = gradients(apart);
  double largest = 0;
  for (const at::Tensor& gradient : expected)
    if (gradient.defined()) largest = std::max(largest, gradient.abs().max().item<double>());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
    // Some are 0 but for rounding.
    if (found[i].defined())
      EXPECT_LE((found[i] - expected[i]).abs().max().item<double>(), kGradientFp32 * largest) << i;
  }
}

// A window of one position has no other document in it.
bool sees_earlier_tokens(const Config& config) {
  return config.integer("sliding_window", 0) != 1;
}

bool has_output_of_tokens(const std::string& architecture) {
  constexpr const char* kEnds[] = {
      "Model",         "ForCausalLM", "ForConditionalGeneration", "ForMaskedLM", "ForTokenClassification",
      "ForPreTraining"};
  return architecture.find("DoubleHeads") == std::string::npos &&
         std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](const char* end) { return architecture.ends_with(end); });
}

// Whatever "use_cache" says.
TEST(PackedDocuments, HaveTheOutputsAndGradientsOfEachDocumentByItself) {
  for (const std::string& file : Oracle::files()) {
    const Oracle oracle = Oracle::load(file);
    for (const char* use_cache : {"true", "false"}) {
      SCOPED_TRACE(file + ", use_cache " + use_cache);
      const auto model = make_model(oracle.config.with_json("use_cache", use_cache), oracle.architecture);
      const nn::TokenModel* const tokens = nn::find_token_model(*model);
      const std::optional<nn::Decoding> decoding = model->decoding();
      if (tokens == nullptr || !has_output_of_tokens(oracle.architecture)) continue;
      EXPECT_TRUE(tokens->separates_documents() || !decoding || !decoding->encoder.empty());
      if (!tokens->separates_documents()) continue;
      bind_weights(*model, oracle.weights);
      model->eval();
      const PackedRows rows(tokens->vocabularies().front().size);
      const at::Tensor apart = rows.apart(*model);
      const at::Tensor packed =
          output_of(*model, Batch{{"input_ids", rows.ids}, {"document_ids", rows.documents}});
      EXPECT_TRUE(is_near(packed, apart, kHuggingFaceOutput));
      expect_the_same_gradients(*model, packed, apart);
      EXPECT_NE(bool(is_near(output_of(*model, Batch{{"input_ids", rows.ids}}), apart, 1e-3)),
                sees_earlier_tokens(oracle.config));
    }
  }
}

// In a batch without document_ids; with them, they alone say where documents begin.
TEST(PackedDocuments, AreMarkedByPositionsThatBeginAgainAsInHuggingFace) {
  const at::NoGradGuard no_grad;
  for (const std::string& file : Oracle::files()) {
    const Oracle oracle = Oracle::load(file);
    const auto model = make_model(oracle.config.with_json("use_cache", "true"), oracle.architecture);
    const nn::TokenModel* const tokens = nn::find_token_model(*model);
    const std::optional<nn::Decoding> decoding = model->decoding();
    if (tokens == nullptr || !tokens->separates_documents() || !decoding || decoding->positions.empty() ||
        !has_output_of_tokens(oracle.architecture))
      continue;
    SCOPED_TRACE(file);
    bind_weights(*model, oracle.weights);
    model->eval();
    const PackedRows rows(tokens->vocabularies().front().size);
    const at::Tensor apart = rows.apart(*model);
    Batch batch{{"input_ids", rows.ids}, {"position_ids", rows.positions}};
    EXPECT_EQ(bool(is_near(output_of(*model, batch), apart, kHuggingFaceOutput)),
              tokens->positions_mark_documents());
    batch.set("document_ids", at::zeros_like(rows.documents));
    EXPECT_NE(bool(is_near(output_of(*model, batch), apart, 1e-3)), sees_earlier_tokens(oracle.config));
    batch.set("document_ids", rows.documents);
    EXPECT_TRUE(is_near(output_of(*model, batch), apart, kHuggingFaceOutput));
  }
}

}  // namespace

}  // namespace weft::test
