#include "text/chat.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "jinja/strings.hpp"

namespace weft::data {

namespace {

using jinja::Text;

jinja::Template parsed(const TextEncoder& encoder, bool with_tools) {
  const std::string& text = with_tools ? encoder.tool_template : encoder.chat_template;
  if (text.empty() && !encoder.tool_template.empty())
    fail(WEFT_FAILED_PRECONDITION,
         "\"messages\" without \"tools\" need the chat template \"default\", but {} has \"tool_use\" alone",
         encoder.name);
  if (text.empty())
    fail(WEFT_FAILED_PRECONDITION,
         "\"messages\" need a chat template, but {} has none; give {{\"prompt\": ..., \"completion\": ...}} "
         "or {{\"text\": ...}}",
         encoder.name);
  try {
    return jinja::Template(text);
  } catch (const Error& error) {
    fail(error.status(), "the chat template {}of {}: {}", with_tools ? "\"tool_use\" " : "", encoder.name,
         error.what());
  }
}

// Returns the end of a text without the space there.
size_t end_without_space(std::string_view text) {
  return text.find_last_not_of(" \t\n\r\v\f") + 1;
}

// Members that are null are absent. Reasoning has the name that templates read, whatever name it comes under.
nlohmann::ordered_json without_nulls(const nlohmann::ordered_json& message) {
  using Json = nlohmann::ordered_json;
  Json made = Json::object();
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) made[key] = value;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (!made.contains(name)) continue;
    const Json reasoning = made[name];
    Json aliased = Json::object({{"thinking", reasoning}});
    aliased.update(made);
    aliased["reasoning_content"] = reasoning;
    return aliased;
  }
  return made;
}

// Stands for what an assistant has not said.
constexpr const char* kProbe = "x";

}  // namespace

struct ChatFormat::Conversation {
  // Whatever a message has comes from it, but not its role, which templates write between the messages.
  Conversation(const nlohmann::ordered_json& given, const nlohmann::ordered_json& given_tools)
      : tools(jinja::value_of(given_tools)) {
    for (const auto& message : given) {
      jinja::Dict made;
      const nlohmann::ordered_json members = without_nulls(message);
      for (const auto& [key, value] : members.items())
        made.set(key, jinja::value_of(value, key == "role" ? Text::Origin{0} : origin_of(messages.size())));
      messages.emplace_back(std::move(made));
      by_assistant.push_back(message.at("role") == "assistant");
    }
  }
  static Text::Origin origin_of(size_t message) { return static_cast<Text::Origin>(message + 1); }

  jinja::List messages;
  jinja::Value tools;
  mutable jinja::Limits limits;  // of all renderings together
  std::vector<bool> by_assistant;
};

ChatFormat::ChatFormat(const TextEncoder& encoder, bool with_tools)
    : name_(encoder.name),
      template_(parsed(encoder, with_tools)),
      // Models with this format were trained with the special tokens that their tokenizers add.
      is_enclosed_(encoder.chat_template.find("[Round ") != std::string::npos) {
  for (const auto& [name, token] : encoder.special_tokens) special_tokens_.set(name, token);
}

jinja::Rendered ChatFormat::render(const Conversation& conversation, size_t count,
                                   bool add_generation_prompt) const {
  jinja::Dict variables = special_tokens_;
  variables.set("messages", jinja::List(conversation.messages.begin(),
                                        conversation.messages.begin() + static_cast<std::ptrdiff_t>(count)));
  variables.set("tools", conversation.tools);
  variables.set("documents", jinja::Value::None());
  variables.set("add_generation_prompt", add_generation_prompt);
  try {
    return template_.render(variables, conversation.limits);
  } catch (const Error& error) {
    if (std::string_view(error.what()).find("strftime_now") != std::string_view::npos)
      fail(WEFT_UNIMPLEMENTED,
           "the chat template of {} writes the date of today, so that its text would change every day; put a "
           "date in place of strftime_now() there",
           name_);
    throw;
  }
}

std::optional<Text> ChatFormat::rendered(const Conversation& conversation, size_t count,
                                         bool add_generation_prompt) const {
  try {
    return render(conversation, count, add_generation_prompt).text;
  } catch (const Error& error) {
    if (error.status() == WEFT_RESOURCE_EXHAUSTED) throw;
    return std::nullopt;
  }
}

std::vector<ChatPiece> ChatFormat::text_of(const nlohmann::ordered_json& messages,
                                           const nlohmann::ordered_json& tools) const {
  constexpr size_t kMost = UINT16_MAX;  // as many origins as there are
  if (messages.size() >= kMost)
    fail(WEFT_INVALID_ARGUMENT, "{} messages, at most {} are possible", messages.size(), kMost - 1);
  const Conversation conversation(messages, tools);
  jinja::Rendered rendered = render(conversation, messages.size(), false);
  const std::vector<Span> learned =
      template_.marks_generation() ? rendered.generated : learned_in(rendered.text, conversation);
  std::vector<ChatPiece> pieces;
  size_t at = 0;
  const auto add = [&](size_t end, bool is_learned) {
    if (end > at) pieces.push_back({rendered.text.bytes().substr(at, end - at), is_learned});
    at = std::max(at, end);
  };
  for (const auto& [begin, end] : learned) {
    add(begin, false);
    add(end, true);
  }
  add(rendered.text.size(), false);
  return pieces;
}

namespace {

// Returns where the last byte of a message ends, or 0.
size_t end_of_message(const Text& text, size_t message) {
  size_t end = text.size();
  while (end > 0 && text.origin(end - 1) != message + 1) --end;
  return end;
}
// Returns the same of all messages by their origins, of which there are `count`.
std::vector<size_t> ends_of_messages(const Text& text, size_t count) {
  std::vector<size_t> ends(count + 1);
  for (size_t i = 0; i < text.size(); ++i) ends[text.origin(i)] = i + 1;
  return ends;
}

// `rest` is what the template writes after a message, and `behind` what it writes after the same message if
// the conversation ends there. Returns the length of the end of the turn, with which both begin. A template
// may end a conversation with more than that, on a line of its own.
size_t common_end(std::string_view rest, std::string_view behind) {
  if (rest.starts_with(behind)) return behind.size();
  const size_t common = static_cast<size_t>(
      std::mismatch(rest.begin(), rest.end(), behind.begin(), behind.end()).second - behind.begin());
  const size_t line = behind.rfind('\n', common);
  return line == std::string_view::npos || line >= common ? 0 : end_without_space(behind.substr(0, line));
}

}  // namespace

// What the template itself says about its turns: what it writes before one, and behind one with which a
// conversation ends.
class ChatFormat::Turns {
 public:
  Turns(const ChatFormat& format, const Conversation& conversation)
      : format_(format), conversation_(conversation) {}

  // Returns the generation prompt behind the messages before `first`; empty if there is none.
  std::string prompt_before(size_t first) const {
    const auto before = format_.rendered(conversation_, first, false),
               prompted = format_.rendered(conversation_, first, true);
    const bool extends = before && prompted && prompted->bytes().starts_with(before->bytes());
    return extends ? prompted->bytes().substr(before->size()) : "";
  }
  // Returns how much of `rest`, what follows a message, ends its turn.
  size_t end_in(std::string_view rest, size_t message) {
    for (const std::string& known : ends_)
      if (rest.starts_with(known)) return known.size();
    const auto ended = format_.rendered(conversation_, message + 1, false);
    if (!ended) return 0;
    std::string behind = ended->bytes().substr(end_of_message(*ended, message));
    behind.resize(end_without_space(behind));
    const size_t end = common_end(rest, behind);
    if (!behind.empty()) ends_.push_back(std::move(behind));
    return end;
  }
  // Returns the turn of a message in which nothing is said: what follows the generation prompt if the
  // conversation ends with it. Empty if the template does not write the prompt there.
  std::string without_words(size_t message) const {
    const auto prompted = format_.rendered(conversation_, message, true),
               ended = format_.rendered(conversation_, message + 1, false);
    if (!prompted || !ended || !ended->bytes().starts_with(prompted->bytes())) return "";
    std::string turn = ended->bytes().substr(prompted->size());
    turn.resize(end_without_space(turn));
    return turn;
  }

 private:
  const ChatFormat& format_;
  const Conversation& conversation_;
  std::vector<std::string> ends_;  // of earlier turns
};

std::vector<ChatFormat::Span> ChatFormat::turns_in(const Text& text, const Conversation& conversation) const {
  const std::vector<bool>& by_assistant = conversation.by_assistant;
  const auto first = std::find(by_assistant.begin(), by_assistant.end(), true);
  if (first == by_assistant.end()) return {};
  Turns turns(*this, conversation);
  const std::string prompt = turns.prompt_before(static_cast<size_t>(first - by_assistant.begin()));
  const std::vector<size_t> ends = ends_of_messages(text, by_assistant.size());
  std::vector<Span> spans;
  size_t earlier = 0;  // where the message before ends
  for (size_t at = 0; at < text.size();) {
    const size_t origin = text.origin(at);
    if (origin == 0 || !by_assistant[origin - 1]) {
      if (origin != 0) earlier = at + 1;
      ++at;
      continue;
    }
    size_t begin = at;
    const std::string_view between = std::string_view(text.bytes()).substr(earlier, begin - earlier);
    if (const size_t found = prompt.empty() ? std::string::npos : jinja::find_last(between, prompt);
        found != std::string::npos)
      begin = earlier + found + prompt.size();
    at = earlier = std::max(at + 1, ends[origin]);
    spans.emplace_back(begin, at + turns.end_in(std::string_view(text.bytes()).substr(at), origin - 1));
  }
  return spans;
}

std::vector<ChatFormat::Span> ChatFormat::learned_in(const Text& text,
                                                     const Conversation& conversation) const {
  std::vector<size_t> silent;  // messages of the assistant of which the text has nothing
  const std::vector<size_t> ends = ends_of_messages(text, conversation.messages.size());
  for (size_t i = 0; i < conversation.messages.size(); ++i)
    if (conversation.by_assistant[i] && ends[i + 1] == 0) silent.push_back(i);
  if (silent.empty()) return turns_in(text, conversation);
  if (const auto turns = turns_with_probes(text, conversation, silent)) return *turns;
  return turns_behind_prompts(text, conversation, silent);
}

std::optional<std::vector<ChatFormat::Span>> ChatFormat::turns_with_probes(
    const Text& text, const Conversation& conversation, const std::vector<size_t>& silent) const {
  Conversation probed = conversation;
  std::vector<bool> is_probe(probed.messages.size() + 1);
  for (const size_t i : silent) {
    jinja::Dict message = *probed.messages[i].dict();
    message.set("content", Text(kProbe, Conversation::origin_of(i)));
    probed.messages[i] = std::move(message);
    is_probe[i + 1] = true;
  }
  const std::optional<Text> asked = rendered(probed, probed.messages.size(), false);
  if (!asked) return std::nullopt;
  std::string rest;                               // the text without the probes
  std::vector<size_t> places(asked->size() + 1);  // of its bytes in `rest`
  for (size_t i = 0; i < asked->size(); ++i) {
    places[i] = rest.size();
    if (!is_probe[asked->origin(i)]) rest += asked->bytes()[i];
  }
  places.back() = rest.size();
  if (rest != text.bytes() || rest.size() + silent.size() * std::string_view(kProbe).size() != asked->size())
    return std::nullopt;
  std::vector<Span> spans = turns_in(*asked, probed);
  for (auto& [begin, end] : spans) {
    begin = places[begin];
    end = places[end];
  }
  return spans;
}

std::vector<ChatFormat::Span> ChatFormat::turns_behind_prompts(const Text& text,
                                                               const Conversation& conversation,
                                                               const std::vector<size_t>& silent) const {
  std::vector<Span> spans = turns_in(text, conversation);
  std::vector<size_t> ends = ends_of_messages(text, conversation.messages.size());
  ends.front() = 0;  // of no message
  const Turns turns(*this, conversation);
  size_t earlier = 0;  // the end of the turn before
  for (const size_t i : silent) {
    const std::string prompt = turns.prompt_before(i), turn = turns.without_words(i);
    if (prompt.empty() || turn.empty()) continue;
    earlier =
        std::max(earlier, *std::max_element(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(i + 1)));
    const size_t found = text.bytes().find(prompt + turn, earlier);
    if (found == std::string::npos) continue;
    earlier = found + prompt.size() + turn.size();
    spans.emplace_back(found + prompt.size(), earlier);
  }
  std::sort(spans.begin(), spans.end());
  return spans;
}

}  // namespace weft::data
