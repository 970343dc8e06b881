// Trains byte-level BPE: counts words, then merges the most frequent pair again and again. The counts of
// pairs are kept up to date word by word, so a merge costs as much as the words that have it.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/files.hpp"
#include "base/text.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/regex.hpp"
#include "tokenizer/train.hpp"
#include "tokenizer/train_files.hpp"
#include "tokenizer/utf8.hpp"

namespace weft {

using namespace tokenizer;

namespace {

struct Word {
  std::vector<uint32_t> symbols;
  int64_t count = 0;
};

using WordCounts = std::unordered_map<std::string, int64_t>;

// Counts the words of texts.
class WordCounter final : public TrainingTexts {
 public:
  void add(std::string_view text) override {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
      count(text.substr(0, end));
      text.remove_prefix(end);
    }
  }
  void add_file(const std::string& path) override {
    std::ifstream file(path, std::ios::binary);
    if (!file || std::filesystem::is_directory(path))
      fail(WEFT_NOT_FOUND, "cannot read {}, which is to be trained on", path);
    bool first = true;
    for (std::string line; std::getline(file, line);) {
      if (first) refuse_lfs_pointer(line, path);
      first = false;
      if (!file.eof()) line += '\n';
      count(line);
    }
    if (file.bad()) fail(WEFT_DATA_LOSS, "cannot read {} to its end", path);
  }
  const WordCounts& counts() const { return counts_; }

 private:
  void count(std::string_view line) {
    const std::string text = repaired_utf8(line);
    Limits limits(text.size());
    words_.each_match(text, limits,
                      [&](size_t begin, size_t end) { ++counts_[text.substr(begin, end - begin)]; });
  }
  const Regex words_{kByteLevelWords, "the expression of words"};
  WordCounts counts_;
};

// The merge that comes next: the most frequent pair, and of equal ones that of the smallest ids.
struct Candidate {
  int64_t count;
  uint64_t pair;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
 public:
  Trainer(const WordCounts& counts, std::vector<std::string> vocabulary, uint32_t first_byte)
      : vocabulary_(std::move(vocabulary)) {
    std::vector<uint32_t> ids(256);
    std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
    std::sort(sorted.begin(), sorted.end());
    for (size_t byte = 0; byte < 256; ++byte) ids[byte] = first_byte + place_of_byte(byte);
    for (size_t i = 0; i < vocabulary_.size(); ++i) ids_.emplace(vocabulary_[i], static_cast<uint32_t>(i));
    for (const auto& [text, count] : sorted) {
      Word word{{}, count};
      for (const char byte : text) word.symbols.push_back(ids[static_cast<unsigned char>(byte)]);
      words_.push_back(std::move(word));
    }
    for (size_t i = 0; i < words_.size(); ++i)
      for (size_t k = 0; k + 1 < words_[i].symbols.size(); ++k)
        change(pair_of(words_[i].symbols[k], words_[i].symbols[k + 1]), words_[i].count, i);
    propose_changed();
  }

  // Merges until the vocabulary has `size` tokens, or no pair is as frequent as `least`.
  void run(size_t size, int64_t least) {
    while (vocabulary_.size() < size && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      Pair& pair = pairs_.at(best.pair);
      if (pair.count != best.count) {
        if (pair.count > 0) queue_.push({pair.count, best.pair});
        continue;
      }
      if (best.count < std::max<int64_t>(least, 1)) break;
      merge(best.pair);
    }
  }

  const std::vector<std::string>& vocabulary() const { return vocabulary_; }
  const std::vector<std::pair<std::string, std::string>>& merges() const { return merges_; }

  // Returns where a byte stands among all bytes in the order of their characters.
  static uint32_t place_of_byte(size_t byte) {
    const auto& all = characters_of_bytes();
    return static_cast<uint32_t>(
        std::count_if(all.begin(), all.end(), [&](char32_t c) { return c < all[byte]; }));
  }

 private:
  struct Pair {
    int64_t count = 0;
    std::unordered_set<size_t> words;  // where it may be
  };
  static uint64_t pair_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

  void change(uint64_t pair, int64_t by, size_t word) {
    Pair& changed = pairs_[pair];
    changed.count += by;
    if (by > 0) {
      changed.words.insert(word);
      changed_.insert(pair);
    }
  }
  void propose_changed() {
    for (const uint64_t pair : changed_)
      if (pairs_.at(pair).count > 0) queue_.push({pairs_.at(pair).count, pair});
    changed_.clear();
  }

  void merge(uint64_t pair) {
    const auto left = static_cast<uint32_t>(pair >> 32), right = static_cast<uint32_t>(pair);
    merges_.emplace_back(vocabulary_[left], vocabulary_[right]);
    const std::string joined = vocabulary_[left] + vocabulary_[right];
    // Two merges may give one token.
    const auto [known, is_new] = ids_.try_emplace(joined, static_cast<uint32_t>(vocabulary_.size()));
    if (is_new) vocabulary_.push_back(joined);
    const std::unordered_set<size_t> words = std::move(pairs_.at(pair).words);
    for (const size_t index : words) merge_in(index, left, right, known->second);
    pairs_.at(pair) = {};
    changed_.erase(pair);
    propose_changed();
  }

  void merge_in(size_t index, uint32_t left, uint32_t right, uint32_t result) {
    Word& word = words_[index];
    std::vector<uint32_t>& symbols = word.symbols;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      if (symbols[i] != left || symbols[i + 1] != right) continue;
      if (i > 0) {
        change(pair_of(symbols[i - 1], left), -word.count, index);
        change(pair_of(symbols[i - 1], result), word.count, index);
      }
      if (i + 2 < symbols.size()) {
        change(pair_of(right, symbols[i + 2]), -word.count, index);
        change(pair_of(result, symbols[i + 2]), word.count, index);
      }
      symbols[i] = result;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }

  std::vector<Word> words_;
  std::vector<std::string> vocabulary_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<std::pair<std::string, std::string>> merges_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::set<uint64_t> changed_;  // since candidates were proposed
  std::priority_queue<Candidate> queue_;
};

std::vector<std::string> first_tokens(const BpeTrainingOptions& options) {
  std::vector<std::string> tokens = options.special_tokens;
  const size_t bytes = tokens.size();
  tokens.resize(bytes + 256);
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string& token = tokens[bytes + Trainer::place_of_byte(byte)];
    append_code_point(token, characters_of_bytes()[byte]);
  }
  std::set<std::string> seen;
  for (const std::string& token : tokens) {
    if (token.empty() || !is_utf8(token))
      fail(WEFT_INVALID_ARGUMENT, "a special token is \"{}\", must be a text in UTF-8", printable(token, 40));
    if (!seen.insert(token).second)
      fail(WEFT_INVALID_ARGUMENT, "the special token \"{}\" is given twice, or is a byte's",
           printable(token, 40));
  }
  return tokens;
}

}  // namespace

void tokenizer::train_bpe_on(const std::function<void(TrainingTexts&)>& read, const std::string& folder,
                             const BpeTrainingOptions& options) {
  std::vector<std::string> tokens = first_tokens(options);
  if (options.vocabulary_size < static_cast<int64_t>(tokens.size()) || options.vocabulary_size > 1 << 22)
    fail(WEFT_INVALID_ARGUMENT,
         "a vocabulary of {} tokens was asked for, must be from {} (256 bytes and {} special tokens) to {}",
         options.vocabulary_size, tokens.size(), options.special_tokens.size(), 1 << 22);
  WordCounter words;
  read(words);
  Trainer trainer(words.counts(), std::move(tokens), static_cast<uint32_t>(options.special_tokens.size()));
  trainer.run(static_cast<size_t>(options.vocabulary_size), options.min_frequency);
  write_tokenizer_files(folder, trainer.vocabulary(), trainer.merges(), options.special_tokens);
}

void train_bpe(const std::vector<std::string>& paths, const std::string& folder,
               const BpeTrainingOptions& options) {
  if (paths.empty()) fail(WEFT_INVALID_ARGUMENT, "a tokenizer is trained on files: name at least one");
  const auto read = [&](TrainingTexts& texts) {
    for (const std::string& path : paths) texts.add_file(path);
  };
  train_bpe_on(read, folder, options);
}

}  // namespace weft
