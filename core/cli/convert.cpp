#include "engine_verb.hpp"
#include "verbs.hpp"

namespace weft::cli {

void add_convert(CLI::App& application) {
  EngineVerb verb(
      application, "convert", "One checkpoint format or layout into another",
      "Example: weft convert out out-bf16 --dtype bf16 --weights-only\n"
      "INPUT and OUTPUT are model folders, or single files of weights (.safetensors, .bin, .pt, .pth).\n"
      "A folder's other files go along; training_state/ too, as it is or in --parts.");
  verb.text("INPUT", "input", "What to read; its format is recognised", true)
      .text("OUTPUT", "output", "What to write; a folder appears when it is complete", true)
      .text("--format", "format",
            "safetensors or pytorch (a pickle); default: by the file's name, or safetensors")
      .text("--dtype", "dtype", "Of weights: fp64, fp32, bf16 or fp16; default: as they are")
      .flag("--shard", "shard", "Several files with an index")
      .integer("--size-per-shard", "size_per_shard", "MB; default 1024")
      .text("--prefix", "prefix", "Part of the written files' names: model.PREFIX.safetensors")
      .integer("--parts", "parts", "Lay training_state/ out in this many files; 1: whole tensors in one")
      .flag("--weights-only", "weights_only", "Leave training_state/ out");
}

}  // namespace weft::cli
