#include "text/documents.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "base/text.hpp"
#include "loader/json_text.hpp"

namespace weft::data {

using nlohmann::json;

namespace {

constexpr size_t kPieceBytes = 256 << 10;
constexpr size_t kContextBytes = 64;  // around a cut
// To find where the parts of a chat end, text may be encoded again: so many bytes, and more for a long line.
constexpr size_t kMostAgain = 16 << 20, kMostAgainPerByte = 10'000;

// Returns the position of the first byte that does not belong to UTF-8, or the size.
size_t invalid_utf8(std::string_view text) {
  const auto byte = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  for (size_t at = 0; at < text.size();) {
    const unsigned first = byte(at);
    if (first < 0x80) {
      ++at;
      continue;
    }
    const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    if (first < 0xc2 || first > 0xf4) return at;
    // Overlong forms, surrogates, and what lies behind U+10FFFF.
    const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (byte(at + 1) < least || byte(at + 1) > most) return at;
    for (int i = 2; i <= more; ++i)
      if (byte(at + static_cast<size_t>(i)) >> 6 != 2) return at;
    at += static_cast<size_t>(more) + 1;
  }
  return text.size();
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

size_t common_prefix(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const size_t size = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(size), b.begin()).first - a.begin());
}

// Throws unless a record has exactly one of the forms of TextSource.
void check_form(const json& object) {
  const bool chat = object.contains("messages"), plain = object.contains("text"),
             pair = object.contains("prompt") || object.contains("completion");
  if (int{chat} + int{pair} + int{plain} == 1) return;
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(printable(key, 60));
  fail(WEFT_INVALID_ARGUMENT,
       "it has {} \"text\", \"prompt\" with \"completion\", and \"messages\", must have exactly one of them; "
       "it has: {}",
       chat || pair || plain ? "several of" : "none of", printable(fmt::format("{}", fmt::join(keys, ", "))));
}

// Reading an object in its order takes time that grows with the square of its size.
void check_members(const json& value) {
  constexpr size_t kMost = 1000;
  if (value.is_object() && value.size() > kMost)
    fail(WEFT_INVALID_ARGUMENT, "an object has {} members, at most {} are possible beside \"messages\"",
         value.size(), kMost);
  if (value.is_structured())
    for (const json& item : value) check_members(item);
}

void check_messages(const json& messages) {
  if (!messages.is_array() || messages.empty())
    fail(WEFT_INVALID_ARGUMENT, "\"messages\" is {}, must be a list of at least one message",
         messages.is_array() ? "empty" : json_kind(messages));
  for (size_t i = 0; i < messages.size(); ++i) {
    const json& message = messages[i];
    if (!message.is_object())
      fail(WEFT_INVALID_ARGUMENT, "message {} is {}, must be {{\"role\": ..., \"content\": ...}}", i + 1,
           json_kind(message));
    text_at(message, "role");
    const auto members =
        std::count_if(message.begin(), message.end(), [](const json& member) { return !member.is_null(); });
    // A call of tools may stand for it.
    if (members == 1 || (message.contains("content") && !message["content"].is_null()))
      text_at(message, "content");
  }
}

}  // namespace

// A document as pieces of text, of which some are learned.
struct DocumentEncoder::Line {
  std::vector<ChatPiece> pieces;
  bool enclosed = true;  // whether the tokenizer's ids stand around it
};

DocumentEncoder::DocumentEncoder(const TextFiles& files, const TextEncoder& encoder, bool skip_broken_lines,
                                 bool separates)
    : files_(files), encoder_(encoder), skip_broken_lines_(skip_broken_lines), separates_(separates) {
  for (Chat* const chat : {&chat_, &tool_chat_}) try {
      chat->format.emplace(encoder, chat == &tool_chat_);
    } catch (const Error& error) {
      // No line is to blame for it.
      chat->missing =
          error.status() == WEFT_INVALID_ARGUMENT ? Error(WEFT_FAILED_PRECONDITION, error.what()) : error;
    }
}

bool DocumentEncoder::may_cut(std::string_view content, size_t at) const {
  // Context begins and ends with whole characters.
  size_t begin = at - std::min(at, kContextBytes), end = std::min(at + kContextBytes, content.size());
  const auto within = [&](size_t i) {
    return i < content.size() && static_cast<unsigned char>(content[i]) >> 6 == 2;
  };
  while (begin > 0 && within(begin)) --begin;
  while (within(end)) ++end;
  const std::string_view left = content.substr(begin, at - begin), right = content.substr(at, end - at);
  TextEncoder::Ids apart = encoder_.encode(left);
  const TextEncoder::Ids after = encoder_.encode(right);
  apart.insert(apart.end(), after.begin(), after.end());
  return apart == encoder_.encode(content.substr(begin, end - begin));
}

size_t DocumentEncoder::next_cut(std::string_view content, size_t from) const {
  constexpr int kTries = 8;
  size_t at = std::min(from + kPieceBytes, content.size());
  for (int tries = 0; at < content.size(); ++at) {
    at = content.find('\n', at);
    if (at == std::string_view::npos || at + 1 >= content.size()) break;
    // Most tokenizers cut between words; spaces in a row belong together.
    if (is_space(content[at - 1]) || is_space(content[at + 1])) continue;
    if (may_cut(content, at + 1)) return at + 1;
    if (++tries == kTries) break;
  }
  return content.size();
}

std::vector<TextPiece> DocumentEncoder::pieces_of(size_t file, std::string_view content) const {
  std::vector<TextPiece> pieces;
  if (has_records(files_.files[file])) {
    for (const JsonStretch& stretch : record_stretches(content, files_.path(file), kPieceBytes))
      pieces.push_back({file, stretch.offset, stretch.text, true, true, stretch.first_element});
    return pieces;
  }
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = next_cut(content, begin);
    pieces.push_back({file, begin, content.substr(begin, end - begin), begin == 0, end == content.size()});
    begin = end;
  }
  if (content.empty()) pieces.push_back({file, 0, content});
  return pieces;
}

EncodedPiece DocumentEncoder::encode(const TextPiece& piece, std::string_view content) const {
  EncodedPiece encoded;
  if (has_records(files_.files[piece.file]))
    encode_records(piece, content, encoded);
  else
    encode_text(piece, encoded);
  return encoded;
}

void DocumentEncoder::encode_text(const TextPiece& piece, EncodedPiece& encoded) const {
  const std::string path = files_.path(piece.file);
  if (const size_t zero = piece.text.find('\0'); zero != std::string_view::npos)
    fail(WEFT_INVALID_ARGUMENT,
         "{}: not text, byte {} is zero; the name of a file of tokens must end in .bin, of tensors in "
         ".safetensors",
         path, piece.offset + zero);
  if (const size_t invalid = invalid_utf8(piece.text); invalid < piece.text.size())
    fail(WEFT_INVALID_ARGUMENT, "{}: byte {} is not UTF-8; convert the file to UTF-8", path,
         piece.offset + invalid);
  if (piece.text.empty()) {
    ++encoded.empty_documents;
    return;
  }
  const auto add = [&](const TextEncoder::Ids& ids) {
    encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
  };
  if (piece.begins) {
    encoded.begins.push_back(0);
    encoded.offsets.push_back(0);
    add(encoder_.before);
  }
  add(encoder_.encode(piece.text));
  if (piece.ends) add(encoder_.after);
}

void DocumentEncoder::encode_records(const TextPiece& piece, std::string_view content,
                                     EncodedPiece& encoded) const {
  Records records(content, files_.path(piece.file), {piece.text, piece.offset, piece.first_element});
  for (bool more = true; more;) try {
      const std::optional<json> record = records.next();
      more = record.has_value();
      if (!more) return;
      add_document(read_record(*record, records.text()), records.text().size(), encoded);
      encoded.offsets.resize(encoded.begins.size(), records.offset());
    } catch (const Error& error) {
      const std::string text = fmt::format("{}: {}", records.place(files_.path(piece.file)), error.what());
      if (error.status() != WEFT_INVALID_ARGUMENT) throw Error(error.status(), text);
      if (!skip_broken_lines_)
        throw Error(WEFT_INVALID_ARGUMENT,
                    fmt::format("{}; correct {}, or leave out such {} with --skip-broken-lines", text,
                                records.element() == 0 ? "the line" : "the element",
                                records.element() == 0 ? "lines" : "elements"));
      if (encoded.broken_lines++ == 0) encoded.first_broken = text;
    }
}

DocumentEncoder::Line DocumentEncoder::read_record(const json& object, std::string_view text) const {
  check_form(object);
  if (object.contains("text")) return {{{text_at(object, "text"), true}}};
  if (object.contains("messages")) {
    check_messages(object.at("messages"));
    return read_messages(object, text);
  }
  return {{{text_at(object, "prompt")}, {text_at(object, "completion"), true}}};
}

DocumentEncoder::Line DocumentEncoder::read_messages(const json& line, std::string_view text) const {
  const bool has_tools = line.contains("tools") && !line["tools"].is_null();
  const Chat& chat = has_tools && !encoder_.tool_template.empty() ? tool_chat_ : chat_;
  if (chat.missing) throw Error(*chat.missing);
  check_members(line);
  const auto object = nlohmann::ordered_json::parse(text);  // templates write keys in their order
  const nlohmann::ordered_json tools = has_tools ? object["tools"] : nlohmann::ordered_json();
  return {chat.format->text_of(object["messages"], tools), chat.format->is_enclosed()};
}

std::vector<std::string> texts_of_record(const json& object) {
  check_form(object);
  if (object.contains("text")) return {text_at(object, "text")};
  if (!object.contains("messages")) return {text_at(object, "prompt") + text_at(object, "completion")};
  std::vector<std::string> texts;
  check_messages(object.at("messages"));
  for (const json& message : object.at("messages"))
    if (message.contains("content") && message["content"].is_string()) texts.push_back(message["content"]);
  return texts;
}

void DocumentEncoder::add_document(const Line& line, size_t record_bytes, EncodedPiece& encoded) const {
  if (separates_ && std::any_of(line.pieces.begin(), line.pieces.end(),
                                [](const ChatPiece& piece) { return !piece.learned; }))
    return add_pairs(line, encoded);
  std::string text;
  TextEncoder::Ids apart;          // the ids of each piece by itself
  std::vector<size_t> ends_apart;  // where each piece ends in them
  for (const ChatPiece& piece : line.pieces) {
    text += piece.text;
    const TextEncoder::Ids ids = encoder_.encode(piece.text);
    apart.insert(apart.end(), ids.begin(), ids.end());
    ends_apart.push_back(apart.size());
  }
  if (text.empty()) {
    ++encoded.empty_documents;
    return;
  }
  const TextEncoder::Ids ids = line.pieces.size() == 1 ? apart : encoder_.encode(text);
  const auto add = [&](const TextEncoder::Ids& added) {
    encoded.ids.insert(encoded.ids.end(), added.begin(), added.end());
  };
  const auto size = [&] { return static_cast<int64_t>(encoded.ids.size()); };
  encoded.begins.push_back(size());
  if (line.enclosed) add(encoder_.before);
  const int64_t first = size();
  add(ids);
  // A token that reaches from one piece into the next belongs to the next one.
  const bool is_apart = apart == ids;
  std::string before;
  size_t again = 0;  // bytes that were encoded again
  int64_t begin = encoded.begins.back();
  for (size_t i = 0; i < line.pieces.size(); ++i) {
    before += line.pieces[i].text;
    if (!is_apart) again += before.size();
    if (again > kMostAgain + kMostAgainPerByte * record_bytes)
      fail(WEFT_RESOURCE_EXHAUSTED,
           "the chat template makes {} learned and other parts of a text of {} bytes, which is "
           "more than Weft takes",
           line.pieces.size(), text.size());
    const size_t length = is_apart                      ? ends_apart[i]
                          : i + 1 == line.pieces.size() ? ids.size()
                                                        : common_prefix(encoder_.encode(before), ids);
    const int64_t end = first + static_cast<int64_t>(length);
    if (!line.pieces[i].learned && end > begin) encoded.unlabelled.emplace_back(begin, end);
    begin = std::max(begin, end);
  }
  if (line.enclosed) add(encoder_.after);
}

namespace {

// Adds ids between others, unless they already begin or end with those.
void add_enclosed(const TextEncoder::Ids& before, const TextEncoder::Ids& ids, const TextEncoder::Ids& after,
                  std::vector<uint32_t>& all) {
  const auto add = [&](const TextEncoder::Ids& added) { all.insert(all.end(), added.begin(), added.end()); };
  const size_t common = common_prefix(before, ids);
  if (common < before.size()) add(before);
  add(ids);
  const bool has_end = ids.size() >= after.size() && std::equal(after.rbegin(), after.rend(), ids.rbegin());
  if (!has_end) add(after);
}

}  // namespace

void DocumentEncoder::add_pairs(const Line& line, EncodedPiece& encoded) const {
  EncodedPiece pairs;  // first by themselves: a line that is broken adds nothing
  std::string source;
  for (const ChatPiece& piece : line.pieces) {
    if (piece.learned) {
      const auto begin = static_cast<int64_t>(pairs.ids.size());
      pairs.begins.push_back(begin);
      add_enclosed(encoder_.before, encoder_.encode(source), encoder_.closing, pairs.ids);
      const auto end = static_cast<int64_t>(pairs.ids.size());
      if (end == begin)
        fail(WEFT_INVALID_ARGUMENT, "the prompt is empty, so that the encoder has nothing to read; give one");
      pairs.unlabelled.emplace_back(begin, end);
      add_enclosed(encoder_.before, encoder_.encode(piece.text), encoder_.after, pairs.ids);
      if (static_cast<int64_t>(pairs.ids.size()) == end)
        fail(WEFT_INVALID_ARGUMENT, "the completion is empty, and the tokenizer has no token to end it with");
    }
    source += piece.text;
  }
  if (pairs.begins.empty()) ++encoded.empty_documents;
  const auto offset = static_cast<int64_t>(encoded.ids.size());
  for (const int64_t begin : pairs.begins) encoded.begins.push_back(offset + begin);
  for (const auto& [begin, end] : pairs.unlabelled)
    encoded.unlabelled.emplace_back(offset + begin, offset + end);
  encoded.ids.insert(encoded.ids.end(), pairs.ids.begin(), pairs.ids.end());
}

}  // namespace weft::data
