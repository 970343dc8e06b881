// Text to token ids and back, as Hugging Face's tokenizers do it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// A tokenizer that the files of a model folder describe. Copies share one state, which does not change: all
// functions may be called from several threads at once.
class Tokenizer {
 public:
  // Opens the tokenizer of a folder: the class of a plugin (weft/tokenizer.h) that tokenizer_config.json
  // names, or tokenizer.json, or vocab.json with merges.txt, vocab.txt, or SentencePiece's tokenizer.model,
  // with what tokenizer_config.json and special_tokens_map.json add to them. Throws NOT_FOUND if the folder
  // has none of them, DATA_LOSS for a file that is damaged, UNIMPLEMENTED naming a part that Weft does not
  // have.
  static Tokenizer open(const std::string& folder);
  // Returns whether the folder has files of a tokenizer, of any kind.
  static bool is_in(const std::string& folder);

  // Returns the ids of `text`. With `add_special_tokens` the ones that the post-processor of the files puts
  // around one sequence ("[CLS]" and "[SEP]", "<|begin_of_text|>"). Text of special tokens becomes their ids.
  // "truncation" and "padding" of tokenizer.json are ignored on purpose: transformers applies them on request
  // alone. Bytes that are not UTF-8 are read as U+FFFD, one for each maximal invalid part. Throws
  // INVALID_ARGUMENT for text that no token spells, if the vocabulary has no token for the unknown, and
  // RESOURCE_EXHAUSTED, naming the rule, where a rule takes too long for the text or makes too much of it.
  std::vector<int64_t> encode(std::string_view text, bool add_special_tokens = true) const;
  // Returns the ids of a pair of sequences, as the post-processor joins them. `types`, where given, receives
  // the type of each token (0: of the first, 1: of the second sequence).
  std::vector<int64_t> encode_pair(std::string_view first, std::string_view second,
                                   std::vector<int64_t>* types = nullptr) const;
  // Returns the text of ids, without special tokens unless they are wanted. Bytes that do not make up UTF-8
  // are returned as U+FFFD. Ids that are no tokens are left out. Throws RESOURCE_EXHAUSTED as encode() does.
  std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens = true) const;

  // Returns one more than the largest id.
  int64_t vocabulary_size() const;
  // Returns the id of a token in the spelling of the files ("Ġthe"), or nothing.
  std::optional<int64_t> id_of(std::string_view token) const;
  // Returns the spelling of a token; empty if there is none with this id.
  std::string token_of(int64_t id) const;
  // The ids that tokenizer_config.json, special_tokens_map.json or the files of the tokenizer give a role.
  enum class Role { kBegin, kEnd, kUnknown, kSeparator, kPadding, kClass, kMask };
  std::optional<int64_t> id_of(Role role) const;
  // "padding_side" and "truncation_side" of tokenizer_config.json: on which side of a text padding stands,
  // and from which one a text that is too long is truncated.
  bool pads_left() const;
  bool truncates_left() const;
  std::string name() const;    // the path of the file that was opened, for messages
  std::string digest() const;  // SHA-256 of everything that changes ids, in hexadecimal
  // Returns a chat template by its name: "default" is chat_template.jinja or the "chat_template" of
  // tokenizer_config.json, "tool_use" that of conversations with tools. Others are in
  // additional_chat_templates/NAME.jinja or in the list "chat_template". Empty if there is none.
  std::string chat_template(std::string_view name = "default") const;

  // Writes the tokenizer's files, as they were when it was opened, into a folder, which exists. Each takes
  // the place of one with its name when it is complete. Throws UNAVAILABLE, or RESOURCE_EXHAUSTED on a full
  // disk.
  void save(const std::string& folder) const;

  // Turns ids into text one after the other. Text comes as soon as later ids cannot change it: bytes of a
  // character wait for the rest of it. Not thread-safe.
  class StreamDecoder {
   public:
    explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true);
    ~StreamDecoder();
    StreamDecoder(StreamDecoder&&) noexcept;
    std::string add(int64_t id);  // returns the text that became certain
    std::string end();            // returns the rest

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

// How a byte-level BPE is trained.
struct BpeTrainingOptions {
  int64_t vocabulary_size = 32000;  // with the 256 bytes and the special tokens; at least their number
  int64_t min_frequency = 2;        // a pair that is rarer is not merged
  // Get the first ids. The first of them begins and ends texts (bos_token, eos_token).
  std::vector<std::string> special_tokens = {"<|endoftext|>"};
};
// Trains a byte-level BPE, with the usual split of words, on text files, and writes tokenizer.json and
// tokenizer_config.json, which transformers opens, into `folder`. The same files give the same tokenizer.
// Throws NOT_FOUND for a missing file, INVALID_ARGUMENT for options that cannot be met.
void train_bpe(const std::vector<std::string>& paths, const std::string& folder,
               const BpeTrainingOptions& options);

}  // namespace weft
