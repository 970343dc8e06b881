// The GPT-2 classes of Hugging Face as Weft models: a trunk and a head.
#pragma once

#include <memory>
#include <string_view>

#include "head.hpp"
#include "trunk.hpp"
#include "weft/nn/decoder.hpp"

namespace weft::gpt2 {

class Gpt2Model final : public nn::DecoderModel {
 public:
  Gpt2Model(const Config& config, const Architecture& architecture, at::ScalarType dtype);

  nn::Initial initial(std::string_view parameter) const override;
  bool ignored_on_load(std::string_view entry) const override;

 private:
  Gpt2Model(const Config& config, Gpt2Config gpt2, const Architecture& architecture, at::ScalarType dtype);

  const Gpt2Config gpt2_;
  std::unique_ptr<Trunk> trunk_;
};

// The class of that name on the meta device. Throws NOT_FOUND naming the six.
std::shared_ptr<nn::Model> make_model(const Config& config, std::string_view architecture,
                                      at::ScalarType dtype);

}  // namespace weft::gpt2
