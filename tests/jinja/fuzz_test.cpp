// Damaged templates are refused or rendered; nothing else happens.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "jinja/template.hpp"
#include "weft/error.hpp"

namespace weft::jinja {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> sources() {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(WEFT_CHAT_TEMPLATES)) {
    if (entry.path().extension() != ".jinja" && entry.path().extension() != ".txt") continue;
    std::ifstream file(entry.path());
    found.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return found;
}

Dict variables() {
  const auto message = [](const char* role, const char* content) {
    Dict made;
    made.set("role", role);
    made.set("content", content);
    return Value(made);
  };
  Dict made;
  made.set("messages", List{message("user", " \xC3\xA9"), message("assistant", "\xFF bad")});
  made.set("x", int64_t{3});
  made.set("l", List{int64_t{1}, 2.5, "c"});
  made.set("s", "some text");
  made.set("d", *message("a", "b").dict());
  return made;
}

TEST(Template, SurvivesDamage) {
  std::mt19937 random(20261125);
  const auto below = [&](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  };
  const std::vector<std::string> all = sources();
  const Dict given = variables();
  const std::string pieces[] = {"{{", "}}", "{%",   "%}",  "-",    "(",   ")",     "[",    "]",
                                "|",  ".",  "'",    "if ", "for ", "in ", "endif", "set ", "loop",
                                "9",  ":",  "not ", "is ", "~",    "\n",  "\xFF"};
  int rendered = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = all[below(all.size())];
    const size_t begin = below(text.size()), size = std::min<size_t>(text.size() - begin, 20 + below(400));
    if (below(2) == 0) text = text.substr(begin, size);
    for (size_t change = below(4); change > 0 && !text.empty(); --change) {
      const size_t at = below(text.size());
      if (below(2) == 0)
        text.erase(at, 1 + below(6));
      else
        text.insert(at, pieces[below(std::size(pieces))]);
    }
    try {
      const Rendered made = Template(text).render(given);
      ASSERT_TRUE(made.text.empty() || made.text.origin(made.text.size() - 1) == 0);
      ++rendered;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(rendered, 200);
}

}  // namespace
}  // namespace weft::jinja
