#include "engine_verb.hpp"
#include "verbs.hpp"

namespace weft::cli {

void add_tokenizer(CLI::App& application) {
  CLI::App& tokenizer = *application.add_subcommand("tokenizer", "Turn text into token ids and back");
  tokenizer.require_subcommand(1);
  EngineVerb(tokenizer, "encode", "Print the ids of each line of text",
             "Example: weft tokenizer encode --model out < text\n"
             "Reads lines of text from stdin and prints a JSON list of ids for each of them.",
             "tokenizer encode")
      .text("--model", "model", "Model folder with the files of a tokenizer", true)
      .flag("--special", "special", "Add the special tokens that the tokenizer puts around a text");
  EngineVerb(tokenizer, "decode", "Print the text of each list of ids",
             "Example: weft tokenizer decode --model out < ids\n"
             "Reads JSON lists of ids from stdin, one in a line, and prints the text of each of them.",
             "tokenizer decode")
      .text("--model", "model", "Model folder with the files of a tokenizer", true)
      .flag("--special", "special", "Print special tokens as well");
  EngineVerb(tokenizer, "train", "Train a byte-level BPE on text",
             "Example: weft tokenizer train --data README.md --vocab-size 1000 --save out", "tokenizer train")
      .words(
          "--data", "data",
          "Text: a file, a folder or a pattern (\"books/*.jsonl\"); of JSON lines the text is read; can be "
          "repeated")
      .integer("--vocab-size", "vocab_size",
               "Tokens, with the 256 bytes and the special tokens; default 32000")
      .words("--special-token", "special_tokens",
             "Token that is never split, such as [MASK]; the first one ends documents (eos_token); can be "
             "repeated; default <|endoftext|>")
      .integer("--min-frequency", "min_frequency", "How often a pair must occur to be merged; default 2")
      .text("--save", "save", "Folder to write tokenizer.json and tokenizer_config.json into", true);
}

}  // namespace weft::cli
