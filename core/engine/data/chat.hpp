// Conversations as the text that a model was trained on. A chat template is a Jinja program; Weft does not
// run it, but knows the formats of some templates and recognises those by what they write.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/text_encoder.hpp"

namespace weft::data {

struct ChatMessage {
  std::string role, content;
};

// A piece of a conversation's text.
struct ChatPiece {
  std::string text;
  bool learned = false;  // whether its tokens have labels: what the assistant says, with the end of its turn
};

class ChatFormat {
 public:
  // Throws UNIMPLEMENTED for a template that is not known, and FAILED_PRECONDITION for a tokenizer without
  // one.
  explicit ChatFormat(const TextEncoder& encoder);

  // Returns the text of a conversation, the same as the template's. Throws INVALID_ARGUMENT for roles that
  // the template has no text for.
  std::vector<ChatPiece> text_of(const std::vector<ChatMessage>& messages) const;
  // Returns whether the tokenizer puts its ids around the text; otherwise the text has all of them.
  bool is_enclosed() const { return kind_ == Kind::kRounds; }

 private:
  enum class Kind {
    kHeaders,  // <|start_header_id|>user<|end_header_id|>
    kMarks,    // <|im_start|>user, which is called ChatML
    kRounds,   // [Round 1]
  };
  std::vector<ChatPiece> headers(std::vector<ChatMessage> messages) const;
  std::vector<ChatPiece> marks(std::vector<ChatMessage> messages) const;
  std::vector<ChatPiece> rounds(const std::vector<ChatMessage>& messages) const;

  Kind kind_ = Kind::kMarks;
  std::string begin_;                          // the token that a conversation begins with
  std::optional<std::string> default_system_;  // what the system says if no message does
  std::optional<std::string> date_;            // of today, before what the system says
  bool strips_ = false;                        // whether contents lose the space around them
  bool thinks_ = false;                        // whether the assistant's thoughts are marked
  bool always_thinks_ = false;                 // whether an answer without thoughts has the marks, too
};

}  // namespace weft::data
