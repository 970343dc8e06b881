// Templates against what transformers renders of them, and errors that say what is wrong.
#include "jinja/template.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "support/expect_error.hpp"

namespace weft::jinja {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

Json rendered_by_transformers() {
  std::ifstream file(fs::path(WEFT_CHAT_TEMPLATES) / "rendered.json");
  return Json::parse(file);
}

std::map<std::string, Template> templates() {
  std::map<std::string, Template> found;
  for (const auto& entry : fs::directory_iterator(WEFT_CHAT_TEMPLATES)) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    found.emplace(entry.path().stem(), Template(text));
  }
  return found;
}

std::string render(const std::string& text, const Json& variables = Json::object()) {
  return Template(text).render(*value_of(variables).dict()).text.bytes();
}

// Renders as transformers did, or refuses if that did.
void expect_same(const Json& expected, const std::function<std::string()>& rendering,
                 const std::string& what) {
  try {
    const std::string text = rendering();
    EXPECT_EQ(text, expected.value("text", "(refused)")) << what;
  } catch (const Error& error) {
    EXPECT_TRUE(expected.contains("refused")) << what << ": " << error.what();
  }
}

TEST(Template, WritesWhatTransformersWritesOfChats) {
  const auto known = templates();
  int count = 0;
  const Json expected = rendered_by_transformers();
  for (const Json& chat : expected.at("chats")) {
    const Json variables = {{"messages", chat.at("messages")},
                            {"tools", chat.at("tools")},
                            {"documents", nullptr},
                            {"add_generation_prompt", chat.at("prompt")},
                            {"bos_token", "<s>"},
                            {"eos_token", "</s>"}};
    const Template& of = known.at(chat.at("template"));
    expect_same(
        chat, [&] { return of.render(*value_of(variables).dict()).text.bytes(); }, chat.dump());
    ++count;
  }
  EXPECT_GT(count, 200);
}

TEST(Template, EvaluatesAsJinjaDoes) {
  const Json expected = rendered_by_transformers();
  int count = 0;
  for (const Json& snippet : expected.at("snippets")) {
    const std::string text = snippet.at("template");
    expect_same(
        snippet, [&] { return render(text, expected.at("values")); }, text);
    ++count;
  }
  EXPECT_GT(count, 35);
}

TEST(Template, KnowsWhatGenerationBlocksWrote) {
  const Template blocks = std::move(templates().at("blocks"));
  EXPECT_TRUE(blocks.marks_generation());
  const Json expected = rendered_by_transformers();
  for (const Json& of : expected.at("generated")) {
    const Json variables = {{"messages", of.at("messages")}, {"eos_token", "</s>"}};
    const Rendered rendered = blocks.render(*value_of(variables).dict());
    std::vector<std::string> texts;
    for (const auto& [begin, end] : rendered.generated)
      texts.push_back(rendered.text.bytes().substr(begin, end - begin));
    EXPECT_EQ(Json(texts), of.at("texts"));
  }
  EXPECT_FALSE(Template("{{ generation }}{# endgeneration #}").marks_generation());
}

// Returns the origin of each byte as a digit.
std::string origins_of(const Text& text) {
  std::string origins;
  for (size_t i = 0; i < text.size(); ++i) origins += static_cast<char>('0' + text.origin(i));
  return origins;
}

TEST(Template, KnowsWhereEachByteComesFrom) {
  Dict variables;
  variables.set("a", Text("ab ", 1));
  variables.set("b", Text(" cd\n", 2));
  const auto origins = [&](const std::string& text) {
    const Text rendered = Template(text).render(variables).text;
    return rendered.bytes() + "|" + origins_of(rendered);
  };
  EXPECT_EQ(origins("x{{ a }}y{{ b.strip() }}"), "xab ycd|0111022");
  EXPECT_EQ(origins("{{ (a + '-' + b)|trim|upper }}"), "AB - CD|1110222");
  EXPECT_EQ(origins("{{ b[::-1] }}{{ a[1] }}"), "\ndc b|22221");
  EXPECT_EQ(origins("{{ a.replace('b', b|trim) }}"), "acd |1221");
  EXPECT_EQ(origins("{{ b|tojson }}"), "\" cd\\n\"|0222220");
  EXPECT_EQ(origins("{{ (a ~ 'x' ~ b).split('x')|join('+') }}"), "ab + cd\n|11102222");
  EXPECT_EQ(origins("{% set c %}<{{ a }}>{% endset %}{{ c }}"), "<ab >|01110");
}

TEST(Template, SaysWhichLineIsWrong) {
  EXPECT_ERROR(Template("a\n{% if x %}\nb"), WEFT_INVALID_ARGUMENT, "line 3", "the end", "endif");
  EXPECT_ERROR(Template("{% endfor %}"), WEFT_INVALID_ARGUMENT, "line 1", "endfor", "ends nothing");
  EXPECT_ERROR(Template("{% if x %}{% endfor %}"), WEFT_INVALID_ARGUMENT, "endfor", "ends nothing");
  EXPECT_ERROR(Template("\n\n{{ x"), WEFT_INVALID_ARGUMENT, "line 3", "{{ has no }}");
  EXPECT_ERROR(Template("{{ 'a }}"), WEFT_INVALID_ARGUMENT, "ends", "the string");
  EXPECT_ERROR(Template("{{ (1] }}"), WEFT_INVALID_ARGUMENT, "found ], but ) is due");
  EXPECT_ERROR(Template("{{ 1 + }}"), WEFT_INVALID_ARGUMENT, "found }}");
  EXPECT_ERROR(Template("{{ $x }}"), WEFT_INVALID_ARGUMENT, "\"$\"", "no token");
  EXPECT_ERROR(Template("{% break %}"), WEFT_INVALID_ARGUMENT, "no loop");
  EXPECT_ERROR(Template("{# open"), WEFT_INVALID_ARGUMENT, "{# has no #}");
  EXPECT_ERROR(Template("{% raw %} {% endfor %}"), WEFT_INVALID_ARGUMENT, "{% raw %} has no {% endraw %}");
  EXPECT_ERROR(Template("{{ 99999999999999999999 }}"), WEFT_INVALID_ARGUMENT, "too large");
}

TEST(Template, NamesWhatItDoesNotKnow) {
  EXPECT_ERROR(Template("\n{% include 'x' %}"), WEFT_UNIMPLEMENTED, "line 2", "{% include %}");
  EXPECT_ERROR(Template("{{ x|tojsn }}"), WEFT_UNIMPLEMENTED, "filter tojsn", "did you mean \"tojson\"?");
  EXPECT_ERROR(Template("{{ x is defind }}"), WEFT_UNIMPLEMENTED, "test defind", "\"defined\"");
  EXPECT_ERROR(render("{{ 'a'.center(3) }}"), WEFT_UNIMPLEMENTED, "center()");
  EXPECT_ERROR(render("{{ '\u00e9'.upper() }}"), WEFT_UNIMPLEMENTED, "ASCII");
  EXPECT_ERROR(render("{{ x|tojson(ensure_ascii=true) }}", {{"x", 1}}), WEFT_UNIMPLEMENTED, "ensure_ascii");
}

TEST(Template, SaysWhatWasUndefined) {
  EXPECT_ERROR(render("{{ a.b }}"), WEFT_INVALID_ARGUMENT, "\"a\" is undefined", "no b");
  EXPECT_ERROR(render("{{ now() }}"), WEFT_INVALID_ARGUMENT, "\"now\"", "undefined", "called");
  EXPECT_ERROR(render("{{ 'x' + a }}"), WEFT_INVALID_ARGUMENT, "\"a\"", "undefined", "~ joins");
  EXPECT_ERROR(render("{{ raise_exception('only\nusers') }}"), WEFT_INVALID_ARGUMENT, "only\\x0ausers");
  EXPECT_ERROR(render("{% macro f(a) %}{% endmacro %}{{ f(b=1) }}"), WEFT_INVALID_ARGUMENT, "f()",
               "parameter b");
}

TEST(Template, KeepsNumbersInTheirRange) {
  EXPECT_EQ(render("{{ 'abc'[::9223372036854775807] }}{{ 'abc'[::-9223372036854775807] }}"), "ac");
  EXPECT_EQ(render("{{ range(1, 9223372036854775807, 9223372036854775806)|list }}"), "[1]");
  EXPECT_ERROR(render("{{ -(0 - 9223372036854775807 - 1) }}"), WEFT_INVALID_ARGUMENT, "too large");
  EXPECT_ERROR(render("{{ [9223372036854775807, 1]|sum }}"), WEFT_INVALID_ARGUMENT, "too large");
  EXPECT_ERROR(render("{{ 1e300|int }}"), WEFT_INVALID_ARGUMENT, "too large");
  EXPECT_ERROR(render("{{ x }}", {{"x", uint64_t{1} << 63}}), WEFT_INVALID_ARGUMENT, "9223372036854775808");
}

TEST(Template, RefusesNumbersThatAreTooLarge) {
  EXPECT_ERROR(render("{{ range(1000000000) }}"), WEFT_INVALID_ARGUMENT, "range()");
  EXPECT_ERROR(render("{{ 3 ** 50 }}"), WEFT_INVALID_ARGUMENT, "too large");
}

TEST(Template, LetsANamespaceContainItself) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.own = ns %}{{ ns == ns }}"), "True");
}

}  // namespace
}  // namespace weft::jinja
