// Schedules as text and as pictures.
#include "schedule/text.hpp"

#include <gtest/gtest.h>

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

TEST(Names, OfOperationsHaveAChunkIfThereAreSeveral) {
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
