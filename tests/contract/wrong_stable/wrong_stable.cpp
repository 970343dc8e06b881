// Operations of tier stable, y = (x W^T) (1 + s) + b with a factor s for each output feature: one is right,
// one refuses a split of the input, and the others have one mistake each.
#include <torch/csrc/stable/ops.h>

#include <array>
#include <weft/torch/operation.hpp>

using namespace weft::plugin;

namespace {

namespace ts = torch::stable;

Tensor times(const Tensor& a, const Tensor& b) {
  std::array<StableIValue, 2> stack = {ts::detail::from(a), ts::detail::from(b)};
  TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::mul", "Tensor", stack.data(), TORCH_ABI_VERSION));
  return ts::detail::to<Tensor>(stack[0]);
}

Tensor sum_of_rows(const Tensor& rows) {
  const int64_t dims[] = {0};
  return ts::sum(rows, torch::headeronly::IntHeaderOnlyArrayRef(dims, 1));
}

Tensor rows_of(const Tensor& x) {
  const int64_t sizes[] = {x.numel() / x.size(x.dim() - 1), x.size(x.dim() - 1)};
  return ts::reshape(x, {sizes, 2});
}

Tensor with_rows_of(const Tensor& rows, const Tensor& like) {
  std::vector<int64_t> sizes;
  for (int64_t dim = 0; dim + 1 < like.dim(); ++dim) sizes.push_back(like.size(dim));
  sizes.push_back(rows.size(1));
  return ts::reshape(rows, {sizes.data(), sizes.size()});
}

class Scaled final : public LinearOperation {
 public:
  explicit Scaled(const std::string& mistake) : mistake_(mistake) {
    id = "test.stable_" + mistake + "/1";
    documentation = "multiplies the output features of a linear layer by trained factors";
    flags = WEFT_OPERATION_SPLITS_OUTPUT | (mistake == "one_way" ? 0 : WEFT_OPERATION_SPLITS_INPUT);
    num_saved = mistake == "saves_too_much" ? 17 : 1;
    adapter_config = mistake == "no_config" ? "[]" : R"({"peft_type": "IA3"})";
  }

  std::vector<AddedParameter> parameters(const Options&, int64_t, int64_t outputs) const override {
    const uint32_t along = mistake_ == "whole" ? WEFT_ALONG_NOTHING : WEFT_ALONG_OUTPUT;
    return {{mistake_ == "misnamed" ? "factors" : "scaled.weight",
             {mistake_ == "misshapen" ? outputs + 1 : outputs},
             {along}}};
  }

  Tensor forward(const LinearCall& call) const override {
    const Tensor product = ts::matmul(rows_of(call.input), ts::transpose(call.weight, 0, 1));
    call.save(0, product);
    Tensor y = times(product, plus_one(call.parameters[0]));
    if (call.bias.defined()) y = ts::subtract(y, call.bias, -1);
    if (mistake_ == "narrow") y = ts::narrow(y, 1, 0, 1);
    return with_rows_of(y, call.input);
  }

  void backward(const LinearCall& call, const Tensor& output_gradient,
                const LinearGradients& gradients) const override {
    const Tensor dy = rows_of(output_gradient), of_product = times(dy, plus_one(call.parameters[0]));
    Tensor dx = ts::matmul(of_product, call.weight);
    if (mistake_ == "half") dx = ts::subtract(dx, dx, 0.5);
    gradients.input.set(with_rows_of(dx, call.input));
    if (gradients.weight.is_needed())
      gradients.weight.set(ts::matmul(ts::transpose(of_product, 0, 1), rows_of(call.input)));
    if (gradients.bias.is_needed()) gradients.bias.set(sum_of_rows(dy));
    if (mistake_ != "forgets") gradients.parameters[0].set(sum_of_rows(times(dy, call.saved(0))));
    if (mistake_ == "fails") throw weft::Error(WEFT_RESOURCE_EXHAUSTED, "there is no quince left");
  }

 private:
  static Tensor plus_one(const Tensor& x) {
    return ts::subtract(ts::full(x.sizes(), 1, x.scalar_type()), x, -1);
  }

  const std::string mistake_;
};

const weft_operation* find(const weft_operation_factory*, weft_str id) {
  static const Scaled operations[] = {Scaled("right"),          Scaled("one_way"),  Scaled("half"),
                                      Scaled("forgets"),        Scaled("narrow"),   Scaled("misnamed"),
                                      Scaled("misshapen"),      Scaled("whole"),    Scaled("fails"),
                                      Scaled("saves_too_much"), Scaled("no_config")};
  static const auto* const tables = [] {
    auto* made = new std::vector<std::unique_ptr<OperationTable>>;
    for (const Scaled& operation : operations) made->push_back(std::make_unique<OperationTable>(operation));
    return made;
  }();
  for (size_t i = 0; i < std::size(operations); ++i)
    if (operations[i].id == text(id)) return tables->at(i)->get();
  return nullptr;
}

const weft_host* host_of_plugin();

const void* find_factory(const weft_plugin*, weft_str id) {
  static const weft_operation_factory factory = {sizeof(weft_operation_factory), find};
  if (text(id) != WEFT_FACTORY_OPERATION) return nullptr;
  host.host = host_of_plugin();
  return &factory;
}

}  // namespace

WEFT_DEFINE_PLUGIN(WEFT_TIER_STABLE, "", find_factory)

namespace {

const weft_host* host_of_plugin() {
  return weft_plugin_host;
}

}  // namespace
