// Text, JSON lines and folders as token ids.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "data/text_fixture.hpp"
#include "support/expect_error.hpp"

namespace weft::data {
namespace {

TEST_F(Text, IsRefusedWithWhatIsWrong) {
  const auto in = [&](const char* name) { return folder_.path() + "/" + name; };
  EXPECT_ERROR(open(in("absent.txt")), WEFT_NOT_FOUND, "absent.txt", "data file");
  EXPECT_ERROR(open(in("*.log")), WEFT_NOT_FOUND, "*.log");
  EXPECT_ERROR(open(folder_.path()), WEFT_NOT_FOUND, "no text");
  EXPECT_ERROR(open(folder_.file("a.bin", "abcd")), WEFT_INVALID_ARGUMENT, "a.bin", "no text");
  EXPECT_ERROR(open(folder_.file("empty.txt", "")), WEFT_INVALID_ARGUMENT, "empty.txt", "no documents");
  EXPECT_ERROR(open(folder_.file("zero.txt", std::string("ab\0c", 4))), WEFT_INVALID_ARGUMENT, "zero.txt",
               "byte 2 is zero");
  for (const char* invalid : {"ab\xff", "ab\xc0\xaf", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\xe2\x82"})
    EXPECT_ERROR(open(folder_.file("latin.txt", invalid)), WEFT_INVALID_ARGUMENT, "latin.txt",
                 "byte 2 is not UTF-8");
  EXPECT_ERROR(open(folder_.file("short.txt", "ab"), 9), WEFT_INVALID_ARGUMENT, "4 tokens in 1 documents",
               "sample of 9");
  EXPECT_ERROR(open(folder_.file("a.txt", "abcdef"), 1), WEFT_INVALID_ARGUMENT, "--sequence-length");
  TextOptions options;
  options.vocabulary = 258;
  EXPECT_ERROR(open(in("a.txt"), 4, options), WEFT_INVALID_ARGUMENT, "test/tokenizer.json", "up to 258",
               "0 to 257");
  options = {.part = Part::kHeldOut};
  EXPECT_ERROR(open(in("a.txt"), 4, options), WEFT_INVALID_ARGUMENT, "--held-out");
  options = {.drop_long_documents = true};
  EXPECT_ERROR(open(in("a.txt"), 4, options), WEFT_INVALID_ARGUMENT, "1 documents", "longer");
}

TEST_F(Text, NamesFileAndLineOfWhatIsBroken) {
  const std::pair<const char*, const char*> broken[] = {
      {"{\"text\": ", "one array of objects"},
      {"[1, 2]", "an object"},
      {"{\"texts\": \"a\"}", "none of"},
      {"{\"text\": \"a\", \"prompt\": \"b\", \"completion\": \"c\"}", "several of"},
      {"{\"text\": 7}", "\"text\" is"},
      {"{\"prompt\": \"b\"}", "no \"completion\""},
      {"{\"text\": \"\xff\"}", "not valid JSON"},
      {"{\"messages\": []}", "empty"},
  };
  for (const auto& [line, says] : broken) {
    const std::string path =
        folder_.file("a.jsonl", std::string("{\"text\": \"abcdef\"}\n\n") + line + "\n{\"text\": \"g\"}\n");
    EXPECT_ERROR(open(path), WEFT_INVALID_ARGUMENT, "a.jsonl:3: ", says, "--skip-broken-lines");
    std::vector<std::string> notes;
    TextOptions options{.skip_broken_lines = true,
                        .note = [&](const std::string& note) { notes.push_back(note); }};
    EXPECT_EQ(open(path, 4, options)->size(), (8 + 3) / 4) << line;
    ASSERT_EQ(notes.size(), 1u) << line;
    EXPECT_NE(notes[0].find("1 broken line"), std::string::npos) << notes[0];
  }
}

TEST_F(Text, SaysThatNothingOfOneDocumentIsHeldOut) {
  std::vector<std::string> notes;
  int told = 0;
  // Of eight seeds some draw the only document, and then there is nothing to train on.
  for (int64_t seed = 0; seed < 8; ++seed) {
    TextOptions options{
        .held_out = 0.5, .part = Part::kTraining, .seed = seed, .note = [&](const std::string& note) {
          notes.push_back(note);
        }};
    const std::string path = folder_.file("a.txt", "abcdefgh");
    try {
      open(path, 4, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), WEFT_INVALID_ARGUMENT) << error.what();
      continue;
    }
    ASSERT_FALSE(notes.empty()) << seed;
    EXPECT_NE(notes.back().find("a.txt: nothing is held out"), std::string::npos) << notes.back();
    notes.clear();
    ++told;
  }
  EXPECT_GT(told, 0);
}

TEST_F(Text, PacksDocumentsWithPositionsThatBeginAgainAndLabelsThatCrossNoBorder) {
  folder_.file("b.txt", "xyz");
  folder_.file("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"\"}\n");
  fs::create_directory(folder_.path() + "/c");
  folder_.file("c/d.md", "mnopq");
  folder_.file("c/e.dat", "not read");
  TextOptions options;
  options.positions = true;
  const auto data = open(folder_.path(), 5, options);
  ASSERT_EQ(data->size(), 3);  // 4 + 5 + 7 tokens, of which the last is dropped
  const Batch batch = data->get({0, 1, 2});
  EXPECT_EQ(values(batch.at("input_ids")),
            (Ids{kBegin, 'a', 'b', kEnd, kBegin, 'x', 'y', 'z', kEnd, kBegin, 'm', 'n', 'o', 'p', 'q'}));
  EXPECT_EQ(values(batch.at("labels")),
            (Ids{-100, 'a', 'b', kEnd, -100, 'x', 'y', 'z', kEnd, -100, 'm', 'n', 'o', 'p', 'q'}));
  EXPECT_EQ(values(batch.at("position_ids")), (Ids{0, 1, 2, 3, 0, 0, 1, 2, 3, 0, 0, 1, 2, 3, 4}));
  EXPECT_FALSE(batch.has("attention_mask"));
  options.packing = Packing::kStream;
  const Batch stream = open(folder_.path(), 5, options)->get({0, 1, 2});
  EXPECT_EQ(values(stream.at("labels")), values(batch.at("input_ids")));
  EXPECT_FALSE(stream.has("position_ids"));
  EXPECT_ERROR(data->get({3}), WEFT_OUT_OF_RANGE, "no sample 3");
}

TEST_F(Text, PadsDocumentsOnTheSideOfTheTokenizer) {
  const std::string path = folder_.file("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"cdefgh\"}\n");
  TextOptions options{.packing = Packing::kNone};
  Batch batch = open(path, 6, options)->get({0, 1, 2});
  EXPECT_EQ(values(batch.at("input_ids")), joined({{kBegin, 'a', 'b', kEnd, kEnd, kEnd},
                                                   {kBegin, 'c', 'd', 'e', 'f', 'g'},
                                                   {'h', kEnd, kEnd, kEnd, kEnd, kEnd}}));
  EXPECT_EQ(values(batch.at("attention_mask")), (Ids{1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(values(batch.at("labels")[2]), (Ids{'h', kEnd, -100, -100, -100, -100}));
  encoder_.pads_left = true;
  options.positions = options.drop_long_documents = true;
  const auto left = open(path, 6, options);
  ASSERT_EQ(left->size(), 1);
  batch = left->get({0});
  EXPECT_EQ(values(batch.at("input_ids")), (Ids{kEnd, kEnd, kBegin, 'a', 'b', kEnd}));
  EXPECT_EQ(values(batch.at("labels")), (Ids{-100, -100, kBegin, 'a', 'b', kEnd}));
  EXPECT_EQ(values(batch.at("position_ids")), (Ids{0, 0, 0, 1, 2, 3}));
}

TEST_F(Text, HasNoPaddedSampleWithoutALabel) {
  const std::string path = folder_.file("a.jsonl", R"({"prompt": "abcdefgh", "completion": "i"})");
  TextOptions options{.packing = Packing::kNone};
  const auto data = open(path, 4, options);
  ASSERT_EQ(data->size(), 1);
  EXPECT_EQ(values(data->get({0}).at("labels")), (Ids{-100, 'i', kEnd, -100}));
  options.drop_long_documents = true;
  EXPECT_ERROR(open(path, 4, options), WEFT_INVALID_ARGUMENT, "1 documents", "longer");
  folder_.file("b.jsonl", "{\"text\": \"\"}\n");
  EXPECT_ERROR(open(folder_.path() + "/b.jsonl", 4, options), WEFT_INVALID_ARGUMENT, "no documents");
}

TEST_F(Text, HasNoPackedSampleWithoutALabel) {
  const std::string path = folder_.file("a.jsonl", R"({"prompt": "abcdefgh", "completion": "i"})"
                                                   "\n"
                                                   R"({"prompt": "jklmnopq", "completion": "r"})"
                                                   "\n"
                                                   R"({"text": "stu"})");
  std::vector<std::string> notes;
  TextOptions options{.note = [&](const std::string& note) { notes.push_back(note); }};
  for (const Packing packing : {Packing::kDocuments, Packing::kStream}) {
    options.packing = packing;
    notes.clear();
    const auto data = open(path, 4, options);
    // The two prompts fill four samples.
    ASSERT_EQ(data->size(), 2);
    const Batch batch = data->get({0, 1});
    EXPECT_EQ(values(batch.at("input_ids")), (Ids{'h', 'i', kEnd, kBegin, 'r', kEnd, kBegin, 's'}));
    const int64_t first = packing == Packing::kStream ? kBegin : -100;
    EXPECT_EQ(values(batch.at("labels")), (Ids{-100, 'i', kEnd, -100, 'r', kEnd, first, 's'}));
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_NE(notes[0].find("4 of 6 samples"), std::string::npos) << notes[0];
  }
  EXPECT_ERROR(open(folder_.file("b.jsonl", R"({"prompt": "abcdefgh", "completion": ""})"), 3),
               WEFT_INVALID_ARGUMENT, "no sample", "label");
  options.packing = Packing::kNone;
  notes.clear();
  EXPECT_EQ(open(path, 4, options)->size(), 3);
  ASSERT_EQ(notes.size(), 1u);
}

TEST_F(Text, IsCutIntoWindowsThatPredictEachTokenOnce) {
  fs::create_directory(folder_.path() + "/texts");
  folder_.file("texts/a.txt", "abcdefg");
  folder_.file("texts/b.jsonl",
               "\n{\"text\": \"\"}\n{\"text\": \"hi\"}\n"
               "{\"prompt\": \"abcdefgh\", \"completion\": \"i\"}\n");
  folder_.file("c.md", "j");
  encoder_.pads_left = true;
  const auto open_all = [&](std::optional<double> weight) {
    const std::vector<TextSource> sources = {{folder_.path() + "/texts", weight},
                                             {folder_.path() + "/*.md", {}}};
    return open_encoded_documents(sources, encoder_, {.sequence_length = 4});
  };
  EXPECT_ERROR(open_all(0.5), WEFT_INVALID_ARGUMENT, "weight");
  const auto documents = open_all({});
  EXPECT_EQ(documents->documents(), 4);
  ASSERT_EQ(documents->size(), 3 + 1 + 2 + 1);  // the windows of a prompt alone have no label
  const Batch batch = documents->get({0, 1, 2, 3, 4, 5, 6});
  EXPECT_EQ(values(batch.at("input_ids")), joined({{kBegin, 'a', 'b', 'c'},
                                                   {'c', 'd', 'e', 'f'},
                                                   {'f', 'g', kEnd, kEnd},
                                                   {kBegin, 'h', 'i', kEnd},
                                                   {'f', 'g', 'h', 'i'},
                                                   {'i', kEnd, kEnd, kEnd},
                                                   {kBegin, 'j', kEnd, kEnd}}));
  EXPECT_EQ(values(batch.at("labels")), joined({{-100, 'a', 'b', 'c'},
                                                {-100, 'd', 'e', 'f'},
                                                {-100, 'g', kEnd, -100},
                                                {-100, 'h', 'i', kEnd},
                                                {-100, -100, -100, 'i'},
                                                {-100, kEnd, -100, -100},
                                                {-100, 'j', kEnd, -100}}));
  EXPECT_FALSE(batch.has("attention_mask"));
  Ids of, tokens;
  for (int64_t window = 0; window < documents->size(); ++window) {
    of.push_back(documents->document(window));
    tokens.push_back(documents->tokens(window));
  }
  EXPECT_EQ(of, (Ids{0, 0, 0, 1, 2, 2, 3}));
  EXPECT_EQ(tokens, (Ids{4, 4, 3, 4, 4, 2, 3}));
  const std::vector<DocumentPlace> places = documents->places();
  ASSERT_EQ(places.size(), 4u);
  const std::pair<const char*, int64_t> expected[] = {
      {"/texts/a.txt", 0}, {"/texts/b.jsonl", 3}, {"/texts/b.jsonl", 4}, {"/c.md", 0}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(places[i].file, folder_.path() + expected[i].first);
    EXPECT_EQ(places[i].line, expected[i].second);
  }
}

// Files of JSON lines are read in pieces.
TEST_F(Text, KnowsTheLineOfEachDocumentOfALongFile) {
  std::string lines;
  for (int i = 0; i < 3000; ++i)
    lines += i % 3 == 0 ? std::string("\n") : fmt::format("{{\"text\": \"{}\"}}\n", std::string(400, 'a'));
  const auto documents =
      open_encoded_documents({{folder_.file("a.jsonl", lines), {}}}, encoder_, {.sequence_length = 512});
  const std::vector<DocumentPlace> places = documents->places();
  ASSERT_EQ(places.size(), 2000u);
  for (int64_t i = 0; i < 2000; ++i) ASSERT_EQ(places[static_cast<size_t>(i)].line, i / 2 * 3 + i % 2 + 2);
}

TEST_F(Text, HasLabelsOfTheCompletionAloneAfterAPrompt) {
  // The id of two line breaks reaches from the prompt into the completion, so it belongs to the completion.
  const std::string path = folder_.file("a.jsonl", R"({"prompt": "ab\n", "completion": "\ncd"})"
                                                   "\n"
                                                   R"({"prompt": "e", "completion": "f"})");
  const Batch batch = open(path, 5, {})->get({0, 1});
  EXPECT_EQ(values(batch.at("input_ids")), (Ids{kBegin, 'a', 'b', kPair, 'c', 'd', kEnd, kBegin, 'e', 'f'}));
  EXPECT_EQ(values(batch.at("labels")), (Ids{-100, -100, -100, kPair, 'c', 'd', kEnd, -100, -100, 'f'}));
  TextOptions options;
  options.labels = false;
  EXPECT_ERROR(open(path, 5, options), WEFT_INVALID_ARGUMENT, "prompts", "messages", "--objective");
}

TEST_F(Text, IsDividedOnlyWhereThisChangesNoId) {
  std::string text;
  for (int i = 0; text.size() < 1'500'000; ++i)
    text += fmt::format("line {} ä\n{}", i, i % 3 == 0 ? "\n" : "");
  const std::string path = folder_.file("a.txt", text);
  EXPECT_EQ(all_ids(path), joined({{kBegin}, encode_pairs(text), {kEnd}}));
  const TextFiles files = find_text_files(path);
  EXPECT_GT(DocumentEncoder(files, encoder_, false).pieces_of(0, text).size(), 4u);
  encoder_.encode = [](std::string_view part) { return joined({{kPair}, encode_pairs(part)}); };
  EXPECT_EQ(DocumentEncoder(files, encoder_, false).pieces_of(0, text).size(), 1u);
}

TEST_F(Text, IsTokenizedOnceAndAgainAfterAChange) {
  int calls = 0;
  encoder_.encode = [&calls](std::string_view text) {
    ++calls;
    return encode_pairs(text);
  };
  const std::string path = folder_.file("a.txt", "abcdef");
  const auto tokenizes = [&] {
    calls = 0;
    open(path);
    return calls > 0;
  };
  EXPECT_TRUE(tokenizes());
  EXPECT_FALSE(tokenizes());
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::hours(1));
  EXPECT_FALSE(tokenizes()) << "the content is the same";
  folder_.file("a.txt", "abcdeg");
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::hours(2));
  EXPECT_TRUE(tokenizes());
  EXPECT_EQ(all_ids(path), joined({{kBegin}, encode_pairs("abcdeg"), {kEnd}}));
  const auto size = fs::file_size(cache_file());
  for (uintmax_t at : {uintmax_t{3}, uintmax_t{20}, uintmax_t{70}, size - 9}) {
    std::fstream file(cache_file(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    file.close();
    EXPECT_TRUE(tokenizes()) << "damaged at " << at;
  }
  fs::resize_file(cache_file(), size - 8);
  EXPECT_TRUE(tokenizes());
  const std::string left = cache_file().string() + ".making-1";
  std::ofstream(left) << "of a killed process";
  fs::remove(cache_file());
  EXPECT_TRUE(tokenizes());
  EXPECT_FALSE(fs::exists(left));
  encoder_.digest = "another";
  EXPECT_TRUE(tokenizes());
}

TEST_F(Text, IsTokenizedByOneOfSeveralProcesses) {
  const std::string path = folder_.file("a.jsonl", "{\"text\": \"abcdefgh\"}\n");
  const std::string bad = folder_.file("b.jsonl", "{\"text\": 7}\n");
  const std::string started = folder_.file("started", ""), encoded = folder_.file("encoded", "");
  const auto add_to = [](const std::string& log) { std::ofstream(log, std::ios::app) << 'x'; };
  encoder_.encode = [&](std::string_view text) {
    while (fs::file_size(started) < 4) std::this_thread::yield();
    add_to(encoded);
    return encode_pairs(text);
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      int code = 1;
      add_to(started);
      try {
        code = open(path)->size() == 2 ? 0 : 2;
      } catch (const std::exception&) {
      }
      ::_exit(code);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(fs::file_size(encoded), 1u);
  EXPECT_ERROR(open(bad), WEFT_INVALID_ARGUMENT, "b.jsonl:1");
  EXPECT_ERROR(open(bad), WEFT_INVALID_ARGUMENT, "b.jsonl:1");
}

TEST_F(Text, HoldsOutTheSameDocumentsInEveryPart) {
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += fmt::format("{{\"text\": \"{:04}\"}}\n", i);
  const std::string path = folder_.file("a.jsonl", lines);
  const auto documents = [&](Part part, int64_t seed = 1) {
    std::multiset<Ids> found;
    TextOptions options{.packing = Packing::kNone, .held_out = 0.25, .part = part, .seed = seed};
    const auto data = open(path, 6, options);
    for (int64_t i = 0; i < data->size(); ++i) found.insert(values(data->get({i}).at("input_ids")));
    return found;
  };
  const auto training = documents(Part::kTraining), held_out = documents(Part::kHeldOut);
  EXPECT_NEAR(static_cast<double>(held_out.size()), 100, 30);
  auto both = training;
  both.insert(held_out.begin(), held_out.end());
  EXPECT_EQ(both, documents(Part::kAll));
  EXPECT_NE(held_out, documents(Part::kHeldOut, 2));
  // More documents leave those before in their parts.
  folder_.file("a.jsonl", lines + lines);
  const auto longer = documents(Part::kHeldOut);
  EXPECT_TRUE(std::includes(longer.begin(), longer.end(), held_out.begin(), held_out.end()));
}

TEST_F(Text, MixesSourcesByWeightAndDrawsOtherSamplesInEachEpoch) {
  std::string many, few;
  for (int i = 0; i < 90; ++i) many += fmt::format("{{\"text\": \"a{:03}\"}}\n", i);
  for (int i = 0; i < 10; ++i) few += fmt::format("{{\"text\": \"b{:03}\"}}\n", i);
  const std::string a = folder_.file("a.jsonl", many), b = folder_.file("b.jsonl", few);
  TextOptions options{.sequence_length = 6, .seed = 7};
  const auto both = open_encoded_text({{a, {}}, {b, {}}}, encoder_, options);
  EXPECT_EQ(both->size(), 100);
  EXPECT_EQ(values(both->get({90}).at("input_ids")), (Ids{kBegin, 'b', '0', '0', '0', kEnd}));
  EXPECT_ERROR(open_encoded_text({{a, 1.0}, {b, {}}}, encoder_, options), WEFT_INVALID_ARGUMENT, "weight");
  EXPECT_ERROR(open_encoded_text({{a, 1.0}, {b, 0.0}}, encoder_, options), WEFT_INVALID_ARGUMENT,
               "weight is 0");
  const auto mixed = open_encoded_text({{a, 3.0}, {b, 1.0}}, encoder_, options);
  EXPECT_EQ(mixed->size(), 100);
  std::map<Ids, int> counts;
  for (int64_t epoch = 0; epoch < 6; ++epoch) {
    int of_a = 0;
    for (int64_t i = 0; i < 100; ++i) {
      const Ids ids = values(mixed->get_in_epoch({i}, epoch).at("input_ids"));
      of_a += ids[1] == 'a';
      ++counts[ids];
      if (i == 49) {
        EXPECT_NEAR(of_a, 37.5, 1);
      }
    }
    EXPECT_EQ(of_a, 75);
  }
  // 450 samples of 90, 150 of 10: every sample equally often.
  EXPECT_EQ(counts.size(), 100u);
  for (const auto& [ids, count] : counts) EXPECT_EQ(count, ids[1] == 'a' ? 5 : 15);
  const auto again = open_encoded_text({{a, 3.0}, {b, 1.0}}, encoder_, options);
  EXPECT_TRUE(
      again->get_in_epoch({5, 80}, 3).at("labels").equal(mixed->get_in_epoch({5, 80}, 3).at("labels")));
}

}  // namespace
}  // namespace weft::data
