// gemini: parameters, gradients and optimizer states are sharded over the data-parallel ranks in chunks.
// Chunks are gathered for the units that use them, and may be offloaded to host memory at other times.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chunk.hpp"
#include "estimate.hpp"
#include "options.hpp"
#include "room.hpp"
#include "trace.hpp"
#include "weft/torch/strategy.hpp"

namespace weft::plugin::gemini {

namespace {

template <class... Arguments>
std::string print(const char* format, Arguments... arguments) {
  char text[256];
  std::snprintf(text, sizeof(text), format, arguments...);
  return text;
}

double mega(int64_t value) {
  return static_cast<double>(value) / (1 << 20);
}

class Gemini final : public Strategy {
 public:
  void describe_mesh(const Mesh& mesh) override {
    const uint32_t ranks = mesh.ranks_left();
    chosen_ = parse(options, ranks);
    mesh.set_size("replica", static_cast<uint32_t>(chosen_.replicas));
    mesh.set_size("data", ranks / static_cast<uint32_t>(chosen_.replicas));
  }

  static void estimate(const Options& given, uint32_t ranks, const weft_job_shape& job,
                       weft_job_estimate& out) {
    gemini::estimate(parse(given, ranks), ranks, job, out);
  }

  void configure(Training& made) override {
    std::vector<Parameter> parameters = made.parameters();
    refuse_other_sums(parameters, made.axes("samples"));
    std::stable_sort(parameters.begin(), parameters.end(), [](const Parameter& a, const Parameter& b) {
      return a.info().first_unit < b.info().first_unit;
    });
    const ChunkLayout layout = search(parameters, made);
    make_chunks(layout, parameters, made);
    make_trace(layout, parameters, made);
    StatisticsKey key;
    for (const Parameter& parameter : parameters) key.parameters.push_back(text(parameter.info().name));
    key.operations = trace_.operations();
    room_ = Room(chosen_.placement, made.samples(), std::move(key), chosen_.memstats);
  }

  void before_forward(Unit unit, const Pass& pass) override {
    access(unit.index(), trace_.forward(unit.index()), pass.purpose == WEFT_PASS_TRAINING);
  }

  void after_forward(Unit unit, const Pass& pass) override {
    const size_t index = unit.index();
    for (const Use& use : uses_[index]) chunks_[use.chunk]->set_state(use.place, TensorState::kHold);
    if (placement_.evicts) return;
    for (const size_t chunk : trace_.chunks_of(index)) {
      if (trace_.last_unit(chunk) != index) continue;
      // Backward begins with the chunks of the last unit.
      const bool next = index + 1 == trace_.units() || placement_.kept_gathered[chunk];
      if (pass.purpose != WEFT_PASS_TRAINING || !next) chunks_[chunk]->release();
    }
  }

  void begin_backward(const Pass& pass) override {
    if (chosen_.accumulate) return;
    if (!pass.synchronise)
      throw Error(WEFT_FAILED_PRECONDITION,
                  "gemini: accumulation and no_sync need the option enable_gradient_accumulation=true");
    for (const auto& chunk : chunks_)
      if (chunk->has_gradient())
        throw Error(WEFT_FAILED_PRECONDITION,
                    "gemini: a second backward before zero_grad adds to gradients, which needs the option "
                    "enable_gradient_accumulation=true");
  }

  void before_backward(Unit unit, const Pass&) override {
    access(unit.index(), trace_.backward(unit.index()), true);
  }

  void gradient_ready(Parameter parameter, const Pass&) override {
    const Use& use = place_of_[parameter.info().index];
    chunks_[use.chunk]->collect(use.place);
  }

  void after_backward(Unit unit, const Pass&) override {
    const size_t index = unit.index();
    for (const Use& use : uses_[index])
      if (chunks_[use.chunk]->state(use.place) == TensorState::kCompute)
        chunks_[use.chunk]->set_state(use.place, TensorState::kHoldAfterBackward);
    for (const size_t id : trace_.chunks_of(index)) {
      if (trace_.first_unit(id) != index) continue;
      Chunk& chunk = *chunks_[id];
      if (chunk.frozen()) {
        chunk.release();
        continue;
      }
      save_reduction();
      chunk.reduce();
      reducing_ = &chunk;
      if (!chosen_.async_reduce) finish_reductions();
    }
  }

  void end_backward(const Pass&) override {
    finish_reductions();
    for (const auto& chunk : chunks_) chunk->release();
    if (!placement_.measures || !room_.end_step(rank == 0)) return;
    use_margin();
    if (chosen_.verbose) report_room();
  }

  void publish(ShardSink& sink) const override {
    for (const auto& chunk : chunks_) chunk->publish(sink);
  }
  void values_changed(uint32_t) override {
    for (const auto& chunk : chunks_) chunk->values_changed();
  }
  void zero_gradients() override {
    for (const auto& chunk : chunks_) chunk->forget_gradient();
  }

 private:
  struct Use {
    size_t chunk, place;
  };

  static void refuse_other_sums(const std::vector<Parameter>& parameters, uint32_t samples) {
    for (const Parameter& parameter : parameters)
      if (const weft_param_info info = parameter.info(); info.frozen == 0 && info.gradient_axes != samples)
        throw Error(WEFT_UNIMPLEMENTED,
                    "gemini: the gradient of " + text(info.name) +
                        " is summed over other ranks than most (an expert's, say), but a chunk holds many "
                        "parameters that are summed over the same ranks; use torch_fsdp, low_level_zero, "
                        "hybrid_parallel or torch_ddp");
  }

  ChunkLayout search(const std::vector<Parameter>& parameters, const Training& made) const {
    std::vector<int64_t> sizes;
    std::vector<uint32_t> dtypes;
    for (const Parameter& parameter : parameters) {
      sizes.push_back(parameter.info().count);
      dtypes.push_back(parameter.info().working_dtype);
    }
    const auto begin = std::chrono::steady_clock::now();
    ChunkLayout layout =
        search_chunks(sizes, dtypes, made.communicator(made.axes("data")).size(), chosen_.search);
    const std::chrono::duration<double> span = std::chrono::steady_clock::now() - begin;
    if (chosen_.verbose && rank == 0)
      log(print(
          "searching chunk configuration is completed in %.2f s; used number: %.2f * 2^20, wasted number: "
          "%.2f * 2^20, total wasted percentage is %.2f%%; %zu chunks of %lld elements and %zu outliers",
          span.count(), mega(layout.used), mega(layout.wasted), layout.wasted_percent(),
          layout.chunks.size() - layout.outliers, static_cast<long long>(layout.chunk_size),
          layout.outliers));
    return layout;
  }

  void make_chunks(const ChunkLayout& layout, const std::vector<Parameter>& parameters,
                   const Training& made) {
    if (parameters.empty()) return;
    std::vector<int64_t> bytes;
    for (const ChunkPlan& plan : layout.chunks) {
      const uint32_t working = parameters[plan.places.front().parameter].info().working_dtype;
      bytes.push_back(plan.size * static_cast<int64_t>(c10::elementSize(scalar_type(working))));
    }
    placement_ = place(chosen_.placement, bytes);
    ChunkOptions chunk;
    chunk.group = made.communicator(made.axes("data"));
    chunk.replicas = made.communicator(made.axes("replica"));
    chunk.partition_axes = made.axes("data");
    chunk.made_in = chosen_.made_in;
    chunk.accumulates = chosen_.accumulate;
    const uint32_t host_pool = chosen_.pin_memory ? WEFT_POOL_PINNED : WEFT_POOL_HOST;
    for (size_t i = 0; i < layout.chunks.size(); ++i) {
      chunk.home = placement_.optimizer_on_host[i] ? host_pool : WEFT_POOL_ACCELERATOR;
      chunks_.push_back(
          std::make_unique<Chunk>(layout.chunks[i].size, layout.chunks[i].places, parameters, chunk));
      if (placement_.shard_on_accelerator[i]) chunks_.back()->keep_shard();
    }
  }

  void make_trace(const ChunkLayout& layout, const std::vector<Parameter>& parameters, const Training& made) {
    place_of_.resize(parameters.size());
    for (size_t i = 0; i < layout.chunks.size(); ++i)
      for (size_t k = 0; k < layout.chunks[i].places.size(); ++k)
        place_of_[parameters[layout.chunks[i].places[k].parameter].info().index] = {i, k};
    std::vector<std::vector<size_t>> chunks_of_units;
    for (const Unit& unit : made.units()) {
      std::vector<size_t>& used = chunks_of_units.emplace_back();
      std::vector<Use>& uses = uses_.emplace_back();
      for (const Parameter& parameter : unit.parameters()) {
        uses.push_back(place_of_[parameter.info().index]);
        used.push_back(uses.back().chunk);
      }
      std::sort(used.begin(), used.end());
      used.erase(std::unique(used.begin(), used.end()), used.end());
    }
    trace_ = Trace(std::move(chunks_of_units), chunks_.size());
  }

  // Gathers the chunks that the unit needs, and starts to gather those that come next.
  void access(size_t unit, size_t operation, bool training) {
    const std::vector<size_t>& needed = trace_.chunks_of(unit);
    if (placement_.measures) {
      if (!std::exchange(agreed_, true)) room_.agree();
      if (training) room_.sample(operation, in_use());
    }
    for (const size_t chunk : needed)
      if (chunks_[chunk]->reducing()) finish_reductions();
    if (placement_.evicts) make_room(needed, operation, !training);
    for (const size_t chunk : needed) chunks_[chunk]->start();
    for (const size_t chunk : needed) chunks_[chunk]->gather();
    for (const Use& use : uses_[unit]) chunks_[use.chunk]->set_state(use.place, TensorState::kCompute);
    prefetch(operation, training);
  }

  // Evicts chunks until the needed ones fit, or until nothing is left to evict; then the pool fails if memory
  // is short.
  void make_room(const std::vector<size_t>& needed, size_t operation, bool forward_only) {
    const auto wanted = [&](size_t id) {
      return std::find(needed.begin(), needed.end(), id) != needed.end();
    };
    int64_t demand = 0;
    for (const size_t id : needed)
      if (!chunks_[id]->gathered() && !chunks_[id]->on_the_way()) demand += chunks_[id]->bytes();
    while (demand > room(operation) - in_use()) {
      std::vector<size_t> candidates;
      for (size_t id = 0; id < chunks_.size(); ++id)
        if (!wanted(id) && chunks_[id]->may_be_released()) candidates.push_back(id);
      if (const auto victim = trace_.needed_last(candidates, operation, forward_only)) {
        chunks_[*victim]->release();
        continue;
      }
      if (reducing_ == nullptr && saving_ == nullptr) return;
      finish_reductions();
    }
  }

  int64_t room(size_t operation) const { return placement_.measures ? room_.at(operation) : placement_.room; }

  // Returns how many bytes chunks take on the accelerator. Counts what is equal on all ranks and not what the
  // pool of this rank has in use, because all ranks must evict the same chunks.
  int64_t in_use() const {
    int64_t bytes = reserved_;
    for (const auto& chunk : chunks_)
      if (chunk->gathered() || chunk->on_the_way()) bytes += chunk->bytes();
    return bytes;
  }

  void prefetch(size_t operation, bool training) {
    int64_t under_way =
        std::count_if(chunks_.begin(), chunks_.end(), [](const auto& chunk) { return chunk->on_the_way(); });
    const size_t end = training ? trace_.operations() : trace_.units();
    for (size_t next = operation + 1; next < end; ++next)
      for (const size_t id : trace_.chunks_of(trace_.unit_of(next))) {
        if (under_way >= chosen_.max_prefetch) return;
        Chunk& chunk = *chunks_[id];
        if (chunk.gathered() || chunk.on_the_way()) continue;
        if (placement_.evicts && chunk.bytes() > room(operation) - in_use()) return;
        chunk.start();
        ++under_way;
      }
  }

  // Ends the reduction that is in progress. Its sum may be on the way to host memory then; that of the chunk
  // before it is there.
  void save_reduction() {
    if (saving_ != nullptr) std::exchange(saving_, nullptr)->finish();
    if (reducing_ == nullptr) return;
    reducing_->save();
    Chunk* const saved = std::exchange(reducing_, nullptr);
    if (saved->reducing()) saving_ = saved;
  }
  void finish_reductions() {
    save_reduction();
    if (saving_ != nullptr) std::exchange(saving_, nullptr)->finish();
  }

  // Moves master weights, gradients and optimizer states to the accelerator while there is margin. The
  // optimizer keeps its states in the pool of the master weights; two states are assumed, as in Colossal-AI.
  void use_margin() {
    if (chosen_.placement.gpu_margin_mem_ratio == 0) return;
    double left = static_cast<double>(room_.margin()) * chosen_.placement.gpu_margin_mem_ratio;
    for (const auto& chunk : chunks_) {
      const int64_t bytes = 3 * chunk->master_bytes() + chunk->gradient_bytes();
      if (chunk->home() == WEFT_POOL_ACCELERATOR || static_cast<double>(bytes) > left) continue;
      chunk->move_home(WEFT_POOL_ACCELERATOR);
      left -= static_cast<double>(bytes);
      reserved_ += bytes;
    }
  }

  void report_room() const {
    if (rank != 0) return;
    int64_t least = room_.at(0), moved = 0;
    for (size_t operation = 0; operation < trace_.operations(); ++operation)
      least = std::min(least, room_.at(operation));
    for (const auto& chunk : chunks_) moved += chunk->home() == WEFT_POOL_ACCELERATOR;
    log(print(
        "warm-up is completed; room for chunks at the fullest operation: %.2f * 2^20 bytes; %lld chunks have "
        "their optimizer values on the accelerator",
        mega(least), static_cast<long long>(moved)));
  }

  static void log(const std::string& line) { host.host->log(WEFT_LOG_INFO, str(WEFT_PLUGIN_ID), str(line)); }

  GeminiOptions chosen_;
  Placement placement_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<std::vector<Use>> uses_;  // by unit
  std::vector<Use> place_of_;           // by parameter
  Trace trace_;
  Room room_;
  Chunk* reducing_ = nullptr;  // at most one at a time
  Chunk* saving_ = nullptr;    // its sum is on the way to host memory
  int64_t reserved_ = 0;       // bytes on the accelerator in addition to gathered chunks
  bool agreed_ = false;
};

}  // namespace

}  // namespace weft::plugin::gemini

WEFT_STRATEGY(weft::plugin::gemini::Gemini, "gemini")
