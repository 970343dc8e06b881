// What samples of packed documents say about attention.
#include <gmock/gmock.h>

#include "data/text_fixture.hpp"
#include "loader/fingerprint.hpp"

namespace weft::data {
namespace {

TEST_F(Text, SaysWhichDocumentAPackedTokenBelongsToOrThatAttentionReachesTheWholeSample) {
  const std::string path =
      folder_.file("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"xyzuvw\"}\n{\"text\": \"c\"}\n");
  TextOptions options;
  EXPECT_FALSE(open(path, 5, options)->get({0}).has("document_ids"));
  options.attention = data::PackedAttention::kDocument;
  const auto apart = open(path, 5, options);
  ASSERT_EQ(apart->size(), 3);  // 4 + 8 + 3 tokens
  EXPECT_EQ(values(apart->get({0, 1, 2}).at("document_ids")),
            (Ids{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(apart->attention(), "document");
  options.attention = data::PackedAttention::kSample;
  const auto together = open(path, 5, options);
  EXPECT_EQ(together->get({0, 2}).at("document_ids").abs().max().item<int64_t>(), 0);
  EXPECT_EQ(together->attention(), "sample");
  // It is the same data: a run that was saved before samples had this field resumes.
  EXPECT_EQ(data::fingerprint(*together, 3), data::fingerprint(*apart, 3));
  for (const Packing packing : {Packing::kStream, Packing::kNone}) {
    options.packing = packing;
    EXPECT_FALSE(open(path, 5, options)->get({0}).has("document_ids"));
    EXPECT_EQ(open(path, 5, options)->attention(), "");
  }
}

}  // namespace
}  // namespace weft::data
