// Pairs of sentences: that their labels are right, and that nothing but the sentences tells them.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "data/text_fixture.hpp"
#include "loader/fingerprint.hpp"
#include "loader/objectives.hpp"
#include "loader/random.hpp"
#include "support/expect_error.hpp"

namespace weft::data {
namespace {

constexpr int64_t kLength = 40, kRoom = kLength - 3;
constexpr const char* kLabels = "next_sentence_label";

// Each document has six letters of its own, of which the last one ends sentences.
size_t document_of(char letter) {
  return static_cast<size_t>(letter - 'A') / 6;
}
bool is_end(char letter) {
  return (letter - 'A') % 6 == 5;
}

// A document in sentences of any length.
std::string document(int number, size_t size, bool sentences = true) {
  SampleRandom random(17, number, 0);
  std::string text;
  while (text.size() < size) {
    const bool ends = sentences && draw_below(7, random) == 0;
    text += static_cast<char>('A' + 6 * number + (ends ? 5 : static_cast<int>(draw_below(5, random))));
  }
  return text.substr(0, size);
}

struct Pair {
  std::string first, second;
  int64_t label = 0;
};

class SentencePairs : public Text {
 protected:
  SentencePairs() {
    encoder_.pair_format = [] {
      PairFormat format = {{{{kBegin}, {0}}, {{kPair}, {0}}, {{kEnd}, {1}}}, {}};
      format.sentence_ends.resize(259);
      for (const char end : {'F', 'L', 'R'}) format.sentence_ends[static_cast<size_t>(end)] = true;
      return format;
    };
    fs::create_directory(folder_.path() + "/texts");
    for (int i = 0; i < 3; ++i) write(i, document(i, kSizes[static_cast<size_t>(i)]));
  }
  void write(int number, const std::string& text) {
    texts_[static_cast<size_t>(number)] = text;
    folder_.file(fmt::format("texts/{}.txt", number), text);
  }
  std::shared_ptr<Dataset> pairs(TextOptions options = {}, int64_t length = kLength) const {
    options.labels = false;
    options.sentence_labels = kLabels;
    return open(folder_.path() + "/texts", length, options);
  }
  // Returns all pairs of some epochs, after comparing what stands around the sentences.
  std::vector<Pair> read(const Dataset& dataset, int64_t epochs) const {
    std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
    std::iota(indices.begin(), indices.end(), int64_t{0});
    std::vector<Pair> found;
    for (int64_t epoch = 0; epoch < epochs; ++epoch) {
      const Batch batch = dataset.get_in_epoch(indices, epoch);
      const Ids labels = values(batch.at(kLabels));
      for (int64_t i = 0; i < dataset.size(); ++i) {
        const auto row = [&](const char* field) { return values(batch.at(field)[i]); };
        found.push_back(split(row("input_ids"), row("token_type_ids"), row("attention_mask")));
        found.back().label = labels[static_cast<size_t>(i)];
      }
    }
    return found;
  }
  // Returns the number of the document with the letters of a sentence.
  static size_t origin(const std::string& sentence) {
    for (const char letter : sentence) EXPECT_EQ(document_of(letter), document_of(sentence[0])) << sentence;
    return document_of(sentence[0]);
  }

  static constexpr std::array<size_t, 3> kSizes = {300, 600, 1500};
  std::array<std::string, 3> texts_;

 private:
  static Pair split(const Ids& ids, const Ids& types, const Ids& mask) {
    Pair pair;
    const auto between = std::find(ids.begin(), ids.end(), kPair), end = std::find(between, ids.end(), kEnd);
    EXPECT_EQ(ids.front(), kBegin);
    EXPECT_NE(end, ids.end());
    pair.first.assign(ids.begin() + 1, between);
    pair.second.assign(between + 1, end);
    EXPECT_FALSE(pair.first.empty() || pair.second.empty());
    const auto used = end + 1 - ids.begin(), first = between + 1 - ids.begin();
    for (std::ptrdiff_t t = 0; t < std::ssize(ids); ++t) {
      const auto at = static_cast<size_t>(t);
      EXPECT_EQ(mask[at], t < used ? 1 : 0) << t;
      EXPECT_EQ(types[at], t >= first && t < used ? 1 : 0) << t;
      if (t >= used) EXPECT_EQ(ids[at], kEnd);  // the padding
    }
    return pair;
  }
};

void expect_share(double found, double of, double probability, const std::string& what) {
  EXPECT_NEAR(found, of * probability, 5 * std::sqrt(of * probability * (1 - probability)))
      << what << " of " << of;
}

TEST_F(SentencePairs, AreRefusedWithWhatIsWrong) {
  EXPECT_ERROR(pairs({}, 4), WEFT_INVALID_ARGUMENT, "length is 4", "least 5", "3 special tokens",
               "--sequence-length");
  EXPECT_ERROR(pairs({.packing = Packing::kNone}), WEFT_INVALID_ARGUMENT, "leave out --packing");
  EXPECT_ERROR(pairs({.positions = true}), WEFT_INVALID_ARGUMENT, "TextOptions::positions");
  TextOptions both;
  both.sentence_labels = kLabels;
  EXPECT_ERROR(open(folder_.path() + "/texts", kLength, both), WEFT_INVALID_ARGUMENT, "TextOptions::labels");
  const TextOptions alone{.labels = false, .sentence_labels = kLabels};
  EXPECT_ERROR(open(folder_.path() + "/texts/0.txt", kLength, alone), WEFT_INVALID_ARGUMENT,
               "0.txt: 1 document", "another document", "JSON lines");
  TextOptions held_out = alone;
  held_out.held_out = 1e-9;
  held_out.part = Part::kTraining;
  EXPECT_ERROR(open(folder_.path() + "/texts/0.txt", kLength, held_out), WEFT_INVALID_ARGUMENT, "1 document",
               "training part");
  EXPECT_ERROR(open(folder_.file("short.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n"), kLength, alone),
               WEFT_INVALID_ARGUMENT, "its 2 documents", "two tokens");
  const std::string prompts = folder_.file("prompts.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  EXPECT_ERROR(open(prompts, kLength, alone), WEFT_INVALID_ARGUMENT, "prompts", "messages");
  TextOptions bytes = alone;
  bytes.sequence_length = kLength;
  EXPECT_ERROR(open_bytes({{folder_.path() + "/texts", {}}}, bytes), WEFT_INVALID_ARGUMENT, "reads bytes",
               "two sequences", "--tokenizer");
}

TEST_F(SentencePairs, FollowInTheirDocumentOrComeFromAnother) {
  const auto dataset = pairs();
  EXPECT_EQ(dataset->size(), 300 / kRoom + 1 + 600 / kRoom + 1 + 1500 / kRoom + 1);
  const std::vector<Pair> found = read(*dataset, 40);
  double others = 0, full = 0, full_others = 0;
  for (const Pair& pair : found) {
    const std::string &own = texts_[origin(pair.first)], &other = texts_[origin(pair.second)];
    const size_t first = own.find(pair.first), second = other.find(pair.second);
    ASSERT_NE(first, std::string::npos) << pair.first;
    ASSERT_NE(second, std::string::npos) << pair.second;
    ASSERT_TRUE(pair.label == 0 || pair.label == 1);
    EXPECT_EQ(pair.label == 0, &own == &other);
    // All stretches of 37 tokens have the end of a sentence. A few letters could be anywhere.
    if (pair.first.size() > 8) EXPECT_TRUE(is_end(pair.first.back())) << pair.first;
    if (pair.second.size() > 8) EXPECT_TRUE(is_end(other.at(second - 1))) << pair.second;
    if (pair.label == 0) EXPECT_NE(own.find(pair.first + pair.second), std::string::npos);
    const bool fills = static_cast<int64_t>(pair.first.size() + pair.second.size()) == kRoom;
    others += pair.label == 1 ? 1 : 0;
    full += fills ? 1 : 0;
    full_others += fills && pair.label == 1 ? 1 : 0;
  }
  expect_share(others, static_cast<double>(found.size()), 0.5, "pairs of two documents");
  // The length tells nothing where documents are longer than what they give.
  EXPECT_GT(full, 0.8 * static_cast<double>(found.size()));
  expect_share(full_others, full, 0.5, "full pairs of two documents");
}

TEST_F(SentencePairs, TakeEachTokenOfOtherDocumentsAsOften) {
  std::array<std::array<double, 3>, 3> counts = {};
  for (const Pair& pair : read(*pairs(), 60))
    if (pair.label == 1) ++counts[origin(pair.first)][origin(pair.second)];
  for (size_t own = 0; own < 3; ++own) {
    const auto [a, b] = own == 0 ? std::pair(1, 2) : own == 1 ? std::pair(0, 2) : std::pair(0, 1);
    const double of_a = counts[own][static_cast<size_t>(a)], of_b = counts[own][static_cast<size_t>(b)];
    const auto size_a = static_cast<double>(kSizes[static_cast<size_t>(a)]),
               size_b = static_cast<double>(kSizes[static_cast<size_t>(b)]);
    EXPECT_EQ(counts[own][own], 0);
    ASSERT_GT(of_a + of_b, 100);
    expect_share(of_a, of_a + of_b, size_a / (size_a + size_b), fmt::format("from {} beside {}", a, own));
  }
}

TEST_F(SentencePairs, AreCutAnywhereWithoutTheEndOfASentence) {
  for (int i = 0; i < 3; ++i) write(i, document(i, 200, false));
  std::set<size_t> cuts;
  for (const Pair& pair : read(*pairs(), 30)) {
    cuts.insert(pair.first.size());
    EXPECT_EQ(pair.label == 0, origin(pair.first) == origin(pair.second));
    if (pair.label == 0)
      EXPECT_NE(texts_[origin(pair.first)].find(pair.first + pair.second), std::string::npos);
  }
  EXPECT_EQ(cuts.size(), static_cast<size_t>(kRoom - 1));
}

// Documents of one token give a second sentence, but no first one.
TEST_F(SentencePairs, AreWholeForTheShortestDocuments) {
  write(0, "A");
  write(1, "GH");
  write(2, "M");
  const auto dataset = pairs({}, 5);
  ASSERT_EQ(dataset->size(), 1);
  std::set<std::string> seconds;
  for (const Pair& pair : read(*dataset, 40)) {
    EXPECT_EQ(pair.first, "G");
    EXPECT_EQ(pair.label == 0, pair.second == "H");
    seconds.insert(pair.second);
  }
  EXPECT_EQ(seconds, (std::set<std::string>{"A", "H", "M"}));
}

TEST_F(SentencePairs, DependOnSeedEpochAndSampleAlone) {
  const auto dataset = pairs();
  const int64_t size = dataset->size();
  std::vector<int64_t> all(static_cast<size_t>(size));
  std::iota(all.begin(), all.end(), int64_t{0});
  for (const int64_t epoch : {0, 3}) {
    const Batch whole = dataset->get_in_epoch(all, epoch);
    for (int64_t i = size - 1; i >= 0; --i)
      for (const auto& [name, tensor] : pairs()->get_in_epoch({i}, epoch))
        EXPECT_TRUE(tensor.equal(whole.at(name).slice(0, i, i + 1))) << name << " of " << i;
  }
  const at::Tensor ids = dataset->get(all).at("input_ids");
  EXPECT_FALSE(ids.equal(dataset->get_in_epoch(all, 1).at("input_ids")));
  TextOptions other;
  other.seed = 5;
  EXPECT_FALSE(ids.equal(pairs(other)->get(all).at("input_ids")));
  EXPECT_NE(dataset->objective(), pairs(other)->objective());
  EXPECT_ERROR(dataset->get({size}), WEFT_OUT_OF_RANGE, "no sample");
}

TEST_F(SentencePairs, TakeDocumentsOfTheirPartAlone) {
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines +=
        fmt::format("{{\"text\": \"{}\"}}\n", document(i % 3, 80 + static_cast<size_t>(i)) + char('0' + i));
  folder_.file("lines.jsonl", lines);
  std::set<char> held_out, training;
  for (auto [part, seen] : {std::pair(Part::kHeldOut, &held_out), {Part::kTraining, &training}})
    for (const Pair& pair :
         read(*open(folder_.path() + "/lines.jsonl", kLength,
                    {.held_out = 0.4, .part = part, .labels = false, .sentence_labels = kLabels}),
              20))
      for (const std::string& sentence : {pair.first, pair.second})
        for (const char letter : sentence)
          if (letter >= '0' && letter < '0' + 40 && letter < 'A') seen->insert(letter);
  EXPECT_GT(held_out.size(), 2u);
  EXPECT_GT(training.size(), 2u);
  for (const char document : held_out) EXPECT_FALSE(training.contains(document)) << document;
}

TEST_F(SentencePairs, PadOnTheSideOfTheTokenizer) {
  const Batch right = pairs()->get({8});
  encoder_.pads_left = true;
  const Batch left = pairs()->get({8});
  const int64_t used = right.at("attention_mask").sum().item<int64_t>();
  ASSERT_LT(used, kLength);
  for (const char* field : {"input_ids", "token_type_ids", "attention_mask"})
    EXPECT_TRUE(left.at(field).slice(1, kLength - used).equal(right.at(field).slice(1, 0, used))) << field;
  EXPECT_EQ(left.at("attention_mask").sum().item<int64_t>(), used);
}

TEST_F(SentencePairs, KeepTheirEpochAndObjectiveInSeveralSources) {
  fs::create_directory(folder_.path() + "/more");
  folder_.file("more/a.txt", document(0, 90));
  folder_.file("more/b.txt", document(1, 90));
  TextOptions options{.sequence_length = kLength, .labels = false, .sentence_labels = kLabels};
  for (const std::optional<double> weight : {std::optional<double>(), std::optional(0.5)}) {
    const auto several = open_encoded_text(
        {{folder_.path() + "/texts", weight}, {folder_.path() + "/more", weight}}, encoder_, options);
    EXPECT_EQ(several->objective(), pairs()->objective());
    std::vector<int64_t> all(static_cast<size_t>(several->size()));
    std::iota(all.begin(), all.end(), int64_t{0});
    EXPECT_FALSE(several->get_in_epoch(all, 0).at(kLabels).equal(several->get_in_epoch(all, 1).at(kLabels)));
  }
}

TEST_F(SentencePairs, HaveMasksThatSpareSpecialTokensAndTellNoLabel) {
  const auto dataset = pairs();
  const TokenMasking masking{.field = "input_ids",
                             .vocabulary = 259,
                             .mask_token_id = 1,
                             .special_ids = {kBegin, kPair, kEnd},
                             .seed = 1024};
  TokenMasking every = masking;
  every.probability = 1;
  std::vector<int64_t> all(static_cast<size_t>(dataset->size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  const at::Tensor ids = dataset->get(all).at("input_ids"),
                   labels = with_masked_tokens(dataset, every)->get(all).at("labels");
  EXPECT_TRUE(labels.ne(-100).equal(ids.lt(256)));
  const auto masked = with_masked_tokens(dataset, masking);
  EXPECT_EQ(masked->objective(),
            "next_sentence with seed 1024, and masked_lm with mask_token_id 1, special_ids [256, 257, 258], "
            "mlm_probability 0.15 and seed 1024");
  // Of the first three tokens each, because any of them could be masked by the number that draws the label.
  std::array<double, 3> of_all = {}, of_others = {};
  for (int64_t epoch = 0; epoch < 60; ++epoch) {
    const Batch batch = masked->get_in_epoch(all, epoch);
    for (size_t t = 0; t < 3; ++t) {
      const at::Tensor chosen = batch.at("labels").select(1, 1 + static_cast<int64_t>(t)).ne(-100);
      of_all[t] += chosen.sum().item<double>();
      of_others[t] += chosen.logical_and(batch.at(kLabels).eq(1)).sum().item<double>();
    }
  }
  for (size_t t = 0; t < 3; ++t) {
    ASSERT_GT(of_all[t], 200);
    expect_share(of_others[t], of_all[t], 0.5,
                 fmt::format("pairs of two documents with a masked token {}", t));
  }
}

}  // namespace
}  // namespace weft::data
