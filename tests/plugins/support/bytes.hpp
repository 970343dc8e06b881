// What a strategy holds and what it sends, counted.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "train/training/boosted.hpp"

namespace weft::test {

// Keys of a toy model with 24 equal blocks of kEvenBlock elements and an embedding of about as many. All are
// multiples of 64 bytes on 2, 3, 4 and 6 ranks, so that parts need no padding.
inline constexpr const char* kEvenToy = R"("gated": false, "blocks": 24, "width": 192, "vocab": 192)";
inline constexpr int64_t kEvenBlock = 192 * 192 + 3 * 192;
// With the embedding and the first 11 blocks frozen.
inline constexpr const char* kHalfFrozenToy =
    R"("gated": false, "blocks": 24, "width": 192, "vocab": 192, "frozen": 12)";

// Bytes of tensors that a job has on this rank: all of them on the CPU, on a device those of the device and
// of the pool of host memory.
struct StateBytes {
  double elements = 0;     // of the model
  int64_t configured = 0;  // after boost
  int64_t held = 0;        // when AdamW has stepped and the gradients are still there
  int64_t host = 0;        // of these in host memory, not the accelerator's
  int64_t between = 0;     // when they are zeroed
  int64_t peak = 0;        // the most in forward and backward of the second step, activations too
};

// Of a toy model with `keys` on a batch of as few samples as there are ranks. Collective.
StateBytes state_bytes(const World& world, const JobOptions& options, const std::string& keys = kEvenToy);

// The strategy's own estimate (what `weft plan` prints) against what a job of a toy model with `keys` holds,
// in host memory and altogether, within 2 %, and what its steps send, to the byte. Collective.
void expect_estimate_is_counted(const World& world, const JobOptions& options,
                                const std::string& keys = kEvenToy);

// Returns the batch with a label for each position, so that a step computes all logits.
inline Batch with_all_labels(Batch batch) {
  batch.set("labels", batch.at("labels").clamp_min(0));
  return batch;
}

// What `action` sent on this rank, by collective; those that sent nothing and "control" left out.
std::map<std::string, int64_t> sent_bytes(const std::function<void()>& action);

// What `weft plan` says that the first rank of the tensor and sequence axes sends over them for a
// micro-batch, in the form of sent_bytes().
std::map<std::string, int64_t> layer_bytes(const Model& model, const JobOptions& options, const Batch& batch);

// What the kernel says that the TCP sockets of this process have sent.
int64_t kernel_sent_bytes();

// The counts against the kernel's: what a step sends within 5 %, and what the process has grown by
// when the optimizer has stepped, within 10 %. Collective.
void expect_kernel_agrees(const World& world, const JobOptions& options);

}  // namespace weft::test
