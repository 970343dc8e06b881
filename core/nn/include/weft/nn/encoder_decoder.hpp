// The base of encoder-decoder models: an encoder, and a decoder that attends to the encoder's output. Each
// has its own sequence. The encoder reads tokens, spectra or pixels; the decoder reads tokens and is
// optional. Shapes: N samples, S positions of the encoder, T positions of the decoder, C channels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/nn/composed_model.hpp"
#include "weft/nn/token_model.hpp"

namespace weft::nn {

// Fields of the State beside kHidden. While the encoder's units run, kHidden is the encoder's; afterwards it
// is the decoder's.
//
// (N, T, C): the hidden states of the decoder while the encoder's units run.
inline constexpr const char* kDecoderHidden = "decoder_hidden";
// (N, S, C): the output of the encoder. outputs() returns all of its positions on every rank.
inline constexpr const char* kEncoderOutput = "encoder_last_hidden_state";
// The output of the encoder as the decoder's blocks read it.
inline constexpr const char* kSource = "source";

// The Identity layers of one stack that a plan can replace in order to split the stack's sequence. The
// constructor registers them in `stack`.
struct SequencePlaces {
  SequencePlaces(torch::nn::Module& stack, bool feeds_decoder);
  // The ids pass through `stream_begin`, where the sequence begins; the hidden states pass through
  // `stream_end`, where it ends.
  std::shared_ptr<Identity> stream_begin, stream_end;
  // The encoder's output passes through it once, before all blocks of the decoder read it. Null unless
  // `feeds_decoder`.
  std::shared_ptr<Identity> source;
};

// How the ids of the decoder are made from labels where a batch has none: the labels move one position to the
// right.
struct ShiftedLabels {
  // The id at position 0, and the one that replaces an ignored label (-100). Without both a batch needs ids
  // of the decoder.
  std::optional<int64_t> start;
  std::optional<int64_t> padding = 0;
};

// A model with an encoder and, optionally, a decoder.
class EncoderDecoderModel : public ComposedModel {
 public:
  // Reads the fields of both stacks. Makes the ids of the decoder from the labels where a batch has only
  // labels.
  State input(const Batch& batch) const override;
  // Returns how the decoder continues its tokens; empty without a decoder.
  std::optional<Decoding> decoding() const override;
  // Reads the fields of the decoder alone. The encoder's blocks do not run in such a forward: the cache has
  // kept the encoder's output.
  State continued_input(const Batch& batch) const override;
  // Returns none with a decoder, whose labels are another sequence than the inputs.
  std::vector<Objective> objectives() const override;
  State outputs(const State& last) const override;
  std::vector<SequenceLength> lengths(const Batch& batch) const override;
  std::optional<Batch> example(int64_t samples, int64_t positions) const override;

 protected:
  // The blocks of the encoder or of the decoder, and what surrounds them.
  struct Stack {
    std::vector<std::unique_ptr<Unit>> blocks;
    LastLayers last;  // applied before `places.stream_end`
    SequencePlaces places;
    // Fields of the State that one block writes and later blocks read; erased after the last block.
    std::vector<std::string> shared_fields = {};
  };
  EncoderDecoderModel(const Config& config, ModelTraits traits, ShiftedLabels shifted = {});
  // Create the units: prologue, the encoder's blocks, "encoder.end", the decoder's blocks, epilogue. Without
  // a decoder the epilogue follows the encoder's blocks. `prologue` computes kHidden from the encoder's
  // fields, if the State has them, and kDecoderHidden from the decoder's.
  void assemble(std::unique_ptr<Unit> prologue, std::unique_ptr<Inputs> encoder_inputs, Stack encoder,
                std::unique_ptr<Head> head);
  void assemble(std::unique_ptr<Unit> prologue, std::unique_ptr<Inputs> encoder_inputs, Stack encoder,
                std::unique_ptr<TokenInputs> decoder_inputs, Stack decoder, std::unique_ptr<Head> head);

  bool has_decoder() const { return decoder_inputs_ != nullptr; }
  // Returns the index of the unit after the encoder's last block: "encoder.end", or the epilogue.
  size_t encoder_end() const { return encoder_end_; }

  std::vector<Passed> made_fields(const Batch& batch, const State& input) const override;
  size_t last_reader(std::string_view field) const override;
  std::vector<int64_t> head_positions(const Batch& batch) const override;

 private:
  Batch with_decoder_ids(const BatchFields& batch) const;
  at::Tensor shifted_right(const at::Tensor& labels) const;
  std::vector<int64_t> decoder_positions(const Batch& batch) const;
  bool has_encoder_inputs(const Batch& batch) const { return batch.has(encoder_inputs_->fields().front()); }

  const ShiftedLabels shifted_;
  std::unique_ptr<Inputs> encoder_inputs_;
  std::unique_ptr<TokenInputs> decoder_inputs_;  // may be null
  std::shared_ptr<Identity> encoder_stream_end_;
  size_t encoder_end_ = 0;
};

}  // namespace weft::nn
