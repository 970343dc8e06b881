// Decodes a window of the last ids again and again: decoders look at a token and its neighbours, never far.
#include "tokenizer/implementation.hpp"

namespace weft {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Returns how much of `text` no further text can change. Unfinished characters at the end look like U+FFFD.
// Where spaces in front of punctuation are taken away, text in front of a space is certain, unless that space
// may itself become part of what is taken (" n't", " ' ").
size_t certain_size(std::string_view text, bool cleans_up) {
  while (text.ends_with(kReplacement)) text.remove_suffix(kReplacement.size());
  if (!cleans_up) return text.size();
  for (size_t at = text.size(); at-- > 1;)
    if (text[at] == ' ' && std::string_view(" n'").find(text[at - 1]) == std::string_view::npos) return at;
  return 0;
}

}  // namespace

struct Tokenizer::StreamDecoder::State {
  std::string decode(const std::vector<int64_t>& ids) const { return tokenizer.decode(ids, skip_special); }

  // Returns the text behind what was returned before; all of it, or what is certain.
  std::string take(bool all) {
    const std::string text = decode(window);
    const size_t size = all ? text.size() : certain_size(text, cleans_up);
    if (size <= done) return {};
    std::string added = text.substr(done, size - done);
    done = size;
    // A window begins with tokens whose text is known, for decoders treat the first token in another way.
    if (size == text.size() && window.size() > kContext) {
      const std::vector<int64_t> last(window.end() - static_cast<std::ptrdiff_t>(kContext / 2), window.end());
      const std::string known = decode(last);
      // Not so where it begins within a character of several tokens.
      if (!known.empty() && text.ends_with(known)) {
        window = last;
        done = known.size();
      }
    }
    return added;
  }

  static constexpr size_t kContext = 16;
  const Tokenizer tokenizer;
  const bool skip_special, cleans_up;
  std::vector<int64_t> window = {};
  size_t done = 0;  // bytes of the window's text that were returned
};

Tokenizer::StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : state_(std::make_unique<State>(
          State{tokenizer, skip_special_tokens, tokenizer.state_->implementation->facts().cleans_up})) {}
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
