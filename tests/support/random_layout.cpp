#include "support/random_layout.hpp"

namespace weft::test {

namespace {

struct Kind {
  const char *strategy, *zero_option;  // the option of the stage of ZeRO, if there is one
  int zero;
  bool has_stages;
};
constexpr Kind kKinds[] = {{"torch_ddp", nullptr, 0, true},
                           {"torch_fsdp", nullptr, 0, false},
                           {"low_level_zero", "stage", 1, true},
                           {"low_level_zero", "stage", 2, false},
                           {"gemini", nullptr, 0, false},
                           {"hybrid_parallel", "zero_stage", 0, true},
                           {"hybrid_parallel", "zero_stage", 1, true},
                           {"hybrid_parallel", "zero_stage", 2, false}};

const Kind& kind_of(const RandomLayout& layout) {
  for (const Kind& kind : kKinds) {
    if (layout.strategy != kind.strategy) continue;
    if (kind.zero_option == nullptr || layout.options.front().second == std::to_string(kind.zero))
      return kind;
  }
  return kKinds[0];  // not reached: any() made the layout of one of them
}

std::vector<int> divisors(int number, int most) {
  std::vector<int> found;
  for (int divisor = 1; divisor <= number && divisor <= most; ++divisor)
    if (number % divisor == 0) found.push_back(divisor);
  return found;
}

void add(RandomLayout& layout, const std::string& name, const std::string& json) {
  layout.options.emplace_back(name, json);
}
void add(RandomLayout& layout, const std::string& name, int64_t value) {
  add(layout, name, std::to_string(value));
}

std::string in_quotes(const std::string& text) {
  return "\"" + text + "\"";
}

}  // namespace

std::string RandomLayout::json() const {
  std::string text;
  for (const auto& [name, value] : options)
    text += (text.empty() ? "" : ", ") + in_quotes(name) + ": " + value;
  return "{" + text + "}";
}

std::string RandomLayout::text() const {
  std::string text = strategy + " " + json() + " on " + std::to_string(ranks) + " ranks in " + precision +
                     ", recompute " + recompute + ", accumulate " + std::to_string(accumulate);
  if (max_grad_norm > 0) text += ", clipped to " + std::to_string(max_grad_norm);
  return text;
}

RandomLayouts::RandomLayouts(uint64_t seed, LayoutBounds bounds)
    : random_(seed), bounds_(std::move(bounds)) {}

RandomLayout RandomLayouts::draw() {
  for (;;)
    if (RandomLayout layout = any(); fits(layout)) return layout;
}

RandomLayout RandomLayouts::any() {
  RandomLayout layout;
  layout.ranks = one_of(bounds_.ranks);
  const Kind& kind = kKinds[below(std::size(kKinds))];
  layout.strategy = kind.strategy;
  if (kind.zero_option != nullptr) add(layout, kind.zero_option, kind.zero);
  if (below(2) == 0) layout.tensor = one_of(divisors(layout.ranks, 4));
  if (layout.tensor > 1) add(layout, "tp_size", layout.tensor);
  // A strategy that has no stages refuses them.
  const int most_stages = kind.has_stages || below(8) == 0 ? layout.ranks : 1;
  layout.stages = one_of(divisors(layout.ranks / layout.tensor, most_stages));
  if (below(2) == 0) split_sequences(layout);
  schedule(layout);
  layout.recompute = one_of<std::string>({"off", "all", "2"});
  if (layout.stages > 1 && layout.recompute == "off" && below(2) == 0)
    add(layout, "gradient_checkpoint_config", R"({"gradient_checkpointing_ratio": 0.5})");
  layout.precision = one_of<std::string>({"fp32", "fp64"});
  layout.max_grad_norm = one_of<double>({0, 0.5});
  return layout;
}

// Splits sequences over ranks in one of the ways that the sizes of the axes leave, if there is any.
void RandomLayouts::split_sequences(RandomLayout& layout) {
  struct Way {
    const char* mode;
    int ranks;  // of the sequence axis; 1: those of the tensor axis split sequences
  };
  std::vector<Way> ways;
  if (layout.tensor > 1) ways.insert(ways.end(), {{"split_gather", 1}, {"ring", 1}});
  for (const int size : {2, 4})
    if (layout.data() % size == 0) ways.insert(ways.end(), {{"all_to_all", size}, {"ring_attn", size}});
  if (ways.empty()) return;
  const Way way = one_of(ways);
  layout.mode = way.mode;
  layout.sequence = way.ranks;
  add(layout, "enable_sequence_parallelism", "true");
  add(layout, "sequence_parallelism_mode", in_quotes(layout.mode));
  if (layout.sequence > 1) add(layout, "sp_size", layout.sequence);
  if (layout.mode == "split_gather" && below(2) == 0) add(layout, "enable_sequence_overlap", "true");
  if (layout.mode == "ring_attn" && layout.sequence == 4 && below(2) == 0) add(layout, "inner_ring_size", 2);
}

// Divides batches into micro-batches, with stages by their own options.
void RandomLayouts::schedule(RandomLayout& layout) {
  const std::vector<int> counts = {1, 2, 5, 8};
  if (layout.stages == 1) {
    layout.accumulate = one_of(counts);
    if (layout.strategy == "gemini" && layout.accumulate > 1)
      add(layout, "enable_gradient_accumulation", "true");
    return;
  }
  add(layout, "pp_size", layout.stages);
  layout.style = one_of<std::string>({"1f1b", "interleaved", "zbh1", "zbv", "gpipe"});
  add(layout, "pp_style", in_quotes(layout.style));
  if (layout.style == "zbv") layout.chunks = 2;
  if (layout.style == "interleaved") {
    layout.chunks = below(3) == 0 ? 3 : 2;
    add(layout, "num_model_chunks", layout.chunks);
  }
  const size_t how = below(6);
  if (how < 4) add(layout, "num_microbatches", one_of(counts));
  if (how == 4) add(layout, "microbatch_size", one_of<int>({2, 3}));
  layout.accumulate = below(4) == 0 ? 2 : 1;
  if (below(3) == 0) add(layout, "dp_outside", "false");
}

bool RandomLayouts::fits(const RandomLayout& layout) const {
  if (bounds_.units == 0 && bounds_.heads == 0) return true;
  if (layout.stages > 1 && !kind_of(layout).has_stages) return false;
  const int head_ranks = layout.tensor * (layout.mode == "all_to_all" ? layout.sequence : 1);
  return layout.stages * layout.chunks <= bounds_.units && bounds_.heads % head_ranks == 0;
}

}  // namespace weft::test
