#include "contract/tokenizer.hpp"

#include <algorithm>
#include <random>
#include <thread>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "weft/error.hpp"
#include "weft/tokenizer.hpp"

namespace weft::contract {

namespace {

using Ids = std::vector<int64_t>;

// A text with its ids.
struct Encoded {
  std::string text;
  Ids ids;
};

// Texts of several scripts, and random ones of the tokens themselves.
std::vector<std::string> make_texts(const Tokenizer& tokenizer) {
  std::vector<std::string> texts = {"",
                                    " ",
                                    "a",
                                    "Hello, world!",
                                    "two  spaces, a\ttab\nand a line",
                                    "12345 67.89",
                                    "don't",
                                    "na\xc3\xafve caf\xc3\xa9",
                                    "\xe4\xbd\xa0\xe5\xa5\xbd",
                                    "\xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82",
                                    "\xf0\x9f\x99\x82\xf0\x9f\x91\x8d"};
  std::mt19937 random(7);
  for (int i = 0; i < 12; ++i) {
    Ids ids(1 + random() % 24);
    for (int64_t& id : ids)
      id = static_cast<int64_t>(random() % static_cast<uint64_t>(tokenizer.vocabulary_size()));
    texts.push_back(tokenizer.decode(ids));
  }
  return texts;
}

std::string shown(const std::string& text) {
  return "\"" + printable(text, 60) + "\"";
}

// Returns the texts that the class has ids for; it may refuse some.
std::vector<Encoded> encode_all(const Tokenizer& tokenizer, Findings& findings) {
  std::vector<Encoded> encoded;
  std::string refused;
  for (const std::string& text : make_texts(tokenizer)) try {
      encoded.push_back({text, tokenizer.encode(text, false)});
    } catch (const Error& error) {
      if (error.status() != WEFT_INVALID_ARGUMENT) throw;
      refused = error.what();
    }
  const bool any =
      std::any_of(encoded.begin(), encoded.end(), [](const Encoded& one) { return !one.ids.empty(); });
  findings.look("texts have ids", any ? "" : "no text has any" + (refused.empty() ? "" : ": " + refused));
  return encoded;
}

void check_text(const Tokenizer& tokenizer, const Encoded& one, Findings& findings) {
  const bool same = tokenizer.encode(one.text, false) == one.ids;
  findings.look("the same text has the same ids again", same ? "" : shown(one.text));
  // A class may change a text (case, spaces), but not what it has made of it.
  const std::string decoded = tokenizer.decode(one.ids);
  const std::string again = tokenizer.decode(tokenizer.encode(decoded, false));
  findings.look("the text of ids stays the same when it is encoded and decoded again",
                again == decoded ? "" : fmt::format("{} became {}", shown(decoded), shown(again)));
  const std::string whole = tokenizer.decode(one.ids, false);
  for (size_t count = 0; count < one.ids.size(); ++count) {
    std::string begun =
        tokenizer.decode(Ids(one.ids.begin(), one.ids.begin() + static_cast<int64_t>(count)), false);
    while (begun.ends_with("\xef\xbf\xbd")) begun.resize(begun.size() - 3);
    findings.look(
        "further ids only append to the text",
        whole.starts_with(begun) ? "" : fmt::format("{} is no beginning of {}", shown(begun), shown(whole)));
  }
}

void check_spellings(const Tokenizer& tokenizer, Findings& findings) {
  constexpr const char* kInverse = "a spelling is found under its id";
  const int64_t step = std::max<int64_t>(1, tokenizer.vocabulary_size() / 5000);
  for (int64_t id = 0; id < tokenizer.vocabulary_size(); id += step) {
    const std::string spelling = tokenizer.token_of(id);
    const std::optional<int64_t> found = spelling.empty() ? id : tokenizer.id_of(spelling);
    findings.look(kInverse, found == id
                                ? ""
                                : fmt::format("token {} is spelt {}, which is found under {}", id,
                                              shown(spelling), found ? std::to_string(*found) : "no id"));
  }
}

void check_pair(const Tokenizer& tokenizer, const std::string& text, Findings& findings) try {
  Ids types;
  const Ids ids = tokenizer.encode_pair(text, text, &types);
  const bool good = ids.size() == types.size() && std::is_sorted(types.begin(), types.end()) &&
                    !types.empty() && types.front() == 0 && types.back() == 1;
  // Padding and separators may be of either type, but the first text comes before the second.
  findings.look("the ids of a pair have types, 0 before 1",
                good ? "" : fmt::format("{} ids have the types {}", ids.size(), fmt::join(types, ", ")));
} catch (const Error& error) {
  if (error.status() != WEFT_UNIMPLEMENTED) throw;  // the class has no pairs
}

void check_threads(const Tokenizer& tokenizer, const std::vector<Encoded>& encoded, Findings& findings) {
  std::vector<std::string> problems(4);
  std::vector<std::thread> threads;
  threads.reserve(problems.size());
  for (std::string& problem : problems)
    threads.emplace_back([&problem, &tokenizer, &encoded] {
      for (int round = 0; round < 50; ++round)
        for (const Encoded& one : encoded) try {
            if (tokenizer.encode(one.text, false) != one.ids) problem = shown(one.text) + " has other ids";
          } catch (const std::exception& exception) {
            problem = exception.what();
          }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) findings.look("several threads get the same ids", problem);
}

Tokenizer open(const std::string& name, const std::string& folder) {
  if (folder.empty())
    fail(WEFT_INVALID_ARGUMENT,
         "the checks of tokenizers need files: give --model with a model folder whose tokenizer_config.json "
         "has "
         "\"tokenizer_class\": \"{}\"",
         name);
  const std::string path = folder + "/tokenizer_config.json";
  const std::string named =
      parse_json(read_file(path, 1 << 24), path).value("tokenizer_class", std::string());
  if (named != name)
    fail(WEFT_INVALID_ARGUMENT, "{} has the tokenizer_class \"{}\", must have \"{}\"", path, printable(named),
         name);
  return Tokenizer::open(folder);
}

}  // namespace

void check_tokenizer(const std::string& name, const std::string& folder, const Tell& tell) {
  Findings findings;
  try {
    const Tokenizer tokenizer = open(name, folder);
    const std::vector<Encoded> encoded = encode_all(tokenizer, findings);
    for (const Encoded& one : encoded) check_text(tokenizer, one, findings);
    check_spellings(tokenizer, findings);
    if (!encoded.empty()) check_pair(tokenizer, tokenizer.decode(encoded.back().ids), findings);
    check_threads(tokenizer, encoded, findings);
    const bool same = Tokenizer::open(folder).digest() == tokenizer.digest();
    findings.look("the same files have the same digest",
                  same ? "" : "it is another one when they are opened again");
    findings.look("runs to its end", "");
  } catch (const Error& error) {
    if (findings.checks().empty()) throw;
    findings.look("runs to its end", error.what());
  }
  for (const Check& check : findings.checks()) tell(check);
}

}  // namespace weft::contract
