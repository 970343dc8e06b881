#include "engine_verb.hpp"
#include "verbs.hpp"

namespace weft::cli {

void add_convert(CLI::App& application) {
  EngineVerb verb(
      application, "convert", "Convert a checkpoint to another format or layout",
      "Example: weft convert out out-bf16 --dtype bf16 --weights-only\n"
      "INPUT and OUTPUT are model folders, or single files of weights (.safetensors, .bin, .pt, .pth).\n"
      "Copies the other files of a folder, and training_state/, unchanged or in --parts files.");
  verb.text("INPUT", "input", "Folder or file to read; the format is detected", true)
      .text("OUTPUT", "output", "Folder or file to write; it appears when it is complete", true)
      .text("--format", "format",
            "safetensors or pytorch; default: by the extension of the file, or safetensors")
      .text("--dtype", "dtype", "Dtype of the weights: fp64, fp32, bf16 or fp16; default: unchanged")
      .flag("--shard", "shard", "Write several files with an index")
      .integer("--size-per-shard", "size_per_shard", "Size of one of these files in MB; default 1024")
      .text("--prefix", "prefix", "Prefix in file names: model.PREFIX.safetensors")
      .integer("--parts", "parts", "Write training_state/ as this many files")
      .flag("--weights-only", "weights_only", "Do not copy training_state/");
}

}  // namespace weft::cli
