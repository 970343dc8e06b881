#include "engine_verb.hpp"
#include "verbs.hpp"

namespace weft::cli {

void add_evaluate(CLI::App& application) {
  EngineVerb verb(application, "evaluate", "Print loss and perplexity of a model over a data file",
                  "Example: weft evaluate --model out --data README.md");
  verb.model_flags()
      .text("--data", "data", "Text, .bin or .safetensors, as for train", true)
      .text("--token-type", "token_type", "Tokens of a .bin file: uint16 or uint32; default uint16")
      .strategy_flags("none on one rank, otherwise the default plugin")
      .ranks_flag()
      .integer("--batch-size", "batch_size", "Samples at a time, over all ranks; default 8")
      .integer("--sequence-length", "sequence_length",
               "Tokens of a sample of text or .bin; default: the longest that the model takes")
      .text("--device", "device", "cpu; this build refuses cuda")
      .flag("--json", "json", "Print JSON");
}

void add_forward(CLI::App& application) {
  EngineVerb verb(
      application, "forward", "Run one forward pass and write the outputs under their Hugging Face names",
      "Example: weft forward --model out --inputs batch.safetensors --output outputs.safetensors");
  verb.model_flags()
      .text("--inputs", "inputs", ".safetensors file of tensors named as the model's inputs", true)
      .text("--output", "output",
            ".safetensors file to write: logits, last_hidden_state, loss (with labels), ...", true)
      .strategy_flags("none on one rank, otherwise the default plugin")
      .ranks_flag()
      .integer("--batch-size", "batch_size", "Samples at a time, over all ranks; default: all")
      .text("--device", "device", "cpu; this build refuses cuda");
}

void add_generate(CLI::App& application) {
  EngineVerb verb(application, "generate", "Continue a prompt",
                  "Example: weft generate --model out --prompt \"The \" --max-new-tokens 200");
  verb.model_flags()
      .text("--prompt", "prompt", "Text to continue, for models whose tokens are bytes")
      .integers("--prompt-ids", "prompt_ids", "Token ids to continue: 1,2,3")
      .integer("--max-new-tokens", "max_new_tokens", "How many tokens to add; default 100")
      .real("--temperature", "temperature", "Divides the logits before drawing; default 1")
      .integer("--top-k", "top_k", "Draw from the k most likely tokens; default: all")
      .real("--top-p", "top_p",
            "Draw from the most likely tokens that together reach this probability; default 1")
      .flag("--greedy", "greedy", "Take the most likely token every time")
      .integer("--seed", "seed", "Seed of the draws; default 42")
      .text("--precision", "precision", "fp32, fp64, bf16 or fp16; default fp32")
      .text("--device", "device", "cpu; this build refuses cuda");
}

void add_plan(CLI::App& application) {
  EngineVerb verb(application, "plan",
                  "Estimate memory and traffic of a job under each strategy, and print how a model is split",
                  "Example: weft plan --model folder/config.json --world-size 8 --memory 80GiB");
  verb.model_flags()
      .integer("--world-size", "world_size", "Number of ranks; default 1")
      .text("--memory", "memory", "Memory of one rank, such as 80GiB: prints which strategies fit")
      .integer("--batch-size", "batch_size", "Samples of one data-parallel rank in a micro-batch; default 1")
      .integer("--sequence-length", "sequence_length",
               "Tokens of a sample; default: the longest that the model takes")
      .text("--recompute", "recompute",
            "Activation recomputation: off, all, or a number of units; default off")
      .text("--strategy", "strategy", "Name of a strategy, or none; default: all that are installed")
      .words("-o,--option", "options", "Option of that strategy, key=value; may be repeated")
      .text("--precision", "precision",
            "fp32, fp64, bf16 or fp16; default: the strategy's option precision, or fp32")
      .flag("--json", "json", "Print JSON")
      .flag("--explain", "explain", "Print how the model is split: every entry of its plan")
      .integer("--tensor-size", "tensor_size",
               "With --explain: number of tensor-parallel ranks; default: tp_size of the strategy, or 1");
}

}  // namespace weft::cli
