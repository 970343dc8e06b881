// Schedules as text and as pictures.
#include "schedule/text.hpp"

#include <gtest/gtest.h>

#include "schedule/check.hpp"
#include "schedule/draw.hpp"
#include "schedule/make.hpp"
#include "support/expect_error.hpp"

namespace weft::test {

namespace {

using namespace pipeline;

constexpr const char* kTwoStages = "F0 F1 B0 B1\nF0 B0 F1 B1\n";
const Schedule kShape{2, 2, 1, Placement::loop, {}};

size_t count(const std::string& text, std::string_view piece) {
  size_t found = 0;
  for (size_t at = text.find(piece); at != text.npos; at = text.find(piece, at + 1)) ++found;
  return found;
}

TEST(ParseRows, RefusesWordsThatAreNoOperations) {
  for (const char* word : {"X0", "F", "F-1", "F0.", "F.0", "0", "F0x", "F4294967296", "f0"})
    EXPECT_ERROR(parse_rows(kShape, std::string("F0 B0 F1 B1; F0 ") + word, "scheduler_nodes"),
                 WEFT_INVALID_ARGUMENT, "scheduler_nodes", "\"" + std::string(word) + "\"",
                 "word 2 of stage 1", "F0 or F0.1");
}

TEST(ParseRows, RefusesWhatIsNoScheduleForTraining) {
  EXPECT_ERROR(parse_rows(kShape, "F0 F1 B0 B1", "scheduler_nodes"), WEFT_INVALID_ARGUMENT,
               "scheduler_nodes: it lists the operations of 1 stages, must list those of 2");
  EXPECT_ERROR(parse_rows(kShape, "F0 B0 F1 B1; F0 F1 B0 B1", "scheduler_nodes"), WEFT_INVALID_ARGUMENT,
               "scheduler_nodes: stages wait for each other");
}

TEST(ParseRows, ReadsRows) {
  EXPECT_EQ(parse_rows(kShape, kTwoStages, ""), make_schedule({"1f1b", 2, 2, 1}));
  EXPECT_EQ(parse_rows(kShape, "\n F0  F1\tB0 B1 ;F0 B0 F1 B1\r\n", ""), make_schedule({"1f1b", 2, 2, 1}));
}

TEST(ParseRows, CountsTheMicroBatchesIfItIsNotToldThem) {
  const Schedule any{2, 0, 1, Placement::loop, {}};
  EXPECT_EQ(parse_rows(any, kTwoStages, ""), make_schedule({"1f1b", 2, 2, 1}));
  EXPECT_EQ(parse_rows(any, "F0 B0; F0 B0", "").micro_batches, 1u);
  EXPECT_ERROR(parse_rows(any, "F0 B0 F1 B1; F0 B0", "file"), WEFT_INVALID_ARGUMENT,
               "file: ", "stage 1 never runs the forward of micro-batch 1");
  EXPECT_ERROR(parse_rows(any, "F0 B0; F4294967295 B0", "file"), WEFT_INVALID_ARGUMENT,
               "file: F4294967295 on stage 1", "has 2 operations only");
  EXPECT_ERROR(parse_rows(any, "# nothing", "file"), WEFT_INVALID_ARGUMENT, "0 micro-batches");
}

TEST(ParseRows, SkipsComments) {
  EXPECT_EQ(parse_rows(kShape, "# of two; stages\nF0 F1 B0 B1 # the first\n\nF0 B0 F1 B1", ""),
            make_schedule({"1f1b", 2, 2, 1}));
}

// Every schedule that Weft makes can be written, changed, and given back.
TEST(ParseRows, ReadsTheSchedulesOfAllStyles) {
  for (const Style& style : styles())
    for (const uint32_t micro_batches : {1u, 3u, 8u}) {
      const uint32_t chunks = style.fewest_chunks;
      const Schedule made = make_schedule({std::string(style.name), 3, micro_batches, chunks});
      const Schedule read = parse_rows({3, 0, chunks, style.placement, {}}, rows(made), "file");
      EXPECT_EQ(read, made) << style.name;
      EXPECT_NO_THROW(check_executable(read, "file")) << style.name;
    }
}

TEST(CheckExecutable, RefusesAnotherOrderOfMicroBatches) {
  const Schedule backwards = parse_rows(kShape, "F0 F1 B1 B0; F0 F1 B1 B0", "file");
  EXPECT_ERROR(check_executable(backwards, "file"), WEFT_INVALID_ARGUMENT,
               "file: stage 0 runs the backward of micro-batch 0 after that of micro-batch 1",
               "ascending order", "stage 1 runs");
}

TEST(CheckExecutable, RefusesAStageThatSplitsSomeBackwards) {
  EXPECT_NO_THROW(check_executable(parse_rows(kShape, "F0 F1 B0 B1; F0 I0 F1 I1 W0 W1", "file"), "file"));
  EXPECT_ERROR(check_executable(parse_rows(kShape, "F0 F1 B0 B1; F0 I0 F1 B1 W0", "file"), "file"),
               WEFT_INVALID_ARGUMENT, "file: stage 1 has whole backwards (B) and backwards in halves");
}

TEST(Names, HaveAChunkIfThereAreSeveral) {
  EXPECT_EQ(name_of({Kind::forward, 3, 0}, 1), "F3");
  EXPECT_EQ(name_of({Kind::weight_gradient, 3, 0}, 2), "W3.0");
  EXPECT_EQ(describe({Kind::backward, 3, 0}, 1), "the backward of micro-batch 3");
  EXPECT_EQ(describe({Kind::input_gradient, 3, 1}, 2), "the input gradient of micro-batch 3 in chunk 1");
}

TEST(Explain, TellsWorkActivationsAndOrderOfEachStage) {
  const Schedule schedule = make_schedule({"1f1b", 2, 2, 1});
  EXPECT_EQ(
      explain(schedule, simulate(schedule, Costs::equal(2)), "1f1b"),
      "schedule    1f1b: 2 stages, 2 micro-batches, 1 chunk a stage; bubble 33.3 %\n"
      "  stage    works  activations  operations\n"
      "  0       66.7 %            2  F0 F1 B0 B1\n"
      "  1       66.7 %            1  F0 B0 F1 B1\n"
      "  F forward, B backward of a micro-batch. Activations: the most that a stage keeps at once, each of "
      "one micro-batch in one chunk\n");
}

TEST(Explain, SaysWhatChunksAndHalvesOfBackwardsAre) {
  const Schedule schedule = make_schedule({"zbv", 1, 1, 2});
  const std::string text = explain(schedule, simulate(schedule, Costs::equal(2)), "zbv");
  EXPECT_NE(text.find("1 stage, 1 micro-batch, 2 chunks a stage; bubble 0.0 %"), text.npos) << text;
  EXPECT_NE(
      text.find("I input gradient, W weight gradient of a micro-batch; F3.1: of micro-batch 3 in chunk 1"),
      text.npos)
      << text;
}

TEST(DrawSvg, HasARectangleForEachOperation) {
  const Schedule schedule = make_schedule({"1f1b", 2, 2, 1});
  const std::string picture = draw_svg(schedule, simulate(schedule, Costs::equal(2)), "a < b & \"c\"");
  EXPECT_EQ(picture, draw_svg(schedule, simulate(schedule, Costs::equal(2)), "a < b & \"c\""));
  EXPECT_NE(picture.find(">a &lt; b &amp; \"c\"</text>"), picture.npos);
  EXPECT_EQ(count(picture, "<title>"), 8);
  EXPECT_EQ(count(picture, ">stage "), 2);
  // The makespan of 9 takes 640 pixels from 72 on: B0 of stage 1 runs from 2 to 4, in its row.
  EXPECT_NE(picture.find("<rect x=\"214.22\" y=\"70\" width=\"142.22\" height=\"24\" fill=\"#e69f00\" "
                         "stroke=\"white\"><title>B0: 2 to 4</title></rect>"),
            picture.npos)
      << picture;
  EXPECT_EQ(count(picture, ">waiting</text>"), 1);
  EXPECT_EQ(count(picture, ">forward</text>") + count(picture, ">backward</text>"), 2);
  EXPECT_EQ(count(picture, ">weight gradient</text>") + count(picture, "paler"), 0);
}

TEST(DrawSvg, ShowsChunksAndHalvesOfBackwards) {
  const Schedule schedule = make_schedule({"zbv", 2, 4, 2});
  const std::string picture = draw_svg(schedule, simulate(schedule, Costs::equal(4)), "zbv");
  EXPECT_EQ(count(picture, "<title>"), 48);
  EXPECT_EQ(count(picture, "fill-opacity=\"0.45\""), 24);
  EXPECT_EQ(count(picture, ">input gradient</text>") + count(picture, ">weight gradient</text>"), 2);
  EXPECT_EQ(count(picture, ">backward</text>"), 0);
  EXPECT_EQ(count(picture, "paler: later chunks"), 1);
}

TEST(DrawSvg, LeavesOutNumbersThatDoNotFit) {
  const Schedule schedule = make_schedule({"1f1b", 1, 2000, 1});
  const std::string picture = draw_svg(schedule, simulate(schedule, Costs::equal(1)), "");
  EXPECT_EQ(count(picture, "text-anchor"), 0);
  EXPECT_EQ(count(picture, "<title>"), 4000);
}

}  // namespace

}  // namespace weft::test
