// EXPECT_ERROR(config.integer("n_embd"), WEFT_NOT_FOUND, "n_embd", "config.json") expects that the expression
// throws a weft::Error with this status whose text contains all of the pieces.
#pragma once

#include <gtest/gtest.h>
#include <weft/error.hpp>

#include <initializer_list>
#include <string>

namespace weft::test {

template <typename Action>
testing::AssertionResult throws_error(const Action& action, weft_status status,
                                      std::initializer_list<std::string> pieces) {
  try {
    action();
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.status() != status) {
      return testing::AssertionFailure()
             << "status " << error.status() << ", expected " << status << ": " << text;
    }
    for (const std::string& piece : pieces) {
      if (text.find(piece) == std::string::npos) {
        return testing::AssertionFailure() << "\"" << piece << "\" is missing in: " << text;
      }
    }
    return testing::AssertionSuccess();
  } catch (const std::exception& exception) {
    return testing::AssertionFailure() << "another exception: " << exception.what();
  }
  return testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace weft::test

#define EXPECT_ERROR(expression, status, ...) \
  EXPECT_TRUE(::weft::test::throws_error([&] { (void)(expression); }, status, {__VA_ARGS__})) << #expression
