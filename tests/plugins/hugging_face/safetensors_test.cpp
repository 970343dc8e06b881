#include "safetensors.hpp"

#include "support.hpp"

namespace weft::hugging_face::test {
namespace {

class Safetensors : public testing::Test {
 protected:
  // Expects that a file of these bytes is refused with a text that names the file and has all `parts`.
  void expect_refused(weft_status status, std::vector<std::string> parts, const std::string& bytes) {
    const std::string path = folder_ / "model.safetensors";
    write_file(path, bytes);
    parts.push_back(path);
    expect_error(status, parts, [&] { CheckpointReader{path}; });
  }
  void expect_header_refused(weft_status status, const std::vector<std::string>& parts,
                             const std::string& header, std::size_t data_size = 8) {
    expect_refused(status, parts, safetensors_bytes(header, std::string(data_size, 'x')));
  }

  TemporaryFolder folder_{TemporaryFolder::kInMemory};
};

const std::string kGood = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

TEST_F(Safetensors, RefusesAnEmptyFile) {
  expect_refused(WEFT_DATA_LOSS, {"has 0 bytes", "truncated"}, "");
}

TEST_F(Safetensors, RefusesAFileShorterThanItsLengthField) {
  expect_refused(WEFT_DATA_LOSS, {"has 5 bytes", "truncated"}, "12345");
}

TEST_F(Safetensors, RefusesAHeaderBeyondTheFile) {
  const std::string whole = safetensors_bytes(kGood, "");
  expect_refused(WEFT_DATA_LOSS, {"header claims", "truncated"}, whole.substr(0, 20));
}

TEST_F(Safetensors, RefusesAHugeHeader) {
  std::string bytes = safetensors_bytes(kGood, "12345678");
  bytes[4] = '\x7f';
  expect_refused(WEFT_DATA_LOSS, {"header claims", "100000000"}, bytes);
  bytes[7] = '\xff';
  expect_refused(WEFT_DATA_LOSS, {"header claims", "100000000"}, bytes);
}

TEST_F(Safetensors, RefusesBadJson) {
  expect_header_refused(WEFT_DATA_LOSS, {"not valid JSON"}, R"({"a":{"dtype":)");
  expect_header_refused(WEFT_DATA_LOSS, {"not valid JSON"}, "{\"\xff\":1}");
  expect_header_refused(WEFT_DATA_LOSS, {"no JSON object"}, "[1,2]");
  expect_header_refused(WEFT_DATA_LOSS, {"nested"},
                        "{\"a\":" + std::string(100000, '[') + std::string(100000, ']') + "}");
}

TEST_F(Safetensors, RefusesAnUnknownElementType) {
  expect_header_refused(WEFT_UNIMPLEMENTED, {"\"a\"", "\"F8_E4M3\"", "BF16"},
                        R"({"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})");
}

TEST_F(Safetensors, RefusesASizeThatIsNotThatOfTheShape) {
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "[3] of F32 takes 12 bytes", "[0, 8] span 8"},
                        R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})");
}

TEST_F(Safetensors, RefusesNegativeAndOverflowingDimensions) {
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "shape has -2"},
                        R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})");
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "shape has 18446744073709551615"},
                        R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})");
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "shape has 2.5"},
                        R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})");
  expect_header_refused(
      WEFT_DATA_LOSS, {"\"a\"", "more than 2^63-1 bytes"},
      R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]}})");
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "more than 2^63-1 bytes"},
                        R"({"a":{"dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})");
}

TEST_F(Safetensors, RefusesMoreDimensionsThanWeftHas) {
  expect_header_refused(WEFT_UNIMPLEMENTED, {"\"a\"", "9 dimensions", "at most 8"},
                        R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,8],"data_offsets":[0,8]}})");
}

TEST_F(Safetensors, RefusesOffsetsBeyondTheFile) {
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "beyond the", "holds 7 bytes"}, kGood, 7);
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "a begin"},
                        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})");
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "a begin"},
                        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4,8]}})");
}

TEST_F(Safetensors, RefusesOverlapsNamingBothTensors) {
  expect_header_refused(WEFT_DATA_LOSS, {"\"b\"", "byte 4", "overlaps tensor \"a\"", "at byte 8"},
                        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                        R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                        12);
}

TEST_F(Safetensors, RefusesGapsAndBytesThatBelongToNoTensor) {
  expect_header_refused(WEFT_DATA_LOSS, {"bytes 8 to 12 before tensor \"b\""},
                        R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                        R"("b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}})",
                        20);
  expect_header_refused(WEFT_DATA_LOSS, {"at byte 8", "holds 9"}, kGood, 9);
}

TEST_F(Safetensors, RefusesDuplicateNames) {
  const std::string tensor = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  expect_header_refused(WEFT_DATA_LOSS, {"name \"a\" twice"}, "{" + tensor + "," + tensor + "}", 4);
  expect_header_refused(WEFT_DATA_LOSS, {"name \"dtype\" twice"},
                        R"({"a":{"dtype":"F32","dtype":"I32","shape":[1],"data_offsets":[0,4]}})", 4);
}

TEST_F(Safetensors, RefusesMetadataThatIsNoText) {
  expect_header_refused(WEFT_DATA_LOSS, {"__metadata__ \"n\""}, R"({"__metadata__":{"n":1}})", 0);
  expect_header_refused(WEFT_DATA_LOSS, {"__metadata__ is no"}, R"({"__metadata__":[]})", 0);
}

TEST_F(Safetensors, RefusesDescriptionsWithoutTheirFields) {
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "\"dtype\""},
                        R"({"a":{"shape":[2],"data_offsets":[0,8]}})");
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "\"shape\""},
                        R"({"a":{"dtype":"F32","data_offsets":[0,8]}})");
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "\"data_offsets\""},
                        R"({"a":{"dtype":"F32","shape":[2]}})");
  expect_header_refused(WEFT_DATA_LOSS, {"\"a\"", "no JSON object"}, R"({"a":3})");
}

TEST_F(Safetensors, ReadsWhatTheFormatAllows) {
  const std::string path = folder_ / "model.safetensors";
  write_file(path, safetensors_bytes(kGood + "   ", "abcdefgh"));
  const CheckpointReader reader(path);
  ASSERT_EQ(reader.num_tensors(), 1u);
  EXPECT_EQ(read_whole(reader, 0), "abcdefgh");
  EXPECT_EQ(reader.metadata("format"), nullptr);
  write_file(path, safetensors_bytes(R"({"__metadata__":{"k":"v"}})", ""));
  EXPECT_EQ(*CheckpointReader(path).metadata("k"), "v");
}

TEST_F(Safetensors, SurvivesEveryTruncationAndEveryFlippedHeaderByte) {
  const std::string path = folder_ / "model.safetensors";
  save(path, varied_entries());
  const std::string good = read_file(path);
  for (std::size_t size = 0; size < good.size(); size += size < 1500 ? 1 : 37) {
    write_file(path, good.substr(0, size));
    EXPECT_THROW(CheckpointReader{path}, Error) << size;
  }
  uint64_t refused = 0;
  for (std::size_t at = 0; at < 1000; ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x15);
    write_file(path, bad);
    try {
      CheckpointReader{path};  // a changed name is still valid
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 300u);
}

TEST_F(Safetensors, RoundTripsEveryElementType) {
  const std::string path = folder_ / "model.safetensors";
  save(path, varied_entries(), {.metadata = {{"step", "12"}}});
  expect_holds(path, varied_entries());
  const CheckpointReader reader(path);
  EXPECT_EQ(*reader.metadata("format"), "pt");
  EXPECT_EQ(*reader.metadata("step"), "12");
}

TEST_F(Safetensors, OrdersLikeTheSafetensorsLibrary) {
  // What safetensors 0.8 writes for these tensors: element types of large alignment first, then names.
  const std::vector<TensorEntry> entries = {entry("u8", WEFT_U8, {1}),   entry("b", WEFT_F32, {2}),
                                            entry("a", WEFT_F32, {1}),   entry("i64", WEFT_I64, {1}),
                                            entry("bf", WEFT_BF16, {1}), entry("f64", WEFT_F64, {1})};
  const FileLayout layout = plan_safetensors(entries, {});
  EXPECT_EQ(layout.regions[0].bytes.substr(8),
            R"({"__metadata__":{"format":"pt"},"i64":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
            R"("f64":{"dtype":"F64","shape":[1],"data_offsets":[8,16]},"a":{"dtype":"F32","shape":[1],)"
            R"("data_offsets":[16,20]},"b":{"dtype":"F32","shape":[2],"data_offsets":[20,28]},)"
            R"("bf":{"dtype":"BF16","shape":[1],"data_offsets":[28,30]},"u8":{"dtype":"U8","shape":[1],)"
            R"("data_offsets":[30,31]}}   )");
  EXPECT_EQ(layout.regions[0].bytes.size() % 8, 0u);
}

}  // namespace
}  // namespace weft::hugging_face::test
