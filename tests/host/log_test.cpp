// WEFT_LOG. The log reads it once per process, so each case runs in a process of its own.
#include "host/log.hpp"

#include <gtest/gtest.h>
#include <weft/runtime.h>

#include <cstdlib>

#include "base/text.hpp"
#include "host/expect_error.hpp"

namespace weft::host {
namespace {

class LogLevel : public ::testing::Test {
 protected:
  LogLevel() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  ~LogLevel() override { unsetenv("WEFT_LOG"); }

  // Writes a line of each level and ends the process.
  [[noreturn]] static void write_all(const char* wanted) {
    setenv("WEFT_LOG", wanted, 1);
    const char* const names[] = {"<debug>", "<info>", "<warning>", "<error>"};
    for (uint32_t level : {WEFT_LOG_DEBUG, WEFT_LOG_INFO, WEFT_LOG_WARNING, WEFT_LOG_ERROR})
      log(level, "test", names[level]);
    std::exit(0);
  }
};

TEST_F(LogLevel, ShowsItsLevelAndThoseAbove) {
  const auto code = ::testing::ExitedWithCode(0);
  EXPECT_EXIT(write_all("debug"), code, "<debug>\n.*<info>\n.*<warning>\n.*<error>\n$");
  EXPECT_EXIT(write_all("info"), code, "^test: <info>\n.*<warning>\n.*<error>\n$");
  EXPECT_EXIT(write_all(""), code, "^test: <info>\n.*<warning>\n.*<error>\n$");
  EXPECT_EXIT(write_all("warning"), code, "^warning: test: <warning>\n.*<error>\n$");
  EXPECT_EXIT(write_all("error"), code, "^error: test: <error>\n$");
  EXPECT_EXIT(write_all("off"), code, "^$");
}

TEST_F(LogLevel, WarnsOfAnUnknownLevelAndShowsInfo) {
  EXPECT_EXIT(write_all("warn"), ::testing::ExitedWithCode(0),
              "^warning: environment variable WEFT_LOG is \"warn\", but must be one of debug, info, warning, "
              "error, off; this log shows info\n"
              "test: <info>\n.*<warning>\n.*<error>\n$");
}

TEST_F(LogLevel, RefusesAnUnknownLevelWhenARuntimeIsMade) {
  weft_error* error = weft_error_create();
  weft_runtime* runtime = nullptr;
  for (const char* wrong : {"loud", "INFO", "2", " info"}) {
    setenv("WEFT_LOG", wrong, 1);
    EXPECT_EQ(weft_runtime_create(WEFT_STR(""), &runtime, error), WEFT_INVALID_ARGUMENT) << wrong;
    EXPECT_NE(view(weft_error_text(error)).find("but must be one of debug, info, warning, error, off"),
              std::string_view::npos);
  }
  EXPECT_EQ(runtime, nullptr);
  for (const char* right : {"debug", "info", "warning", "error", "off", ""}) {
    setenv("WEFT_LOG", right, 1);
    EXPECT_NO_THROW(check_log_level()) << right;
  }
  weft_error_destroy(error);
}

}  // namespace
}  // namespace weft::host
