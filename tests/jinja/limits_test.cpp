// Templates that would take for ever, fill the memory or exhaust the stack are refused with their line, and
// long conversations are not.
#include "jinja/limits.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "jinja/template.hpp"
#include "support/expect_error.hpp"

namespace weft::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::string times(size_t count, const std::string& text) {
  std::string made;
  for (size_t i = 0; i < count; ++i) made += text;
  return made;
}

std::string render(const std::string& text, const Json& variables = Json::object()) {
  return Template(text).render(*value_of(variables).dict()).text.bytes();
}

// Repeats a statement in a loop. The template begins in line 3.
std::string loop(const std::string& before, const std::string& statement, int count = 100'000) {
  return "\n\n" + before + "{% for i in range(" + std::to_string(count) + ") %}\n" + statement +
         "{% endfor %}";
}

TEST(TemplateLimits, RefuseADeepTemplateWithItsLine) {
  const std::vector<std::string> deep = {
      "1" + times(100'000, "+1"), "'x'" + times(100'000, "|trim"), "a" + times(100'000, ".a"),
      "a" + times(100'000, "[0]"), "a" + times(100'000, "()"), "a" + times(100'000, " or a"),
      "a" + times(100'000, " and a"), "1" + times(100'000, " is odd"), "1" + times(100'000, " if 1"),
      "'a'" + times(100'000, "~'a'"), times(100'000, "not ") + "1", times(100'000, "-") + "1",
      times(100'000, "[") + times(100'000, "]"),
      // Each bracket contains a long sum.
      times(60, "(1+") + "1" + times(60, times(20, "+1") + ")")};
  for (const std::string& text : deep)
    EXPECT_ERROR(Template("\n{{ " + text + " }}"), WEFT_INVALID_ARGUMENT, "line 2: ") << text.substr(0, 20);
  for (const std::string block : {"if 1", "for i in l", "with a=1", "set a", "filter trim", "generation"})
    EXPECT_ERROR(Template("\n" + times(10'000, "{% " + block + " %}")), WEFT_INVALID_ARGUMENT, "line 2: ");
  EXPECT_ERROR(Template("\n{{ " + std::string(1000, 'a') + " }}"), WEFT_INVALID_ARGUMENT, "line 2", "1000");
  EXPECT_ERROR(Template(times(1 << 20, "{}")), WEFT_INVALID_ARGUMENT, "2097152 bytes");
  EXPECT_ERROR(Template("{{ 1e999 }}"), WEFT_INVALID_ARGUMENT, "1e999", "too large");
  EXPECT_EQ(render("{{ 1" + times(400, "+1") + " }}"), "401");
  EXPECT_EQ(render("{{ ' x'" + times(400, "|trim") + " }}"), "x");
}

TEST(TemplateLimits, RefuseWhatIsDeepWhenItRuns) {
  const auto refused = [](const std::string& text) {
    EXPECT_ERROR(render(text), WEFT_RESOURCE_EXHAUSTED, "line 4", "each other") << text.substr(0, 200);
  };
  refused(loop("{% set ns = namespace(l=[]) %}", "{% set ns.l = [ns.l] %}"));
  refused(loop("{% set ns = namespace(l=[]) %}", "{% set ns.l = {'a': ns.l} %}"));
  refused(loop("{% set ns = namespace(l=1) %}", "{% set ns.l = {ns.l: 1} %}"));
  refused(loop("{% set ns = namespace(l=[1]) %}", "{% set ns.l = [ns.l.index] %}"));
  refused(loop("{% set ns = namespace(l={'a': 1}) %}", "{% set ns.l = {'a': ns.l.get} %}"));
  refused("\n\n{% macro f(x) %}\n{{ f(x) }}{% endmacro %}\n{{ f(1) }}");
  refused(
      "\n\n{% macro f(x) %}\n{{ x ~ g(x) }}{% endmacro %}{% macro g(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}");
  refused("\n\n\n{{ 'a'|map('map'" + times(1000, ",'map'") + ",'upper')|list }}");
}

TEST(TemplateLimits, RefuseWhatFillsTheMemory) {
  const auto refused = [](const std::string& text) {
    EXPECT_ERROR(render(text), WEFT_RESOURCE_EXHAUSTED, "the template: ", "MiB") << text.substr(0, 200);
  };
  const std::string doubles = "{% set ns = namespace(l=[1, 2, 3], t='aaa') %}";
  refused("{{ (['a'] * 99999)|join('x' * 99999)|length }}");
  refused(loop(doubles, "{% set ns.l = ns.l + ns.l %}"));
  refused(loop(doubles, "{% set ns.l = [ns.l, ns.l] %}", 60) + "{{ ns.l|tojson(indent=1000) }}");
  refused(loop(doubles, "{% set ns.l = ns.l * 1000 %}"));
  refused(loop(doubles, "{% set ns.t = ns.t ~ ns.t %}"));
  refused(loop(doubles, "{% set ns.t = ns.t.replace('a', ns.t) %}"));
  refused(loop(doubles, "{% set ns.t = ns.t|indent(ns.t, true) %}"));
  refused(loop(doubles, "{% set ns.t = (ns.t|list)|join(ns.t) %}"));
  refused("{{ 'a' * 9223372036854775807 }}");
  refused("{{ 'a' * 1000000000 }}");
  refused("{{ (('a' * 1000000)|list)|length }}");
  refused(loop("{% set t = 'a' * 1000 %}", "{{ t }}", 10'000));
  refused(loop("{% set t = 'a' * 10000 %}", "{% set ns = namespace(t=t ~ i) %}"));
  EXPECT_EQ(render("{{ '' * 9223372036854775807 }}{{ [] * 9223372036854775807 }}{{ 'a' * -1 }}"), "[]");
}

TEST(TemplateLimits, RefuseWhatTakesForEver) {
  const auto refused = [](const std::string& text) {
    EXPECT_ERROR(render(text), WEFT_RESOURCE_EXHAUSTED, "the template: ", "steps") << text.substr(0, 200);
  };
  refused(loop("", loop("", "x")));
  refused(loop("{% set ns = namespace(l=[1]) %}", "{% set ns.l = [ns.l, ns.l] %}", 60) + "{{ ns.l }}");
  refused(loop("{% set ns = namespace(s=[1], t=[1]) %}",
               "{% set ns.s = [ns.s, ns.s] %}{% set ns.t = [ns.t, ns.t] %}", 60) +
          "{{ ns.s == ns.t }}");
  refused(loop("{% set l = range(100000)|list %}", "{{ 'x' in l }}"));
  refused(loop("{% set l = range(100000)|list %}", "{% if l.index(99999) %}{% endif %}"));
  refused(loop("{% set l = range(100000)|list %}", "{% if l|unique %}{% endif %}"));
  refused(loop("{% set t = 'a' * 1000000 %}", "{% if t|length %}{% endif %}"));
  refused(loop("{% set t = 'a' * 1000000 %}{% set u = 'a' * 500000 ~ 'b' %}", "{% if u in t %}{% endif %}"));
  refused(
      loop("{% set t = 'a' * 1000000 %}{% set u = 'b' ~ 'a' * 500000 %}", "{% if t.rfind(u) %}{% endif %}"));
  refused(
      loop("{% set t = 'b' * 1000000 %}{% set u = 'a' * 500000 ~ 'b' %}", "{% if t.strip(u) %}{% endif %}"));
}

TEST(TemplateLimits, CountAllRenderingsOfADocument) {
  const Template half("{% for i in range(50000) %}{% set x = 1 %}{% endfor %}");
  Limits limits;
  half.render({}, limits);
  const auto render_often = [&] {
    for (int i = 0; i < 100; ++i) half.render({}, limits);
  };
  EXPECT_ERROR(render_often(), WEFT_RESOURCE_EXHAUSTED, "line 1", "steps");
  EXPECT_NO_THROW(half.render({}));
}

TEST(TemplateLimits, NameTheLineOfAnyError) {
  EXPECT_ERROR(render("\n{{ a.b }}"), WEFT_INVALID_ARGUMENT, "line 2", "\"a\"");
  EXPECT_ERROR(render("{% if 0 %}\n{% elif a.b %}{% endif %}"), WEFT_INVALID_ARGUMENT, "line 2");
  EXPECT_ERROR(render("{% if 1 %}\nx\n{% endif %}{{ a.b }}"), WEFT_INVALID_ARGUMENT, "line 3");
  EXPECT_ERROR(render("{% macro f() %}\n{{ a.b }}{% endmacro %}\n\n{{ f() }}"), WEFT_INVALID_ARGUMENT,
               "line 2");
  EXPECT_ERROR(render("{% macro f() %}\n{% endmacro %}\n{{ f() ~ a.b }}"), WEFT_INVALID_ARGUMENT, "line 3");
}

// A conversation of this length is rare, but its template has few lines.
TEST(TemplateLimits, LetLongConversationsThrough) {
  const std::string text =
      "{% for m in messages %}{% if m.role == 'user' and loop.index0 % 2 == 0 or m['role'] == 'assistant' %}"
      "{{ '<|im_start|>' + m.role + '\\n' + m.content|trim + '<|im_end|>' + '\\n' }}{% endif %}{% endfor %}";
  Json messages = Json::array();
  for (int i = 0; i < 20'000; ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"},
                        {"content", "Some words of turn " + std::to_string(i)}});
  EXPECT_GT(render(text, {{"messages", messages}}).size(), size_t{20'000} * 40);
  const std::string book(20'000'000, 'b');
  const Json long_messages = {{{"role", "user"}, {"content", book}},
                              {{"role", "assistant"}, {"content", "Yes."}}};
  EXPECT_GT(render(text, {{"messages", long_messages}}).size(), book.size());
}

}  // namespace
}  // namespace weft::jinja
