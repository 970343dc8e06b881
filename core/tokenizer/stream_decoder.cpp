// Decodes a window of the last ids again and again: decoders look at a token and its neighbours, never far.
#include "tokenizer/utf8.hpp"
#include "weft/tokenizer.hpp"

namespace weft {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Returns how much of `text` no further text can change. Unfinished characters at the end look like U+FFFD.
// Where spaces in front of punctuation are removed, a change needs the characters around one space: what lies
// in front of a space is certain, unless that space may become a part of such a change itself.
size_t certain_size(std::string_view text) {
  while (text.ends_with(kReplacement)) text.remove_suffix(kReplacement.size());
  return text.size();
}

}  // namespace

struct Tokenizer::StreamDecoder::State {
  std::string decode(const std::vector<int64_t>& ids) const { return tokenizer.decode(ids, skip_special); }

  // Returns the text behind what was returned before; all of it, or what is certain.
  std::string take(bool all) {
    const std::string text = decode(window);
    const size_t size = all ? text.size() : certain_size(text);
    if (size <= done) return {};
    std::string added = text.substr(done, size - done);
    done = size;
    // A window begins with tokens whose text is known, for decoders treat the first token in another way.
    if (size == text.size() && window.size() > kContext) {
      window.erase(window.begin(), window.end() - static_cast<std::ptrdiff_t>(kContext / 2));
      done = decode(window).size();
    }
    return added;
  }

  static constexpr size_t kContext = 16;
  const Tokenizer tokenizer;
  const bool skip_special;
  std::vector<int64_t> window = {};
  size_t done = 0;  // bytes of the window's text that were returned
};

Tokenizer::StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : state_(std::make_unique<State>(State{tokenizer, skip_special_tokens})) {}
Tokenizer::StreamDecoder::~StreamDecoder() = default;
Tokenizer::StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;

std::string Tokenizer::StreamDecoder::add(int64_t id) {
  state_->window.push_back(id);
  return state_->take(false);
}

std::string Tokenizer::StreamDecoder::end() {
  std::string rest = state_->take(true);
  state_->window.clear();
  state_->done = 0;
  return rest;
}

}  // namespace weft
