// The Llama classes of Hugging Face as Weft models.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "block.hpp"
#include "weft/nn/decoder.hpp"

namespace weft::llama {

class LlamaModel final : public nn::DecoderModel {
 public:
  using MakeHead = std::unique_ptr<nn::Head> (*)(LlamaModel& model);
  struct Architecture {
    std::string_view name;    // "LlamaForCausalLM"
    std::string_view prefix;  // of the names of the base model's parameters: "model." or nothing
    MakeHead make_head;
  };
  LlamaModel(const Config& config, LlamaConfig llama, const Architecture& architecture, at::ScalarType dtype);

  nn::Initial initial(std::string_view parameter) const override;
  bool ignored_on_load(std::string_view entry) const override;

  const LlamaConfig& llama() const { return llama_; }
  const nn::Embedding& embed_tokens() const { return *embed_tokens_; }
  at::ScalarType dtype() const { return dtype_; }

 private:
  const LlamaConfig llama_;
  const at::ScalarType dtype_;
  std::shared_ptr<nn::Embedding> embed_tokens_;
};

// The class of that name on the meta device. Throws NOT_FOUND naming the three.
std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype);

}  // namespace weft::llama
