// A model of an encoder and a decoder that attends to its output, each with a sequence of its own; or of such
// an encoder alone. The encoder reads tokens, spectra or pixels, the decoder tokens. Shapes: N samples, S
// positions of the encoder, T of the decoder, C channels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/nn/composed_model.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::nn {

// Fields of the state beside kHidden, which is that of the stack at work.
inline constexpr const char* kDecoderHidden = "decoder_hidden";  // (N, T, C), waits for the encoder
// (N, S, C), the end of the encoder; whole among the outputs.
inline constexpr const char* kEncoderOutput = "encoder_last_hidden_state";
inline constexpr const char* kSource = "source";  // the same, as the blocks of the decoder read it

// The places of a stack that a plan may replace, registered in `stack` as Identity layers.
struct SequencePlaces {
  SequencePlaces(torch::nn::Module& stack, bool feeds_decoder);
  std::shared_ptr<Identity> stream_begin, stream_end;  // where the sequence begins (ids pass) and ends
  // What the blocks of a decoder attend to passes here, once for all of them; null in a decoder.
  std::shared_ptr<Identity> source;
};

// A decoder without ids of its own takes its labels one position later.
struct ShiftedLabels {
  std::optional<int64_t> start;  // the first id; without one the labels cannot be taken
  int64_t padding = 0;           // the id of a position whose label is ignored
};

// The base of models with an encoder and, optionally, a decoder.
class EncoderDecoderModel : public ComposedModel {
 public:
  // The fields of both stacks' inputs. Where the head has labels, they stand for absent ids of the decoder.
  State input(const Batch& batch) const override;
  State outputs(const State& last) const override;
  std::vector<SequenceLength> lengths(const Batch& batch) const override;
  std::optional<Batch> example(int64_t samples, int64_t positions) const override;

 protected:
  // The blocks of one sequence.
  struct Stack {
    std::vector<std::unique_ptr<Unit>> blocks;
    LastLayers last;  // applied before the sequence ends
    SequencePlaces places;
    // The fields that the blocks make for each other; they end with the stack.
    std::vector<std::string> shared_fields = {};
  };
  EncoderDecoderModel(const Config& config, ModelTraits traits, ShiftedLabels shifted = {});
  // `prologue` makes kHidden of the encoder's fields and, where there is a decoder, kDecoderHidden of the
  // decoder's. Units: prologue, the encoder's blocks, "encoder.end", the decoder's blocks, epilogue.
  void assemble(std::unique_ptr<Unit> prologue, std::unique_ptr<Inputs> encoder_inputs, Stack encoder,
                std::unique_ptr<Head> head);
  void assemble(std::unique_ptr<Unit> prologue, std::unique_ptr<Inputs> encoder_inputs, Stack encoder,
                std::unique_ptr<TokenInputs> decoder_inputs, Stack decoder, std::unique_ptr<Head> head);

  bool has_decoder() const { return decoder_inputs_ != nullptr; }
  // The unit after the last block of the encoder: its end, or the epilogue.
  size_t encoder_end() const { return encoder_end_; }

  std::vector<Passed> made_fields(const Batch& batch, const State& input) const override;
  size_t last_reader(std::string_view field) const override;
  std::vector<int64_t> head_positions(const Batch& batch) const override;

 private:
  Batch with_decoder_ids(const BatchFields& batch) const;
  at::Tensor shifted_right(const at::Tensor& labels) const;
  std::vector<int64_t> decoder_positions(const Batch& batch) const;

  const ShiftedLabels shifted_;
  std::unique_ptr<Inputs> encoder_inputs_;
  std::unique_ptr<TokenInputs> decoder_inputs_;  // may be null
  std::shared_ptr<Identity> encoder_stream_end_;
  size_t encoder_end_ = 0;
};

}  // namespace weft::nn
