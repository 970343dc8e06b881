// The Python with torch and transformers that some tests compare with: WEFT_ORACLE_PYTHON names its
// interpreter (packaging/oracle-python makes one).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace weft::test {

// Returns the interpreter's path, or "" if there is none.
inline std::string oracle_python() {
  const char* path = std::getenv("WEFT_ORACLE_PYTHON");
  return path != nullptr ? path : "";
}

inline bool oracle_is_required() {
  const char* required = std::getenv("WEFT_REQUIRE_ORACLE");
  return required != nullptr && std::string_view(required) == "1";
}

}  // namespace weft::test

// Leaves the test if there is no oracle: skipped, or failed where WEFT_REQUIRE_ORACLE is 1.
#define WEFT_NEEDS_ORACLE()                                                                          \
  do {                                                                                               \
    if (!weft::test::oracle_python().empty()) break;                                                 \
    if (weft::test::oracle_is_required()) FAIL() << "WEFT_ORACLE_PYTHON names no Python oracle";     \
    GTEST_SKIP() << "needs the Python oracle (torch, transformers), which WEFT_ORACLE_PYTHON names"; \
  } while (false)
