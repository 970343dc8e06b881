// Pipeline schedules as data: for each stage, the order in which it runs its operations. Needs no libtorch.
//
// A model is cut into `virtual_stages()` sequences of units, in the order in which a forward runs them; 0 has
// the model's inputs, the last one the loss. Each stage (the ranks with one coordinate on the pipeline axis)
// runs `chunks` of them: its model chunks. A schedule does not list transfers because its operations imply
// them. For a micro-batch at virtual stage v:
//
//   forward                   needs the State from v - 1 (0: the batch) and sends its own to v + 1
//   backward, input_gradient  needs the gradients from v + 1 (last: the loss) and sends its own to v - 1
//   weight_gradient           needs what the input_gradient of the same stage kept; sends nothing
//
// If the other virtual stage is on the same stage, the tensors are handed over without a transfer.
// `receive_of` and `send_of` say which transfer belongs to an operation. An executor runs the list of its
// stage in order:
//
//   for each operation: wait for what it receives, run it, start what it sends
//
// Starting a send must not wait for the receiver; then only the order of the operations can make stages wait
// for each other forever, and `check` (check.hpp) proves that it does not. Receives may be posted as early as
// memory allows. Between two stages, post them in the order of `transfers`, in which the other stage sends:
// its order may differ from that in which this stage needs them.
//
// In every schedule of `make_schedule`, the operations of one kind and chunk run in ascending order of
// micro-batches. So gradients are summed in the same order, whatever the style.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::pipeline {

enum class Kind : uint8_t {
  forward,
  backward,         // the gradients of inputs and weights at once
  input_gradient,   // the first half of a backward
  weight_gradient,  // the second half
};
inline constexpr std::string_view kKindLetters = "FBIW";  // in the order of Kind

// One step of a stage's work.
struct Operation {
  Kind kind = Kind::forward;
  uint32_t micro_batch = 0;
  uint32_t chunk = 0;  // of this stage, counted in the order of a forward
  bool operator==(const Operation& other) const = default;
};

// How virtual stages are assigned to stages.
enum class Placement : uint8_t {
  loop,  // 0 ... p - 1, then again 0 ... p - 1 for the next chunk
  vee,   // 0 ... p - 1, then p - 1 ... 0: two chunks; the first and the last virtual stage are on stage 0
};

struct Schedule {
  uint32_t stages = 1;
  uint32_t micro_batches = 1;
  uint32_t chunks = 1;  // model chunks of a stage
  Placement placement = Placement::loop;
  std::vector<std::vector<Operation>> operations = {};  // of each stage, in the order in which it runs them

  uint32_t virtual_stages() const { return stages * chunks; }
  // The virtual stage that is chunk `chunk` of stage `stage`.
  uint32_t virtual_stage(uint32_t stage, uint32_t chunk) const;
  uint32_t stage_of(uint32_t virtual_stage) const;
  uint32_t chunk_of(uint32_t virtual_stage) const { return virtual_stage / stages; }
  bool operator==(const Schedule& other) const = default;
};

// Tensors of one micro-batch that pass the boundary between two virtual stages on different stages.
struct Transfer {
  enum class Content : uint8_t { state, gradients };
  Content content = Content::state;
  uint32_t micro_batch = 0;
  uint32_t boundary = 0;  // the virtual stage before it: a State leaves `boundary`, gradients arrive there
  uint32_t from = 0, to = 0;  // stages
  bool operator==(const Transfer& other) const = default;
};

// Returns what an operation of `stage` waits for from another stage, or nothing.
std::optional<Transfer> receive_of(const Schedule& schedule, uint32_t stage, const Operation& operation);
// Returns what another stage gets from an operation of `stage`, or nothing.
std::optional<Transfer> send_of(const Schedule& schedule, uint32_t stage, const Operation& operation);
// Returns all transfers from one stage to another, in the order in which `from` sends them.
std::vector<Transfer> transfers(const Schedule& schedule, uint32_t from, uint32_t to);

// Returns the schedule with its forwards alone, for evaluation: the same placement and order.
Schedule forward_only(const Schedule& schedule);

// Returns "F3", or "F3.1" for chunk 1 of several: the micro-batch and the chunk behind the kind's letter.
std::string name_of(const Operation& operation, uint32_t chunks);
// Returns the same in words, for errors: "the input gradient of micro-batch 3 in chunk 1".
std::string describe(const Operation& operation, uint32_t chunks);

}  // namespace weft::pipeline
