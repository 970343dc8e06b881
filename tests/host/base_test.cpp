#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <ctime>
#include <thread>

#include "base/duration.hpp"
#include "base/environment.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/made_folder.hpp"
#include "base/rank_failure.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "host/expect_error.hpp"
#include "host/temporary.hpp"

namespace weft {
namespace {

using testing::ScopedEnvironment;
using testing::TemporaryFolder;

TEST(NearestName, IsNothingForANameThatIsFarFromAll) {
  EXPECT_FALSE(nearest("zebra", {"gemini", "torch_ddp"}));
  EXPECT_FALSE(nearest("", {"a"}));
  EXPECT_FALSE(nearest("ab", {"xy"}));
  EXPECT_EQ(did_you_mean("zebra", {"gemini"}), "");
}

TEST(NearestName, FindsSwappedMissingAndWrongLetters) {
  EXPECT_EQ(nearest("gemnii", {"torch_ddp", "gemini"}), "gemini");
  EXPECT_EQ(nearest("torchddp", {"torch_ddp", "torch_fsdp"}), "torch_ddp");
  EXPECT_EQ(nearest("TORCH_DDP", {"torch_ddp"}), "torch_ddp");
  EXPECT_EQ(did_you_mean("bucket_cap", {"bucket_cap_mb"}), "; did you mean \"bucket_cap_mb\"?");
}

TEST(EditDistance, CountsASwapOfNeighboursAsOne) {
  EXPECT_EQ(edit_distance("abcd", "abdc"), 1u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Duration, IsRoundedToTenthsOfASecondOrMilliseconds) {
  using namespace std::chrono_literals;
  EXPECT_EQ(seconds_text(1800s), "1800 s");
  EXPECT_EQ(seconds_text(31536000s), "31536000 s");
  EXPECT_EQ(seconds_text(11590ms), "11.6 s");
  EXPECT_EQ(seconds_text(1250ms), "1.25 s");
  EXPECT_EQ(seconds_text(9999600us), "10 s");
  EXPECT_EQ(seconds_text(300ms), "0.3 s");
  EXPECT_EQ(seconds_text(57ms), "0.057 s");
}

TEST(Duration, MustBeMoreThanZeroAndAtMostAYear) {
  EXPECT_EQ(milliseconds_of("--grace", 0.0001).count(), 1);
  EXPECT_EQ(milliseconds_of("--grace", 31536000).count(), 31536000000);
  for (const double wrong : {0., -1., 31536001., double{NAN}, double{INFINITY}})
    EXPECT_ERROR(milliseconds_of("--grace", wrong), WEFT_INVALID_ARGUMENT, "--grace is ", "more than 0",
                 "a year");
}

TEST(RankFailure, NamesTheRankOfOneForm) {
  EXPECT_EQ(culprit_of("rank 3 failed: no file"), 3);
  EXPECT_EQ(without_culprit("rank 3 failed: no file"), "no file");
  EXPECT_EQ(failure_of_rank(1, "rank 3 failed: no file"), "rank 3 failed: no file");
  for (const char* other :
       {"rank 3: no file", "rank failed: no file", "rank -1 failed: x", "a rank 3 failed: x"}) {
    EXPECT_EQ(culprit_of(other), std::nullopt) << other;
    EXPECT_EQ(failure_of_rank(1, other), std::string("rank 1 failed: ") + other);
  }
}

TEST(Text, SplitsAndTrims) {
  EXPECT_EQ(split("a::b:", ':'), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(trim(" \t a b \n"), "a b");
  EXPECT_EQ(trim("  "), "");
}

TEST(Text, NamesAreNoPaths) {
  for (const char* bad : {"", "..", ".hidden", "a/b", "a b", "a\nb"}) EXPECT_FALSE(is_plain_name(bad)) << bad;
  for (const char* good : {"torch_ddp", "com.example.x-1", "1.2.3+b"})
    EXPECT_TRUE(is_plain_name(good)) << good;
}

TEST(Text, PrintableHidesControlCharactersAndCuts) {
  EXPECT_EQ(printable("a\x1b[31m\n"), "a\\x1b[31m\\x0a");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

TEST(Environment, RefusesWhatIsNoIntegerOrFlag) {
  const ScopedEnvironment variable("WEFT_TEST_VALUE", "12x");
  EXPECT_ERROR(environment_integer("WEFT_TEST_VALUE"), WEFT_INVALID_ARGUMENT, "WEFT_TEST_VALUE", "12x");
  EXPECT_ERROR(environment_flag("WEFT_TEST_VALUE"), WEFT_INVALID_ARGUMENT, "WEFT_TEST_VALUE",
               "must be 1 or 0");
}

TEST(Environment, CountsEmptyAsUnset) {
  const ScopedEnvironment variable("WEFT_TEST_VALUE", "");
  EXPECT_FALSE(environment("WEFT_TEST_VALUE"));
  EXPECT_FALSE(environment_integer("WEFT_TEST_VALUE"));
  EXPECT_FALSE(environment_flag("WEFT_TEST_VALUE"));
  EXPECT_TRUE(environment_list("WEFT_TEST_VALUE").empty());
}

TEST(Environment, ReadsValues) {
  {
    const ScopedEnvironment variable("WEFT_TEST_VALUE", "-7");
    EXPECT_EQ(environment_integer("WEFT_TEST_VALUE"), -7);
  }
  const ScopedEnvironment variable("WEFT_TEST_VALUE", "1");
  EXPECT_TRUE(environment_flag("WEFT_TEST_VALUE"));
}

// The examples of FIPS 180-4 and its companion, and lengths around the block of 64 bytes (values by
// sha256sum).
TEST(Sha256, AgreesWithTheStandard) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha256_hex(std::string(55, 'a')),
            "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(sha256_hex(std::string(56, 'a')),
            "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  EXPECT_EQ(sha256_hex(std::string(64, 'a')),
            "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST(Sha256, DoesNotDependOnThePieces) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  Sha256 hash;
  for (size_t begin = 0, size = 1; begin < text.size(); begin += size, size = size % 97 + 1) {
    hash.update(text.data() + begin, std::min(size, text.size() - begin));
  }
  EXPECT_EQ(hash.finish(), sha256_hex(text));
  const TemporaryFolder folder;
  EXPECT_EQ(sha256_file(folder.write("a", text)), sha256_hex(text));
  EXPECT_ERROR(sha256_file(folder.path() / "b"), WEFT_NOT_FOUND, "b");
}

TEST(ReadFile, RefusesWhatIsNotThereTooLongOrNoFile) {
  const TemporaryFolder folder;
  EXPECT_ERROR(read_file(folder.path() / "none", 10), WEFT_NOT_FOUND, "none", "No such file");
  EXPECT_ERROR(read_file(folder.path(), 10), WEFT_INVALID_ARGUMENT, "regular file");
  EXPECT_ERROR(read_file(folder.write("long", "0123456789a"), 10), WEFT_INVALID_ARGUMENT, "has 11 bytes",
               "the 10");
  mkfifo((folder.path() / "pipe").c_str(), 0600);
  EXPECT_ERROR(read_file(folder.path() / "pipe", 10), WEFT_INVALID_ARGUMENT, "regular file");
  EXPECT_ERROR(
      read_file(folder.write("pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), 100),
      WEFT_DATA_LOSS, "pointer is a Git LFS pointer", "git lfs pull");
  EXPECT_EQ(read_file(folder.write("short", "0123456789"), 10), "0123456789");
}

TEST(WriteAll, SaysWhyADescriptorCannotBeWritten) {
  EXPECT_EQ(write_all(-1, "text"), EBADF);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  EXPECT_EQ(write_all(full, "text"), ENOSPC);
  EXPECT_EQ(write_all(full, ""), 0);
  close(full);
}

// As a terminal that another program has made non-blocking.
TEST(WriteAll, WaitsWhileANonBlockingPipeIsFull) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  std::string read_text;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t size = 0; (size = read(ends[0], buffer, sizeof(buffer))) > 0;)
      read_text.append(buffer, static_cast<size_t>(size));
  });
  EXPECT_EQ(write_all(ends[1], text), 0);
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_TRUE(read_text == text);
}

TEST(MadeFolder, RemovesWhatItMadeIfNothingComes) {
  const TemporaryFolder folder;
  EXPECT_ERROR(MadeFolder(folder.write("file", "") / "x"), WEFT_UNAVAILABLE, "cannot create ", "file/x");
  { const MadeFolder made(folder.path() / "a" / "b"); }
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a"));
  {
    const MadeFolder made(folder.path() / "a" / "b");
    folder.write("a/kept", "");
  }
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "a" / "kept"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a" / "b"));
}

TEST(Json, RefusesWhatNobodyMeans) {
  EXPECT_ERROR(parse_json("{\"a\": 1,", "x.json"), WEFT_INVALID_ARGUMENT, "x.json", "not valid JSON");
  EXPECT_ERROR(parse_json("{\"a\": 1, \"a\": 2}", "x.json"), WEFT_INVALID_ARGUMENT, "x.json",
               "\"a\" appears twice");
  EXPECT_ERROR(parse_json(std::string(100000, '['), "x.json"), WEFT_INVALID_ARGUMENT, "x.json",
               "nested deeper");
  EXPECT_ERROR(parse_json("{\"a\": \"\xff\"}", "x.json"), WEFT_INVALID_ARGUMENT, "x.json", "not valid JSON");
  EXPECT_ERROR(parse_json("", "x.json"), WEFT_INVALID_ARGUMENT, "x.json");
  EXPECT_EQ(parse_json("{\"a\": {\"b\": 1}, \"b\": [{\"a\": 2}]}", "x.json")["b"][0]["a"], 2);
}

TEST(Json, TakesTimeThatGrowsWithTheText) {
  std::string text = "{\"tensors\": {";
  for (int i = 0; i < 100'000; ++i)
    text += (i == 0 ? "\"t" : ", \"t") + std::to_string(i) + "\": {\"shape\": [1]}";
  const std::clock_t begin = std::clock();
  EXPECT_EQ(parse_json(text + "}}", "x.json").at("tensors").size(), 100'000u);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 5);
}

TEST(Json, IsLimited) {
  std::string text = "[0";
  for (int i = 0; i < 4'000'000; ++i) text += ",0";
  EXPECT_ERROR(parse_json(text + "]", "x.json"), WEFT_INVALID_ARGUMENT, "x.json: more than 4000000 values");
  EXPECT_ERROR(parse_json(std::string(65, '[') + std::string(65, ']'), "x.json"), WEFT_INVALID_ARGUMENT,
               "64 levels");
  parse_json(std::string(64, '[') + std::string(64, ']'), "x.json");
}

TEST(Json, GivesMembersOneByOne) {
  const auto members = [](const std::string& text) {
    std::vector<std::string> given;
    const nlohmann::json rest = parse_json_members(text, "x.json", "tensors",
                                                   [&](const std::string& name, const nlohmann::json& value) {
                                                     given.push_back(name + "=" + value.dump());
                                                   });
    given.push_back(rest.dump());
    return given;
  };
  using Given = std::vector<std::string>;
  EXPECT_EQ(
      members(R"({"a": {"tensors": {"x": 1}}, "tensors": {"z": {"s": [1, 2]}, "b": 3, "z": []}, "c": [4]})"),
      (Given{R"(z={"s":[1,2]})", "b=3", "z=[]", R"({"a":{"tensors":{"x":1}},"c":[4],"tensors":{}})"}));
  EXPECT_EQ(members(R"({"tensors": [1, {"x": 2}]})"), (Given{R"({"tensors":[1,{"x":2}]})"}));
  EXPECT_EQ(members(R"({"tensors": 7})"), (Given{R"({"tensors":7})"}));
  // More values than one text may have, but not in one member.
  std::string many = "{\"tensors\": {\"a\": 0";
  std::string member = "[0";
  for (int i = 0; i < 1'500'000; ++i) member += ",0";
  for (const char* name : {"b", "c", "d"}) many += std::string(", \"") + name + "\": " + member + "]";
  size_t count = 0;
  parse_json_members(many + "}}", "x.json", "tensors",
                     [&](const std::string&, const nlohmann::json& value) { count += value.size(); });
  EXPECT_EQ(count, 3u * 1'500'001 + 1);
}

TEST(Json, HasIntegersThatNobodyRounds) {
  const nlohmann::json object = parse_json(
      R"({"a": 3, "b": 1.5, "c": -1, "d": 18446744073709551615, "e": true, "f": [1, 2.0], "g": [1, 2]})",
      "x.json");
  EXPECT_EQ(integer_at(object, "a", "x.json"), 3);
  EXPECT_EQ(integer_at(object, "c", "x.json", -1), -1);
  EXPECT_ERROR(integer_at(object, "b", "x.json"), WEFT_DATA_LOSS, "x.json: \"b\" is 1.5", "integer",
               "least 0");
  for (const char* key : {"c", "d", "e", "f"})
    EXPECT_ERROR(integer_at(object, key, "x.json"), WEFT_DATA_LOSS, key, "an integer");
  EXPECT_EQ(integers_at(object, "g", "x.json"), (std::vector<int64_t>{1, 2}));
  EXPECT_ERROR(integers_at(object, "f", "x.json"), WEFT_DATA_LOSS, "\"f\" is 2.0");
}

}  // namespace
}  // namespace weft
