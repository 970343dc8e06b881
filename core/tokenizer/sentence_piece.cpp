#include "tokenizer/sentence_piece.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "tokenizer/charsmap.hpp"
#include "tokenizer/sentence_piece_file.hpp"
#include "tokenizer/utf8.hpp"

namespace weft::tokenizer {

namespace {

using nlohmann::json;
using Piece = SentencePieceFile::Piece;

constexpr std::string_view kSpace = "\u2581";

void require_known(const SentencePieceFile& file, const std::string& path) {
  const auto refuse = [&](std::string_view what) {
    fail(WEFT_UNIMPLEMENTED,
         "{}: Weft does not read models with {}; write tokenizer.json with transformers: "
         "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)",
         path, what);
  };
  if (file.kind != SentencePieceFile::kUnigram && file.kind != SentencePieceFile::kBytePairs)
    refuse("whole words or characters");
  if (file.space_behind) refuse("spaces behind words (treat_whitespace_as_suffix)");
  for (const Piece& piece : file.pieces) {
    if (piece.type == Piece::kUserDefined)
      refuse(fmt::format("symbols of the user (\"{}\")", printable(piece.text, 40)));
    if (piece.type == Piece::kUnused)
      refuse(fmt::format("unused pieces (\"{}\")", printable(piece.text, 40)));
  }
}

std::string first_of(const SentencePieceFile& file, Piece::Type type) {
  for (const Piece& piece : file.pieces)
    if (piece.type == type) return piece.text;
  return "";
}

// Any two neighbours that spell a piece become this piece, the one of the best score first.
json merges_of(const SentencePieceFile& file, const json& vocabulary, const std::string& path) {
  constexpr size_t kLongestPiece = 1000;  // it is divided at each of its characters
  std::vector<const Piece*> sorted;
  for (const Piece& piece : file.pieces)
    if (piece.type == Piece::kNormal) sorted.push_back(&piece);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Piece* a, const Piece* b) { return a->score > b->score; });
  json merges = json::array();
  int64_t rank = -1;
  float score = std::numeric_limits<float>::quiet_NaN();
  for (const Piece* piece : sorted) {
    if (piece->score != score) ++rank;
    score = piece->score;
    const std::string_view text = piece->text;
    if (text.size() > kLongestPiece)
      fail(WEFT_DATA_LOSS, "{}: the piece \"{}\" has {} bytes, at most {} are possible", path,
           printable(text, 40), text.size(), kLongestPiece);
    for (size_t at = 0; at < text.size();) {
      next_code_point(text, at);
      if (at == text.size()) break;
      const std::string left(text.substr(0, at)), right(text.substr(at));
      if (vocabulary.contains(left) && vocabulary.contains(right))
        merges.push_back(json::array({left, right, rank}));
    }
  }
  return merges;
}

json model_of(const SentencePieceFile& file, const std::string& path) {
  if (file.kind == SentencePieceFile::kBytePairs) {
    json vocabulary = json::object();
    for (size_t id = 0; id < file.pieces.size(); ++id) vocabulary[file.pieces[id].text] = id;
    json merges = merges_of(file, vocabulary, path);
    return {{"type", "BPE"},
            {"vocab", std::move(vocabulary)},
            {"merges", std::move(merges)},
            {"unk_token", first_of(file, Piece::kUnknown)},
            {"fuse_unk", true},
            {"byte_fallback", file.byte_fallback}};
  }
  json vocabulary = json::array(), unknown;
  for (const Piece& piece : file.pieces) {
    if (piece.type == Piece::kUnknown) unknown = vocabulary.size();
    vocabulary.push_back(
        json::array({piece.text, piece.type == Piece::kNormal ? json(piece.score) : json()}));
  }
  return {{"type", "SentencePieceUnigram"},
          {"vocab", std::move(vocabulary)},
          {"unk_id", std::move(unknown)},
          {"byte_fallback", file.byte_fallback}};
}

json element(const char* kind, const std::string& id) {
  return {{kind, {{"id", id}, {"type_id", 0}}}};
}

// Returns the post-processor that puts tokens in front of a text and behind it, and behind a pair.
json around(const std::vector<std::pair<std::string, int64_t>>& before,
            const std::vector<std::pair<std::string, int64_t>>& behind,
            const std::vector<std::pair<std::string, int64_t>>& behind_pair) {
  json specials = json::object(), single = json::array(), pair;
  const auto add = [&](json& list, const auto& tokens) {
    for (const auto& [token, id] : tokens) {
      specials[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
      list.push_back(element("SpecialToken", token));
    }
  };
  add(single, before);
  single.push_back(element("Sequence", "A"));
  pair = single;
  pair.push_back(element("Sequence", "B"));
  add(single, behind);
  add(pair, behind_pair);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", specials}};
}

void set_default(json& config, const char* key, json value) {
  if (!config.contains(key) || config[key].is_null()) config[key] = std::move(value);
}

// Does what the class of tokenizer_config.json does: sets defaults of `config`, adds tokens to `added` and a
// post-processor to `parts`.
void take_class(const SentencePieceFile& file, const std::string& path, json& config, json& parts,
                json& added) {
  const auto id_of = [&](const std::string& text) {
    const auto found = std::find_if(file.pieces.begin(), file.pieces.end(),
                                    [&](const Piece& piece) { return piece.text == text; });
    if (found == file.pieces.end())
      fail(WEFT_DATA_LOSS, "{}: has no piece \"{}\", which its class needs", path, printable(text, 40));
    return static_cast<int64_t>(found - file.pieces.begin());
  };
  const JsonPart settings(config, "tokenizer_config.json", path);
  std::string known = settings.text("tokenizer_class", "");
  if (known.ends_with("Fast")) known.resize(known.size() - 4);
  if (known == "LlamaTokenizer") {
    if (!settings.flag("legacy", true))
      fail(WEFT_UNIMPLEMENTED,
           "{}: tokenizer_config.json has \"legacy\": false, which Weft knows from tokenizer.json alone; "
           "write one with transformers: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)",
           path);
    set_default(config, "bos_token", "<s>");
    set_default(config, "eos_token", "</s>");
    set_default(config, "unk_token", "<unk>");
    std::vector<std::pair<std::string, int64_t>> begin, end;
    if (settings.flag("add_bos_token", true)) begin = {{"<s>", id_of("<s>")}};
    if (settings.flag("add_eos_token", false)) end = {{"</s>", id_of("</s>")}};
    parts["post_processor"] = around(begin, end, end);
  } else if (known == "ChatGLMTokenizer") {
    // Five tokens behind those of the file, of which a text begins with two.
    auto id = static_cast<int64_t>(file.pieces.size());
    std::vector<std::pair<std::string, int64_t>> begin;
    for (const char* name : {"[MASK]", "[gMASK]", "[sMASK]", "sop", "eop"}) {
      added.push_back({{"content", name}, {"special", true}, {"in_text", false}});
      if (id == static_cast<int64_t>(file.pieces.size()) + 1 || std::string_view(name) == "sop")
        begin.emplace_back(name, id);
      ++id;
    }
    set_default(config, "eos_token", "</s>");
    set_default(config, "unk_token", "<unk>");
    set_default(config, "pad_token", "<unk>");
    set_default(config, "padding_side", "left");
    parts["post_processor"] = around(begin, {}, {{"</s>", id_of("</s>")}});
  } else if (!known.empty() && known != "PreTrainedTokenizer") {
    fail(
        WEFT_UNIMPLEMENTED,
        "{}: tokenizer_config.json names the class \"{}\", which Weft knows from tokenizer.json alone; write "
        "one with transformers: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)",
        path, printable(known, 80));
  }
}

}  // namespace

json sentence_piece_parts(const std::string& bytes, const std::string& path, json& config) {
  const SentencePieceFile file = read_sentence_piece_file(bytes, path);
  require_known(file, path);
  json normalizer = {{"type", "SentencePiece"},
                     {"charsmap", json::binary({file.charsmap.begin(), file.charsmap.end()})},
                     {"adds_space", file.adds_space},
                     {"removes_spaces", file.removes_spaces},
                     {"writes_spaces", file.writes_spaces}};
  json decoders = {{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (file.adds_space || file.removes_spaces)
    decoders.insert(decoders.begin(),
                    json({{"type", "SentencePiece"}, {"removes_spaces", file.removes_spaces}}));
  json parts = {{"model", model_of(file, path)},
                {"normalizer", std::move(normalizer)},
                {"decoder", {{"type", "Sequence"}, {"decoders", std::move(decoders)}}}};
  json added = json::array();
  for (const Piece& piece : file.pieces)
    if (piece.type == Piece::kControl || piece.type == Piece::kUnknown)
      added.push_back({{"content", piece.text}, {"special", true}});
  take_class(file, path, config, parts, added);
  parts["added_tokens"] = std::move(added);
  return parts;
}

namespace {

class SentencePieceNormalizer : public Normalizer {
 public:
  explicit SentencePieceNormalizer(const JsonPart& part)
      : Normalizer(part.rule()),
        map_(bytes_of(part), part.source()),
        adds_space_(part.flag("adds_space", true)),
        removes_spaces_(part.flag("removes_spaces", true)),
        writes_spaces_(part.flag("writes_spaces", true)) {}

  std::string normalize(std::string text, Limits& limits) const override {
    const std::string_view space = writes_spaces_ ? kSpace : " ";
    std::string result;
    bool behind_space = removes_spaces_, begun = false;
    for (std::string_view rest = text; !rest.empty();) {
      std::string_view next = take(rest, work(limits));
      work(limits).step(1 + next.size());
      while (behind_space && next.starts_with(' ')) next.remove_prefix(1);
      if (next.empty()) continue;
      if (!begun && adds_space_) result += space;
      begun = true;
      for (const char character : next)
        if (character == ' ')
          result += space;
        else
          result += character;
      work(limits).require_room(result.size());
      behind_space = removes_spaces_ && next.ends_with(' ');
    }
    if (removes_spaces_)
      while (result.ends_with(space)) result.resize(result.size() - space.size());
    return result;
  }

 private:
  static std::string_view bytes_of(const JsonPart& part) {
    const Json* map = part.find("charsmap");
    if (!map || !map->is_binary()) part.wrong("charsmap", "the bytes of a map");
    const std::vector<uint8_t>& bytes = map->get_binary();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // Takes one entry of the map, or one character, from the front of a text, and returns what it becomes.
  std::string_view take(std::string_view& text, Work work) const {
    if (const auto found = map_.longest(text, work)) {
      text.remove_prefix(found->size);
      return found->text;
    }
    size_t at = 0;
    next_code_point(text, at);
    const std::string_view character = text.substr(0, at);
    text.remove_prefix(at);
    return character;
  }

  const Charsmap map_;
  const bool adds_space_, removes_spaces_, writes_spaces_;
};

// Takes the space from the begin of a text; one of each token until there is a text, if spaces are removed.
class SentencePieceDecoder : public Decoder {
 public:
  explicit SentencePieceDecoder(const JsonPart& part)
      : Decoder(part.rule()), removes_spaces_(part.flag("removes_spaces", true)) {}

  void decode(std::vector<std::string>& tokens, Limits&) const override {
    for (std::string& token : tokens) {
      const bool has_space = token.starts_with(kSpace);
      if (has_space) token.erase(0, kSpace.size());
      if (!token.empty() || (has_space && !removes_spaces_)) return;
    }
  }

 private:
  const bool removes_spaces_;
};

}  // namespace

std::unique_ptr<Decoder> make_sentence_piece_decoder(const JsonPart& part) {
  return std::make_unique<SentencePieceDecoder>(part);
}

std::unique_ptr<Normalizer> make_sentence_piece_normalizer(const JsonPart& part) {
  return std::make_unique<SentencePieceNormalizer>(part);
}

}  // namespace weft::tokenizer
