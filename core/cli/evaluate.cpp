#include "engine_verb.hpp"
#include "verbs.hpp"

namespace weft::cli {

void add_evaluate(CLI::App& application) {
  EngineVerb verb(application, "evaluate",
                  "Print the loss of a model on a data file, and its perplexity, accuracy or F1",
                  "Example: weft evaluate --model out --data README.md");
  verb.model_flags()
      .allow_missing_flag("an error")
      .data_flags()
      .loader_flags()
      .text("--part", "part", "With --held-out: the part to read, train, held-out or all; default: held-out")
      .objective_flags()
      .strategy_flags("none on one rank, otherwise the default plugin")
      .ranks_flag()
      .integer("--batch-size", "batch_size", "Samples per batch, over all ranks; default 8")
      .device_flags()
      .flag("--by-document", "by_document",
            "For causal language models and text: print the tokens, loss and perplexity of each document")
      .integer("--max-answer-tokens", "max_answer_tokens",
               "Of questions: the most tokens of an answer; default 30")
      .text("--predictions", "predictions",
            "Of questions: JSON file to write with the answer to each, by its id, as SQuAD's script reads it")
      .flag("--word-error-rate", "word_error_rate",
            "Also generate a text for each sample, and print how many of its words are wrong")
      .flag("--json", "json", "Print JSON; with --by-document a line for each document, then one for all")
      .text("--metrics", "metrics", "File to which to write the same JSON");
}

void add_forward(CLI::App& application) {
  EngineVerb verb(
      application, "forward", "Run one forward pass and write the outputs under their Hugging Face names",
      "Example: weft forward --model out --inputs batch.safetensors --output outputs.safetensors");
  verb.model_flags()
      .allow_missing_flag("an error")
      .text("--inputs", "inputs",
            ".safetensors file of tensors with the names of the model's inputs, or a folder of images or "
            "recordings for models that read these",
            true)
      .text("--output", "output",
            ".safetensors file to write: logits, last_hidden_state, loss (with labels), ...", true)
      .strategy_flags("none on one rank, otherwise the default plugin")
      .ranks_flag()
      .integer("--batch-size", "batch_size",
               "Samples per batch, over all ranks; default: all, of a folder of images or recordings 8")
      .device_flags();
}

void add_generate(CLI::App& application) {
  EngineVerb verb(application, "generate", "Continue prompts",
                  "Example: weft generate --model out --prompt \"The \" --max-new-tokens 200");
  verb.model_flags()
      .allow_missing_flag("an error")
      .text("--prompt", "prompt", "Text to continue, for models with a tokenizer, or whose tokens are bytes")
      .integers("--prompt-ids", "prompt_ids",
                "Token ids to continue: 1,2,3; with --inputs the first tokens of the decoder")
      .text("--prompts", "prompts",
            "File with a prompt in each line: {\"prompt\": TEXT} or {\"prompt_ids\": [1, 2, 3]}")
      .text("--inputs", "inputs",
            "Inputs of the encoder, for models that have one: a .safetensors file, or for models of sound a "
            "recording (.wav, .flac, .ogg, .opus, .aiff) or a folder of them")
      .integer("--batch-size", "batch_size", "Prompts that are computed together; default 8")
      .integer(
          "--max-new-tokens", "max_new_tokens",
          "Number of tokens to generate; default 100, or fewer if the decoder of a model with an encoder "
          "takes no more")
      .integer("--num-samples", "num_samples", "Number of continuations of each prompt; default 1")
      .real("--temperature", "temperature",
            "Divide the logits by this number before sampling; default: the model's files, or 1")
      .integer("--top-k", "top_k",
               "Sample from the k most likely tokens; default: the model's files, or all (0)")
      .real("--top-p", "top_p",
            "Sample from the most likely tokens whose total probability reaches this number; default: the "
            "model's files, or 1")
      .real(
          "--repetition-penalty", "repetition_penalty",
          "Divide positive logits of tokens that occurred, and multiply negative ones; default: the model's "
          "files, or 1")
      .flag("--greedy", "greedy", "Always take the most likely token")
      .integers("--stop-ids", "stop_ids",
                "Ids that end a sequence: 1,2,3; default: \"eos_token_id\" of the model's files", true)
      .words("--stop", "stop", "Text that ends a sequence, which is printed up to it; can be repeated")
      .flag("--json", "json", "Print a JSON object for each prompt and sample")
      .strategy_flags("none on one rank, otherwise the default plugin")
      .ranks_flag()
      .device_flags();
}

void add_plan(CLI::App& application) {
  EngineVerb verb(
      application, "plan",
      "Estimate the memory and traffic of a job under each strategy, or print how a model is split",
      "Example: weft plan --model folder/config.json --world-size 8 --memory 80GiB");
  verb.model_flags()
      .integer("--world-size", "world_size", "Number of ranks; default 1")
      .text("--memory", "memory", "Memory of one rank, such as 80GiB; prints which strategies fit")
      .integer(
          "--batch-size", "batch_size",
          "Samples of one data-parallel rank in a micro-batch, or with pipeline stages in a step; default 1")
      .integer("--sequence-length", "sequence_length",
               "Tokens per sample; default: the largest number that the model takes")
      .text("--recompute", "recompute",
            "Activation recomputation: off, all, or a number of units; default off")
      .text("--strategy", "strategy", "Name of a strategy, or none; default: all that are installed")
      .words("-o,--option", "options", "Option of that strategy, key=value; can be repeated")
      .text("--precision", "precision",
            "fp32, fp64, bf16 or fp16; default: the strategy's option precision, or fp32")
      .flag("--json", "json", "Print JSON")
      .flag("--explain", "explain",
            "Print every entry of the model's plan and the part of each rank; with pipeline stages also the "
            "units and the schedule of each stage")
      .text("--picture", "picture", "SVG file to draw the schedule of the pipeline stages in")
      .text("--schedule-file", "schedule_file",
            "Text file to write the schedule of the pipeline stages in, for the option schedule_file")
      .integer("--tensor-size", "tensor_size",
               "With --explain: number of tensor-parallel ranks; default: tp_size of the strategy, or 1");
}

}  // namespace weft::cli
