// Random templates, rendered by transformers' Jinja and by Weft. A template that Jinja refuses may have a
// text here, because values that no chat has, such as a list times a list, are refused by one of the two
// alone; the other way round, Weft must say that it does not know something.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "jinja/template.hpp"
#include "support/oracle_python.hpp"
#include "support/seed.hpp"
#include "support/temporary_folder.hpp"
#include "weft/error.hpp"

namespace weft::jinja {
namespace {

using Json = nlohmann::ordered_json;

class JinjaParity : public test::RandomTest {};

TEST_F(JinjaParity, RandomTemplatesHaveTheSameText) {
  WEFT_NEEDS_ORACLE();
  const test::TemporaryFolder folder;
  const std::string file = folder.path() + "/rendered";
  const char* const full = std::getenv("WEFT_TEST_FULL");
  const bool is_full = full != nullptr && std::string(full) == "1";
  const std::string count = is_full ? "100000" : "3000";
  const std::string command =
      test::oracle_python() + " " WEFT_JINJA_PARITY " " + file + " " + count + " " + std::to_string(seed_);
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream lines(file);
  std::string line;
  std::getline(lines, line);
  const Value values = value_of(Json::parse(line));
  int same = 0, refused = 0, unknown = 0, unlike = 0;
  while (std::getline(lines, line) && unlike < 5) {
    const Json expected = Json::parse(line);
    const std::string text = expected.at("template");
    try {
      const std::string rendered = Template(text).render(*values.dict()).text.bytes();
      if (expected.contains("refused")) {
        ++refused;
      } else if (rendered == expected.at("text")) {
        ++same;
      } else {
        ++unlike;
        EXPECT_EQ(rendered, expected.at("text")) << text;
      }
    } catch (const Error& error) {
      if (expected.contains("refused")) {
        ++refused;
      } else if (error.status() == WEFT_UNIMPLEMENTED) {
        ++unknown;
      } else {
        ++unlike;
        ADD_FAILURE() << text << "\nis refused here: " << error.what()
                      << "\nJinja renders: " << expected.at("text");
      }
    }
  }
  std::printf("%d the same, %d refused by Jinja, %d unknown here\n", same, refused, unknown);
  EXPECT_GT(same, 5 * unknown);
}

}  // namespace
}  // namespace weft::jinja
