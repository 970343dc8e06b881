// The verbs that need tensors. Their options are declared in sdk/options/job.json.
#include "engine_verb.hpp"
#include "verbs.hpp"

namespace weft::cli {

void add_train(CLI::App& application) {
  add_engine_verb(application, "train", "Train a model under a strategy",
                  "Example: weft train --model folder/config.json --data text.txt --strategy NAME -n 2 "
                  "--steps 200 --output out\n"
                  "Strategies: weft plugins list",
                  "train");
}

void add_evaluate(CLI::App& application) {
  add_engine_verb(application, "evaluate",
                  "Print the loss of a model on a data file, and its perplexity, accuracy or F1",
                  "Example: weft evaluate --model out --data README.md", "evaluate");
}

void add_predict(CLI::App& application) {
  add_engine_verb(application, "predict", "Predict the labels of texts, a line of JSON for each",
                  "Example: weft predict --model out --data reviews.csv --output labels.jsonl", "predict");
}

void add_forward(CLI::App& application) {
  add_engine_verb(
      application, "forward", "Run one forward pass and write the outputs under their Hugging Face names",
      "Example: weft forward --model out --inputs batch.safetensors --output outputs.safetensors", "forward");
}

void add_generate(CLI::App& application) {
  add_engine_verb(application, "generate", "Continue prompts",
                  "Example: weft generate --model out --prompt \"The \" --max-new-tokens 200", "generate");
}

void add_plan(CLI::App& application) {
  add_engine_verb(
      application, "plan",
      "Estimate the memory and traffic of a job under each strategy, or print how a model is split",
      "Example: weft plan --model folder/config.json -n 8 --memory 80GiB", "plan");
}

void add_convert(CLI::App& application) {
  add_engine_verb(
      application, "convert", "Convert a checkpoint to another format or layout",
      "Example: weft convert out out-bf16 --dtype bf16 --weights-only\n"
      "INPUT and OUTPUT are model folders, or single files of weights (.safetensors, .bin, .pt, .pth).\n"
      "Copies the other files of a folder, and training_state/, unchanged or in --parts files.",
      "convert");
}

void add_tokenizer(CLI::App& application) {
  CLI::App& tokenizer = *application.add_subcommand("tokenizer", "Turn text into token ids and back");
  tokenizer.require_subcommand(1);
  add_engine_verb(tokenizer, "encode", "Print the ids of each line of text",
                  "Example: weft tokenizer encode --model out < text\n"
                  "Reads lines of text from stdin and prints a JSON list of ids for each of them.",
                  "tokenizer encode");
  add_engine_verb(tokenizer, "decode", "Print the text of each list of ids",
                  "Example: weft tokenizer decode --model out < ids\n"
                  "Reads JSON lists of ids from stdin, one in a line, and prints the text of each of them.",
                  "tokenizer decode");
  add_engine_verb(tokenizer, "train", "Train a byte-level BPE on text",
                  "Example: weft tokenizer train --data README.md --vocab-size 1000 --output out",
                  "tokenizer train");
}

}  // namespace weft::cli
