// Conversations as the text that a model was trained on: what the chat template of its tokenizer writes.
#pragma once

#include <nlohmann/json_fwd.hpp>
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
  // that Weft does not know, and INVALID_ARGUMENT for one that is no template.
  explicit ChatFormat(const TextEncoder& encoder);

  // Returns the text that the template writes for messages, objects with a "role", and tools, null if there
  // are none. What its {% generation %} blocks write is learned; if it has none, what the assistant says,
  // from the end of the generation prompt to the end of the turn. Throws INVALID_ARGUMENT for a conversation
  // that the template refuses.
  std::vector<ChatPiece> text_of(const nlohmann::ordered_json& messages,
                                 const nlohmann::ordered_json& tools) const;
  // Returns whether the tokenizer puts its ids around the text; otherwise the text has all of them.
  bool is_enclosed() const { return is_enclosed_; }

 private:
  using Span = std::pair<size_t, size_t>;  // of bytes: begin and end
  struct Conversation;
  class Turns;

  jinja::Rendered render(const Conversation& conversation, size_t count, bool add_generation_prompt) const;
  // Returns the turns of the assistant in the text of a conversation.
  std::vector<Span> turns_in(const jinja::Text& text, const Conversation& conversation) const;

  std::string name_;
  jinja::Template template_;
  jinja::Dict special_tokens_;
  bool is_enclosed_ = false;
};

}  // namespace weft::data
