// The step log: what a training measures in each step, in files that people and TensorBoard watch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "weft/world.hpp"

namespace weft {

// Where a StepLog writes. An empty path: not there.
struct StepLogOptions {
  std::string jsonl;        // a file, with one JSON object per step and line
  std::string tensorboard;  // a folder, in which each process begins a new event file
};

// The values of a step by name. The name "bytes/send" is the member "send" of the object "bytes" in JSON, and
// a tag of the group "bytes" in TensorBoard. A text stands in JSON alone.
using StepValue = std::variant<bool, int64_t, double, std::string>;
using StepValues = std::map<std::string, StepValue>;

// Writes the values of each step, on the master; a copy is the same log.
//
//   StepLog log({.jsonl = "metrics.jsonl", .tensorboard = "runs/1"}, world);
//   log.begin();
//   for (const Batch& batch : job.data) {
//     const StepResult result = job.train_step(batch);
//     log.write(result.index, {{"loss", result.loss}, {"lr", result.lr}});
//   }
class StepLog {
 public:
  // Opens the files and tries to write to them; removes and hides nothing. Throws UNAVAILABLE on every rank.
  // Collective.
  StepLog(const StepLogOptions& options, const World& world);
  // Returns whether there is a file, on every rank alike.
  bool wanted() const;

  // Begins before the first step, or goes on after the step that the run resumes: lines of later steps are
  // removed from `jsonl`, and TensorBoard no longer shows the later steps of earlier event files in its
  // folder. Without a step these are all of them. Throws UNAVAILABLE or RESOURCE_EXHAUSTED on every rank.
  // Collective.
  void begin(std::optional<int64_t> resumed_after = std::nullopt);
  // Writes the values of a step, on the master, so that whoever reads the files finds them at once; not
  // collective. In JSON the step is "step", and a number that is not finite is null. TensorBoard has fp32.
  // A file that cannot be written to, because the disk is full for example, ends at its last whole step: a
  // line on stderr says so once, and the training is not disturbed. Throws FAILED_PRECONDITION before
  // begin(); INVALID_ARGUMENT for a name that is empty, "step" or that of a group.
  void write(int64_t step, const StepValues& values);
  // Returns the files that ended so, as messages call them: "jsonl m.jsonl". Empty on other ranks than the
  // master.
  std::vector<std::string> incomplete() const;

  struct Files;
  explicit StepLog(std::shared_ptr<Files> files) : files_(std::move(files)) {}

 private:
  std::shared_ptr<Files> files_;
};

}  // namespace weft
