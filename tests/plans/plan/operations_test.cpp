// The declarations of operations, and their page in the documentation.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "invented_policy.hpp"
#include "operations/registry.hpp"
#include "plan/traffic.hpp"

namespace weft::plan::test {
namespace {

TEST(Operations, AreSortedAndDocumented) {
  std::string last;
  for (const Operation& operation : known_operations()) {
    EXPECT_LT(last, operation.id);
    last = operation.id;
    EXPECT_FALSE(operation.kinds.empty()) << operation.id;
    EXPECT_FALSE(operation.documentation.empty()) << operation.id;
    EXPECT_TRUE(std::is_sorted(
        operation.attributes.begin(), operation.attributes.end(),
        [](const AttributeRule& a, const AttributeRule& b) { return a.standard.key < b.standard.key; }))
        << operation.id;
    for (const AttributeRule& rule : operation.attributes)
      EXPECT_FALSE(rule.documentation.empty()) << operation.id << " " << rule.standard.key;
    for (const Claim& claim : operation.claims)
      EXPECT_TRUE(claim.key.empty() || std::any_of(operation.attributes.begin(), operation.attributes.end(),
                                                   [&](const AttributeRule& rule) {
                                                     return rule.standard.key == claim.key &&
                                                            rule.standard.kind == WEFT_KIND_BOOL;
                                                   }))
          << operation.id << " " << claim.key;
    for (const Transfer& transfer : operation.transfers)
      EXPECT_TRUE(transfer.key.empty() ||
                  std::any_of(operation.attributes.begin(), operation.attributes.end(),
                              [&](const AttributeRule& rule) {
                                const std::vector<std::string> values =
                                    rule.standard.kind == WEFT_KIND_BOOL
                                        ? std::vector<std::string>{"true", "false"}
                                        : rule.choices;
                                return rule.standard.key == transfer.key &&
                                       std::find(values.begin(), values.end(), transfer.value) !=
                                           values.end();
                              }))
          << operation.id << " " << transfer.key << " " << transfer.value;
  }
}

TEST(Operations, StandInTheDocumentationAsTheyAreDeclared) {
  std::ifstream file(WEFT_OPERATIONS_PAGE);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(operations_in_markdown()), std::string::npos)
      << WEFT_OPERATIONS_PAGE << " must contain\n"
      << operations_in_markdown();
}

}  // namespace
}  // namespace weft::plan::test
