#include "client/field_path.h"

#include "gtest/gtest.h"

namespace maxsim::client {
namespace {

TEST(FieldPathTest, MembersAndElementsAreWithin) {
  for (const char* path : {"tokens", "tokens.dim", "tokens[1]"}) EXPECT_TRUE(IsWithin(path, "tokens")) << path;
  for (const char* path : {"", "token", "tokens2", "tokens_", "x.tokens"})
    EXPECT_FALSE(IsWithin(path, "tokens")) << path;
  EXPECT_EQ(Rebased("queries[0].tokens.data", "queries[0].tokens", "query"), "query.data");
  EXPECT_EQ(Rebased("tokens", "tokens", "x"), "x");
}

TEST(FieldPathTest, AnIndexIsReadAndReplaced) {
  EXPECT_EQ(IndexIn("queries[12].text", "queries"), 12u);
  EXPECT_EQ(IndexIn("string_ids.ids[0]", "string_ids.ids"), 0u);
  for (const char* path : {"queries", "queries[", "queries[]", "queries[x]", "queries[1", "queries[-1]", "queries.a[1]",
                           "queries[99999999999999999999]", "query[1]", ""}) {
    EXPECT_EQ(IndexIn(path, "queries"), std::nullopt) << path;
  }
  EXPECT_EQ(WithIndex("queries[12].weights[3]", "queries", 5), "queries[5].weights[3]");
}

}  // namespace
}  // namespace maxsim::client
