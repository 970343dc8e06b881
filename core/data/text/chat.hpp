// Conversations as the text that a model was trained on: what the chat template of its tokenizer writes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "jinja/template.hpp"
#include "text/text_encoder.hpp"

namespace weft::data {

// A piece of a conversation's text.
struct ChatPiece {
  std::string text;
  bool learned = false;  // whether its tokens have labels
};

class ChatFormat {
 public:
  // Throws FAILED_PRECONDITION for a tokenizer without a template, UNIMPLEMENTED for one with parts of Jinja
  // that Weft does not know, and INVALID_ARGUMENT for one that is no template. `with_tools` takes the
  // template of conversations with tools, which the encoder must have.
  explicit ChatFormat(const TextEncoder& encoder, bool with_tools = false);

  // Returns the text that the template writes for messages, objects with a "role", and tools, null if there
  // are none. Members of messages that are null are absent, and reasoning under the name "thinking" or
  // "reasoning" has the name "reasoning_content" too, as in transformers. What its {% generation %} blocks
  // write is learned; if it has none, what the assistant says, from the end of the generation prompt to the
  // end of the turn. Throws INVALID_ARGUMENT for a conversation that the template refuses.
  std::vector<ChatPiece> text_of(const nlohmann::ordered_json& messages,
                                 const nlohmann::ordered_json& tools) const;
  // Returns whether the tokenizer puts its ids around the text; otherwise the text has all of them.
  bool is_enclosed() const { return is_enclosed_; }

 private:
  using Span = std::pair<size_t, size_t>;  // of bytes: begin and end
  struct Conversation;
  class Turns;

  jinja::Rendered render(const Conversation& conversation, size_t count, bool add_generation_prompt) const;
  // Returns the text of the first messages, if the template takes so many.
  std::optional<jinja::Text> rendered(const Conversation& conversation, size_t count,
                                      bool add_generation_prompt) const;
  // Returns the turns of the assistant in the text of a conversation.
  std::vector<Span> learned_in(const jinja::Text& text, const Conversation& conversation) const;
  // Return them if the assistant says nothing in the messages `silent`. The first asks the template what it
  // writes if something is said there, and returns nothing if other text changes with it. The second looks
  // for the generation prompt.
  std::optional<std::vector<Span>> turns_with_probes(const jinja::Text& text,
                                                     const Conversation& conversation,
                                                     const std::vector<size_t>& silent) const;
  std::vector<Span> turns_behind_prompts(const jinja::Text& text, const Conversation& conversation,
                                         const std::vector<size_t>& silent) const;
  // Returns the turns in which the assistant says something.
  std::vector<Span> turns_in(const jinja::Text& text, const Conversation& conversation) const;

  std::string name_;
  jinja::Template template_;
  jinja::Dict special_tokens_;
  bool is_enclosed_ = false;
};

}  // namespace weft::data
