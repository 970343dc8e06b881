#include "engine_verb.hpp"
#include "verbs.hpp"

namespace weft::cli {

void add_evaluate(CLI::App& application) {
  EngineVerb verb(application, "evaluate", "Loss and perplexity of a model over a data file",
                  "Example: weft evaluate --model out --data README.md");
  verb.model_flags()
      .text("--data", "data", "As for train", true)
      .text("--token-type", "token_type", "Of .bin data: uint16 or uint32; default uint16")
      .strategy_flags("none on one rank, otherwise the default plugin")
      .ranks_flag()
      .integer("--batch-size", "batch_size", "Samples at a time over all ranks; default 8")
      .integer("--sequence-length", "sequence_length", "For text and .bin; default: the model's maximum")
      .text("--device", "device", "cpu; cuda is refused by this build")
      .flag("--json", "json", "For scripts");
}

void add_forward(CLI::App& application) {
  EngineVerb verb(
      application, "forward", "One forward pass; outputs under their Hugging Face names",
      "Example: weft forward --model out --inputs batch.safetensors --output outputs.safetensors");
  verb.model_flags()
      .text("--inputs", "inputs", "A .safetensors file with tensors named as the model's inputs", true)
      .text("--output", "output",
            "A .safetensors file: logits, last_hidden_state, loss if there are labels, ...", true)
      .strategy_flags("none on one rank, otherwise the default plugin")
      .ranks_flag()
      .integer("--batch-size", "batch_size", "Samples at a time over all ranks; default: all")
      .text("--device", "device", "cpu; cuda is refused by this build");
}

void add_generate(CLI::App& application) {
  EngineVerb verb(application, "generate", "Continue a prompt",
                  "Example: weft generate --model out --prompt \"The \" --max-new-tokens 200");
  verb.model_flags()
      .text("--prompt", "prompt", "Text, for models whose tokens are bytes")
      .integers("--prompt-ids", "prompt_ids", "Token ids: 1,2,3")
      .integer("--max-new-tokens", "max_new_tokens", "Default 100")
      .real("--temperature", "temperature", "Default 1")
      .integer("--top-k", "top_k", "Draw from the k likeliest tokens; default: all")
      .real("--top-p", "top_p", "Draw from the likeliest tokens that reach this probability; default 1")
      .flag("--greedy", "greedy", "Always the likeliest token")
      .integer("--seed", "seed", "Of the draws; default 42")
      .text("--precision", "precision", "fp32, fp64, bf16 or fp16; default fp32")
      .text("--device", "device", "cpu; cuda is refused by this build");
}

void add_plan(CLI::App& application) {
  EngineVerb verb(application, "plan",
                  "What a model's training holds and sends under each strategy, and how the model is split",
                  "Example: weft plan --model folder/config.json --world-size 8 --memory 80GiB");
  verb.model_flags()
      .integer("--world-size", "world_size", "Ranks; default 1")
      .text("--memory", "memory", "Of one rank, 80GiB: says which strategies fit")
      .integer("--batch-size", "batch_size", "Samples of one rank in a micro-batch; default 1")
      .integer("--sequence-length", "sequence_length", "Default: the model's maximum")
      .text("--recompute", "recompute", "off, all, or a number of units; default off")
      .text("--strategy", "strategy", "Strategy plugin by name, or none; default: all that are installed")
      .words("-o,--option", "options", "With --strategy: option of it, key=value; repeat for more")
      .text("--precision", "precision", "fp32, fp64, bf16 or fp16; default fp32, or the strategy's option")
      .flag("--json", "json", "For scripts")
      .flag("--explain", "explain",
            "Print every entry of the sharding plan; -o custom_policy and tp_size count")
      .integer("--tensor-size", "tensor_size",
               "With --explain: for this many tensor-parallel ranks; default 1");
}

}  // namespace weft::cli
