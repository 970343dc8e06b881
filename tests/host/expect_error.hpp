// EXPECT_ERROR(statement, status, "part", "part"...): the statement throws weft::Error with this status and a
// text that has every part.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>
#include <weft/error.hpp>

namespace weft::testing {

template <typename Body>
void expect_error(Body&& body, weft_status status, const std::vector<std::string>& parts) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "the text lacks \"" << part << "\": " << error.what();
    }
  }
}

}  // namespace weft::testing

#define EXPECT_ERROR(statement, status, ...)                                  \
  do {                                                                        \
    SCOPED_TRACE(#statement);                                                 \
    ::weft::testing::expect_error([&] { statement; }, status, {__VA_ARGS__}); \
  } while (false)
