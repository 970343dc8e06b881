#include "torch_file.hpp"

#include <cstring>
#include <map>

#include "checksum.hpp"
#include "pickle.hpp"
#include "support.hpp"
#include "zip.hpp"

namespace weft::hugging_face::test {
namespace {

// Pickle pieces, protocol 2.
const std::string kStart = "\x80\x02", kRebuild = "ctorch._utils\n_rebuild_tensor_v2\n",
                  kDict = "ccollections\nOrderedDict\n)R";

std::string text(const std::string& value) {
  const auto size = static_cast<uint32_t>(value.size());
  return "X" + std::string(reinterpret_cast<const char*>(&size), 4) + value;
}

std::string number(int64_t value) {
  return "\x8a\x08" + std::string(reinterpret_cast<const char*>(&value), 8);
}

std::string numbers(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (int64_t value : values) out += number(value);
  return out + "t";
}

std::string storage(const std::string& type, int64_t elements, const std::string& key = "0") {
  return "(" + text("storage") + "ctorch\n" + type + "\n" + text(key) + text("cpu") + number(elements) + "tQ";
}

std::string tensor(const std::string& storage, int64_t offset, const std::vector<int64_t>& shape,
                   const std::vector<int64_t>& strides) {
  return kRebuild + "(" + storage + number(offset) + numbers(shape) + numbers(strides) + "\x89" + kDict +
         "tR";
}

std::string state_dict(const std::string& name, const std::string& value) {
  return kStart + "}" + text(name) + value + "s.";
}

const std::string kTensor = tensor(storage("FloatStorage", 4), 0, {4}, {1});

class TorchFile : public testing::Test {
 protected:
  std::string archive(const std::string& pickle, const std::string& data = std::string(16, 'd'),
                      const std::string& byte_order = "little") {
    const FileLayout layout =
        plan_zip({{"archive/data.pkl", pickle}, {"archive/byteorder", byte_order}, {"archive/data/0", data}});
    std::string bytes(layout.size, '\0');
    for (const auto& region : layout.regions) bytes.replace(region.offset, region.bytes.size(), region.bytes);
    return bytes;
  }
  void expect_refused(weft_status status, std::vector<std::string> parts, const std::string& bytes) {
    const std::string path = folder_ / "pytorch_model.bin";
    write_file(path, bytes);
    parts.push_back(path);
    expect_error(status, parts, [&] { CheckpointReader{path}; });
  }

  TemporaryFolder folder_{TemporaryFolder::kInMemory};
};

TEST_F(TorchFile, RefusesEveryGlobalButThoseOfTensors) {
  expect_refused(WEFT_PERMISSION_DENIED, {"\"os.system\"", "nothing was"},
                 archive(kStart + "cos\nsystem\n(" + text("touch " + (folder_ / "run")) + "tR."));
  expect_refused(WEFT_PERMISSION_DENIED, {"\"builtins.eval\""},
                 archive("\x80\x04" + text("builtins") + text("eval") + "\x93."));
  expect_refused(WEFT_PERMISSION_DENIED, {"\"torch.load\""}, archive(state_dict("a", "ctorch\nload\n)R")));
  expect_refused(WEFT_PERMISSION_DENIED, {"\"collections.Counter\""},
                 archive(kStart + "ccollections\nCounter\n)R."));
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(TorchFile, RefusesOpcodesThatTensorsDoNotNeed) {
  for (const std::string opcode :
       {"i", "o", "\x81", "\x92", "S'x'\n", "p0\n", "P1\n", "\x82\x01", "\x8f", "B", "\x98"}) {
    expect_refused(WEFT_DATA_LOSS, {"opcode", "tensors need"}, archive(kStart + "})" + opcode + "."));
  }
}

TEST_F(TorchFile, RefusesStateDictsThatHoldSomethingElse) {
  expect_refused(WEFT_DATA_LOSS, {"\"epoch\"", "an int", "a tensor"}, archive(state_dict("epoch", "K\x03")));
  expect_refused(WEFT_DATA_LOSS, {"\"model\"", "a dict"},
                 archive(state_dict("model", state_dict("a", kTensor).substr(2, 0) + "}")));
  expect_refused(WEFT_DATA_LOSS, {"a list", "a dict"}, archive(kStart + "]."));
  expect_refused(WEFT_DATA_LOSS, {"name is", "an int"}, archive(kStart + "}K\x01" + kTensor + "s."));
  expect_refused(WEFT_DATA_LOSS, {"\"a\"", "twice"},
                 archive(kStart + "}(" + text("a") + kTensor + text("a") + kTensor + "u."));
}

TEST_F(TorchFile, RefusesTensorsThatLeaveTheirStorage) {
  const auto with = [&](const std::string& value) { return archive(state_dict("a", value)); };
  const std::string four = storage("FloatStorage", 4);
  expect_refused(WEFT_DATA_LOSS, {"\"a\"", "[5]", "storage of 4"}, with(tensor(four, 0, {5}, {1})));
  expect_refused(WEFT_DATA_LOSS, {"\"a\"", "offset 1"}, with(tensor(four, 1, {4}, {1})));
  expect_refused(WEFT_DATA_LOSS, {"\"a\"", "strides [9]"}, with(tensor(four, 0, {2}, {9})));
  expect_refused(WEFT_DATA_LOSS, {"\"a\""}, with(tensor(four, 0, {2, 2}, {INT64_MAX, INT64_MAX})));
  expect_refused(WEFT_DATA_LOSS, {"\"a\""}, with(tensor(four, INT64_MAX, {1}, {1})));
  expect_refused(WEFT_DATA_LOSS, {"\"a\""}, with(tensor(four, INT64_MAX, {0}, {1})));
  expect_refused(WEFT_DATA_LOSS, {"strides is -1", "negative"}, with(tensor(four, 0, {2}, {-1})));
  expect_refused(WEFT_DATA_LOSS, {"shape is -2", "negative"}, with(tensor(four, 0, {-2}, {1})));
  expect_refused(WEFT_DATA_LOSS, {"shape [2] with strides [1, 1]"}, with(tensor(four, 0, {2}, {1, 1})));
  expect_refused(WEFT_DATA_LOSS, {"has 16 bytes", "5 elements of F32"},
                 with(tensor(storage("FloatStorage", 5), 0, {1}, {1})));
  expect_refused(WEFT_DATA_LOSS, {"has 16 bytes"},
                 with(tensor(storage("FloatStorage", INT64_MAX), 0, {1}, {1})));
  expect_refused(WEFT_DATA_LOSS, {"storage \"7\"", "the archive"},
                 with(tensor(storage("FloatStorage", 4, "7"), 0, {1}, {1})));
  expect_refused(WEFT_UNIMPLEMENTED, {"9 dimensions"},
                 with(tensor(four, 0, std::vector<int64_t>(9, 1), std::vector<int64_t>(9, 1))));
  expect_refused(WEFT_UNIMPLEMENTED, {"\"torch.ComplexFloatStorage\""},
                 with(tensor(storage("ComplexFloatStorage", 1), 0, {1}, {1})));
}

TEST_F(TorchFile, RefusesPicklesThatAreBroken) {
  const std::string good = state_dict("a", kTensor);
  write_file(folder_ / "x.bin", archive(good));
  EXPECT_EQ(CheckpointReader(folder_ / "x.bin").num_tensors(), 1u);
  for (std::size_t size = 1; size < good.size(); ++size) {
    write_file(folder_ / "x.bin", archive(good.substr(0, size)));
    EXPECT_THROW(CheckpointReader{folder_ / "x.bin"}, Error) << size;
  }
  expect_refused(WEFT_DATA_LOSS, {"the stack"}, archive(kStart + "R."));
  expect_refused(WEFT_DATA_LOSS, {"no mark"}, archive(kStart + "u."));
  expect_refused(WEFT_DATA_LOSS, {"never remembered"}, archive(kStart + "h\x05."));
  expect_refused(WEFT_DATA_LOSS, {"protocol 1"}, archive("\x80\x01}."));
  expect_refused(WEFT_DATA_LOSS, {"18446744073709551615 bytes"},
                 archive(kStart + "\x8d" + std::string(8, '\xff')));
}

TEST_F(TorchFile, ReadsCyclesAndDeepNestingWithoutHarm) {
  // A list that holds itself, and ten thousand nested tuples, thrown away as attributes of the dict.
  std::string nested = ")";
  for (int i = 0; i < 10000; ++i) nested += "\x85";
  write_file(folder_ / "x.bin",
             archive(kStart + "}" + text("a") + kTensor + "s" + "]q\x01h\x01" + "a" + "b" + nested + "b."));
  EXPECT_EQ(CheckpointReader(folder_ / "x.bin").num_tensors(), 1u);
}

TEST_F(TorchFile, SurvivesFlippedBytes) {
  const std::string good = read_file(std::string(WEFT_TEST_DATA) + "/torch_save.bin");
  uint64_t refused = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    if (good[at] == 'Z') continue;  // padding
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (at % 2 == 0 ? 0x01 : 0x80));
    write_file(folder_ / "x.bin", bad);
    try {
      const CheckpointReader reader(folder_ / "x.bin");
      for (uint64_t i = 0; i < reader.num_tensors(); ++i) {
        if (size_bytes(reader.tensor(i)) < 100'000) read_whole(reader, i);
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500u);
}

// What a reader gives of a checkpoint: every name with its bytes.
std::map<std::string, std::string> contents(const std::string& path) {
  std::map<std::string, std::string> found;
  const CheckpointReader reader(path);
  for (uint64_t i = 0; i < reader.num_tensors(); ++i) found[reader.tensor(i).name] = read_whole(reader, i);
  return found;
}

TEST_F(TorchFile, NoFlippedByteChangesATensorSilently) {
  save(folder_ / "own.bin", varied_entries());
  for (const std::string& source : {std::string(WEFT_TEST_DATA) + "/torch_save.bin", folder_ / "own.bin"}) {
    const std::string good = read_file(source), path = folder_ / "x.bin";
    const auto wanted = contents(source);
    uint64_t by_checksum = 0;
    for (std::size_t at = 0; at < good.size(); ++at) {
      if (good[at] == 'Z') continue;  // padding
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
      write_file(path, bad);
      try {
        ASSERT_EQ(contents(path), wanted) << source << ", byte " << at;
      } catch (const Error& error) {
        by_checksum += std::string(error.what()).find("checksum") != std::string::npos ? 1 : 0;
      }
    }
    EXPECT_GT(by_checksum, 200u) << source;
  }
}

TEST_F(TorchFile, NamesTheRecordWhoseChecksumDiffers) {
  const std::string path = folder_ / "pytorch_model.bin";
  save(path, {entry("x", WEFT_F32, {100}), entry("y", WEFT_F32, {100})});
  std::string bytes = read_file(path);
  bytes[bytes.find("archive/data/1") + 100] ^= 1;
  write_file(path, bytes);
  const CheckpointReader reader(path);  // opens without reading the tensors
  EXPECT_EQ(read_whole(reader, 0), pattern(reader.tensor(0)));
  for (int again = 0; again < 2; ++again)
    expect_error(WEFT_DATA_LOSS, {path, "record \"archive/data/1\"", "400 bytes", "checksum", "damaged"},
                 [&] { read_whole(reader, 1); });
}

// torch.serialization.set_crc32_options(False) writes zeros.
TEST_F(TorchFile, ReadsArchivesWithoutChecksums) {
  const std::string path = folder_ / "pytorch_model.bin";
  const TensorEntry tensor = entry("x", WEFT_F32, {1001});
  save(path, {tensor});
  std::string bytes = read_file(path);
  bytes.replace(bytes.find("archive/data/0") - 30 + 14, 4, 4, '\0');
  write_file(path, bytes);
  expect_error(WEFT_DATA_LOSS, {"the directory", "but 0 in"}, [&] { CheckpointReader{path}; });
  bytes.replace(bytes.rfind("archive/data/0") - 46 + 16, 4, 4, '\0');
  write_file(path, bytes);
  expect_holds(path, {tensor});
}

TEST(Checksum, IsTheSameByMultiplicationAndByTables) {
  std::string bytes(5000, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  for (std::size_t size = 0; size < 700; ++size)
    for (const std::size_t begin : {std::size_t{0}, std::size_t{3}})
      ASSERT_EQ(crc32(as_bytes(bytes).subspan(begin, size)),
                crc32_by_tables(as_bytes(bytes).subspan(begin, size)))
          << size;
  EXPECT_EQ(crc32(as_bytes(bytes)), crc32_by_tables(as_bytes(bytes)));
}

TEST_F(TorchFile, RefusesPicklesThatGrow) {
  // A long name that is remembered once and copied by every two bytes that ask for it.
  const auto expect_refused_growth = [&](const std::string& pickle) {
    expect_refused(WEFT_DATA_LOSS, {"make values"}, archive(pickle));
  };
  const std::string name = std::string(100'000, 'x') + "Storage";
  std::string copies = "\x80\x04" + text("torch") + "q\x01" + text(name) + "q\x02";
  for (int i = 0; i < 1000; ++i) copies += "h\x01h\x02\x93";
  expect_refused_growth(copies + ".");
  // Shapes of many dimensions, copied into every tensor that is made of them.
  std::string shapes = kStart + storage("FloatStorage", 4) + "q\x01" + "(";
  for (int i = 0; i < 100'000; ++i) shapes += "K\x01";
  shapes += "tq\x02";
  for (int i = 0; i < 1000; ++i) shapes += kRebuild + "(h\x01K\x01h\x02h\x02\x89" + kDict + "tR";
  expect_refused(WEFT_UNIMPLEMENTED, {"100000 dimensions"}, archive(shapes + "."));
  // A key of a storage, copied into every tensor.
  expect_refused(WEFT_DATA_LOSS, {"key has 100000 bytes"},
                 archive(kStart + storage("FloatStorage", 4, std::string(100'000, '1')) + "."));
}

TEST_F(TorchFile, RefusesTruncatedArchives) {
  const std::string good = archive(state_dict("a", kTensor));
  for (std::size_t size = 0; size < good.size(); ++size) {
    write_file(folder_ / "x.bin", good.substr(0, size));
    EXPECT_THROW(CheckpointReader{folder_ / "x.bin"}, Error) << size;
  }
  expect_refused(WEFT_DATA_LOSS, {"no directory", "truncated"}, good.substr(0, good.size() - 1));
}

TEST_F(TorchFile, RefusesCompressedRecords) {
  std::string bytes = archive(state_dict("a", kTensor));
  const std::size_t central = bytes.find("PK\x01\x02");
  bytes[central + 10] = 8;  // method: deflate
  expect_refused(WEFT_UNIMPLEMENTED, {"\"archive/data.pkl\" is compressed (method 8)", "save it"}, bytes);
  bytes[central + 10] = 0;
  bytes[central + 8] |= 1;
  expect_refused(WEFT_UNIMPLEMENTED, {"is encrypted"}, bytes);
}

TEST_F(TorchFile, RefusesOtherArchivesAndOldFormats) {
  const std::string magic = "\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", frame = "\x95\x0d" + std::string(7, '\0');
  for (const std::string& before : {std::string("\x80\x02"), "\x80\x04" + frame})
    expect_refused(WEFT_UNIMPLEMENTED, {"before PyTorch 1.6", "torch.save(torch.load(path"}, before + magic);
  expect_refused(WEFT_DATA_LOSS, {"no file of weights"}, "\x80\x02}.");
  expect_refused(WEFT_UNIMPLEMENTED, {"byte order \"big\""}, archive(state_dict("a", kTensor), "", "big"));
  const FileLayout layout = plan_zip({{"mimetype", "text"}});
  std::string bytes(layout.size, '\0');
  for (const auto& region : layout.regions) bytes.replace(region.offset, region.bytes.size(), region.bytes);
  expect_refused(WEFT_DATA_LOSS, {"without data.pkl"}, bytes);
}

template <typename Number>
std::vector<Number> values(const CheckpointReader& reader, const std::string& name) {
  for (uint64_t i = 0; i < reader.num_tensors(); ++i) {
    if (reader.tensor(i).name != name) continue;
    const std::string bytes = read_whole(reader, i);
    std::vector<Number> out(bytes.size() / sizeof(Number));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST_F(TorchFile, ReadsWhatTorchSaved) {
  using Floats = std::vector<float>;
  const CheckpointReader reader(std::string(WEFT_TEST_DATA) + "/torch_save.bin");
  EXPECT_EQ(reader.num_tensors(), 15u);
  EXPECT_EQ(values<float>(reader, "whole"), (Floats{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(values<float>(reader, "tied"), values<float>(reader, "whole"));
  EXPECT_EQ(values<float>(reader, "transposed"), (Floats{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(values<float>(reader, "sliced"), (Floats{5, 6, 9, 10}));
  EXPECT_EQ(values<int16_t>(reader, "every_second"), (std::vector<int16_t>{1, 3, 5, 7, 9}));
  EXPECT_EQ(values<int64_t>(reader, "expanded"), (std::vector<int64_t>(6, 7)));
  EXPECT_EQ(values<float>(reader, "parameter"), (Floats{0.5f, -0.5f}));
  EXPECT_EQ(values<int32_t>(reader, "scalar"), (std::vector<int32_t>{3}));
  EXPECT_TRUE(values<float>(reader, "empty").empty());
  EXPECT_EQ(values<double>(reader, "double"), (std::vector<double>{1.5}));
  EXPECT_EQ(values<uint16_t>(reader, "half"), (std::vector<uint16_t>{0x3e00}));
  EXPECT_EQ(values<uint16_t>(reader, "bfloat"), (std::vector<uint16_t>{0x3fc0}));
  EXPECT_EQ(values<int8_t>(reader, "char"), (std::vector<int8_t>{-1}));
  EXPECT_EQ(values<uint8_t>(reader, "byte"), (std::vector<uint8_t>{255}));
  EXPECT_EQ(values<uint8_t>(reader, "bool"), (std::vector<uint8_t>{1, 0}));
}

TEST_F(TorchFile, ReadsBoxesOfStridedTensors) {
  const CheckpointReader reader(std::string(WEFT_TEST_DATA) + "/torch_save_protocol4.bin");
  for (uint64_t i = 0; i < reader.num_tensors(); ++i) {
    if (reader.tensor(i).name != "transposed") continue;
    const int64_t offset[] = {1, 0}, extent[] = {2, 3};
    std::vector<float> elements(6);
    reader.read(i, offset, extent, elements.data(), 24);
    EXPECT_EQ(elements, (std::vector<float>{1, 5, 9, 2, 6, 10}));
    return;
  }
  FAIL();
}

TEST_F(TorchFile, RoundTripsEveryElementType) {
  const std::string path = folder_ / "pytorch_model.bin";
  save(path, varied_entries(), {.metadata = {{"step", "12"}}});
  expect_holds(path, varied_entries());
  EXPECT_EQ(*CheckpointReader(path).metadata("step"), "12");
}

TEST_F(TorchFile, StoresTheChecksumOfEachRecord) {
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xCBF43926u);  // the check value of CRC-32/ISO-HDLC
  const std::string path = folder_ / "pytorch_model.bin";
  const TensorEntry tensor = entry("x", WEFT_F32, {1001});
  save(path, {tensor});
  const uint32_t wanted = crc32(as_bytes(pattern(tensor)));
  const std::string bytes = read_file(path);
  const std::size_t local = bytes.find("archive/data/0") - 30, central = bytes.rfind("archive/data/0") - 46;
  EXPECT_EQ(std::memcmp(&bytes[local + 14], &wanted, 4), 0);
  EXPECT_EQ(std::memcmp(&bytes[central + 16], &wanted, 4), 0);
}

TEST_F(TorchFile, WritesAndReadsArchivesBeyondFourGigabytes) {
  // The file is sparse: only what is known before the tensors is written.
  const std::vector<TensorEntry> entries = {entry("large", WEFT_F32, {5, 1 << 28}),
                                            entry("after", WEFT_U8, {4})};
  const std::string path = folder_ / "x.bin";
  const FileLayout layout = plan_torch_file(entries, {});
  {
    std::FILE* file = std::fopen(path.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    for (const auto& region : layout.regions) {
      std::fseek(file, static_cast<long>(region.offset), SEEK_SET);
      std::fwrite(region.bytes.data(), 1, region.bytes.size(), file);
    }
    std::fseek(file, static_cast<long>(layout.tensor_offsets[1]), SEEK_SET);
    std::fwrite("last", 1, 4, file);
    std::fclose(file);
  }
  ASSERT_GT(fs::file_size(path), uint64_t{5} << 30);
  const CheckpointReader reader(path);
  ASSERT_EQ(reader.num_tensors(), 2u);
  EXPECT_EQ(reader.tensor(0).shape, entries[0].shape);
  EXPECT_EQ(read_whole(reader, 1), "last");
}

}  // namespace
}  // namespace weft::hugging_face::test
