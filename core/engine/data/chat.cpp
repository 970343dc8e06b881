#include "data/chat.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace weft::data {

namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// What other templates write, which tells them apart.
constexpr const char* kUnknown[] = {"[INST]",         "<start_of_turn>", "<|im_sep|>",
                                    "<|user|>",       "<｜User｜>",      "<|START_OF_TURN_TOKEN|>",
                                    "<|start|>",      "<reserved_106>",  "<|role_start|>",
                                    "### Instruction"};
constexpr std::string_view kSpace = " \t\n\r\v\f";

std::string_view without(std::string_view text, std::string_view characters, bool left = true,
                         bool right = true) {
  const size_t begin = left ? std::min(text.find_first_not_of(characters), text.size()) : 0;
  const size_t last = right ? text.find_last_not_of(characters) : text.size() - 1;
  return begin >= text.size() || last == std::string_view::npos ? "" : text.substr(begin, last - begin + 1);
}

// Returns what the template makes the system say by default. In the template's string literals a line break
// is itself or `\n`.
std::optional<std::string> default_system_of(std::string_view chat_template) {
  constexpr std::string_view kBegin = "<|im_start|>system", kEnd = "<|im_end|>";
  for (size_t at = chat_template.find(kBegin); at != std::string_view::npos;
       at = chat_template.find(kBegin, at + 1)) {
    std::string_view rest = chat_template.substr(at + kBegin.size());
    if (rest.starts_with("\\n"))
      rest.remove_prefix(2);
    else if (rest.starts_with('\n'))
      rest.remove_prefix(1);
    else
      continue;
    const std::string_view said = rest.substr(0, rest.find(kEnd));
    if (!said.empty() && said.size() < rest.size() && said.find_first_of("'\"{}\\") == std::string_view::npos)
      return std::string(said);
  }
  return std::nullopt;
}

// Returns the date that the template writes where it is not told another one.
std::string date_of(std::string_view chat_template) {
  constexpr std::string_view kBegin = "set date_string = ";
  for (size_t at = chat_template.find(kBegin); at != std::string_view::npos;
       at = chat_template.find(kBegin, at + 1)) {
    const std::string_view rest = chat_template.substr(at + kBegin.size());
    if (rest.empty() || (rest[0] != '"' && rest[0] != '\'')) continue;
    const size_t end = rest.find(rest[0], 1);
    if (end != std::string_view::npos) return std::string(rest.substr(1, end - 1));
  }
  return "26 Jul 2024";
}

}  // namespace

ChatFormat::ChatFormat(const TextEncoder& encoder) : begin_(encoder.begin_token) {
  const std::string& text = encoder.chat_template;
  if (text.empty())
    fail(WEFT_FAILED_PRECONDITION,
         "\"messages\" need a chat template, but {} has none; give {{\"prompt\": ..., \"completion\": ...}} "
         "or "
         "{{\"text\": ...}}",
         encoder.name);
  const auto* other = std::find_if(std::begin(kUnknown), std::end(kUnknown),
                                   [&](const char* mark) { return has(text, mark); });
  const std::pair<Kind, bool> known[] = {
      {Kind::kHeaders, has(text, "<|start_header_id|>") && has(text, "<|eot_id|>")},
      {Kind::kMarks, has(text, "<|im_start|>") && has(text, "<|im_end|>")},
      {Kind::kRounds, has(text, "[Round ") && has(text, "问：") && has(text, "答：")},
  };
  const auto* found =
      std::find_if(std::begin(known), std::end(known), [](auto& kind) { return kind.second; });
  if (other != std::end(kUnknown) || found == std::end(known))
    fail(WEFT_UNIMPLEMENTED,
         "\"messages\" of {}: the chat template {} is not one that Weft knows, which are those with "
         "<|start_header_id|>, with <|im_start|> and with [Round N]; give {{\"prompt\": ..., \"completion\": "
         "...}}",
         encoder.name,
         other != std::end(kUnknown) ? fmt::format("with {}", *other)
                                     : fmt::format("that begins \"{}\"", printable(text, 60)));
  kind_ = found->first;
  strips_ = kind_ == Kind::kHeaders && has(text, "trim");
  if (kind_ == Kind::kHeaders && has(text, "Cutting Knowledge Date")) date_ = date_of(text);
  thinks_ = kind_ == Kind::kMarks && has(text, "reasoning_content");
  always_thinks_ = thinks_ && has(text, "loop.last or (not loop.last and reasoning_content)");
  if (kind_ == Kind::kMarks) {
    default_system_ = default_system_of(text);
    if (!has(text, "bos_token")) begin_.clear();
  }
}

std::vector<ChatPiece> ChatFormat::text_of(const std::vector<ChatMessage>& messages) const {
  if (kind_ == Kind::kRounds) return rounds(messages);
  for (const ChatMessage& message : messages)
    if (message.role != "system" && message.role != "user" && message.role != "assistant")
      fail(WEFT_INVALID_ARGUMENT, "the role is \"{}\", must be system, user or assistant",
           printable(message.role, 60));
  return kind_ == Kind::kHeaders ? headers(messages) : marks(messages);
}

std::vector<ChatPiece> ChatFormat::headers(std::vector<ChatMessage> messages) const {
  const auto stripped = [&](std::string_view content) {
    return strips_ ? without(content, kSpace) : content;
  };
  if (date_) {
    std::string said = fmt::format("Cutting Knowledge Date: December 2023\nToday Date: {}\n\n", *date_);
    if (!messages.empty() && messages.front().role == "system") {
      said += stripped(messages.front().content);
      messages.erase(messages.begin());
    }
    messages.insert(messages.begin(), {"system", said});
  }
  std::vector<ChatPiece> pieces = {{begin_}};
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto& [role, content] = messages[i];
    pieces.push_back({fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n", role)});
    const bool whole = date_ && i == 0;  // its end is the template's own
    pieces.push_back({fmt::format("{}<|eot_id|>", whole ? std::string_view(content) : stripped(content)),
                      role == "assistant"});
  }
  return pieces;
}

namespace {

// Takes the thoughts out of what the assistant says, and returns them.
std::string take_thoughts(std::string& content) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  const size_t first = content.find(kEnd), last = content.rfind(kEnd);
  if (first == std::string::npos) return "";
  std::string_view thoughts = without(std::string_view(content).substr(0, first), "\n", false);
  if (const size_t begin = thoughts.rfind(kBegin); begin != std::string_view::npos)
    thoughts.remove_prefix(begin + kBegin.size());
  std::string taken(without(thoughts, "\n", true, false));
  content = without(std::string_view(content).substr(last + kEnd.size()), "\n", true, false);
  return taken;
}

}  // namespace

std::vector<ChatPiece> ChatFormat::marks(std::vector<ChatMessage> messages) const {
  if (default_system_ && (messages.empty() || messages.front().role != "system"))
    messages.insert(messages.begin(), {"system", *default_system_});
  const auto last_query =
      std::find_if(messages.rbegin(), messages.rend(), [](auto& message) { return message.role == "user"; });
  std::vector<ChatPiece> pieces;
  if (!begin_.empty()) pieces.push_back({begin_});
  for (size_t i = 0; i < messages.size(); ++i) {
    auto& [role, content] = messages[i];
    const bool learned = role == "assistant";
    if (thinks_ && learned) {
      const std::string thoughts = take_thoughts(content);
      const bool answers = static_cast<size_t>(messages.rend() - last_query) <= i;  // the last query
      if (answers && ((always_thinks_ && i + 1 == messages.size()) || !thoughts.empty()))
        content = fmt::format("<think>\n{}\n</think>\n\n{}", without(thoughts, "\n"),
                              without(content, "\n", true, false));
    }
    pieces.push_back({fmt::format("<|im_start|>{}\n", role)});
    pieces.push_back({fmt::format("{}<|im_end|>", content), learned});
    pieces.push_back({"\n"});
  }
  return pieces;
}

std::vector<ChatPiece> ChatFormat::rounds(const std::vector<ChatMessage>& messages) const {
  std::vector<ChatPiece> pieces;
  for (size_t i = 0; i < messages.size(); ++i) {
    const char* const wanted = i % 2 == 0 ? "user" : "assistant";
    if (messages[i].role != wanted)
      fail(
          WEFT_INVALID_ARGUMENT,
          "the role of message {} is \"{}\", must be {}: in this chat template user and assistant take turns",
          i + 1, printable(messages[i].role, 60), wanted);
    if (i % 2 == 0)
      pieces.push_back({fmt::format("{}[Round {}]\n\n问：{}\n\n答：", i == 0 ? "" : "\n\n", i / 2 + 1,
                                    messages[i].content)});
    else
      pieces.push_back({messages[i].content, true});
  }
  return pieces;
}

}  // namespace weft::data
