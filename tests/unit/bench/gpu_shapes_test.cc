// Tests the shapes of the GPU benchmark: their names, lengths and lists.
#include "bench/kernels/gpu_shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace maxsim::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GpuShapesTest, ReadsPairsOfQueriesAndDocuments) {
  const GpuCase shape = *ParseGpuCase("32x1024x64x180");
  EXPECT_EQ(shape.num_queries, 32);
  EXPECT_EQ(shape.num_documents, 1024);
  EXPECT_EQ(shape.query_tokens, 64);
  EXPECT_EQ(shape.min_document_tokens, 180);
  EXPECT_EQ(shape.max_document_tokens, 180);
  EXPECT_EQ(shape.list_size, 0);
  EXPECT_EQ(shape.select_k, 0);
}

TEST(GpuShapesTest, ReadsListsShardsRangesAndSelections) {
  const GpuCase lists = *ParseGpuCase("lists:32x1000of100000");
  EXPECT_EQ(lists.list_size, 1000);
  EXPECT_EQ(lists.num_documents, 100000);
  EXPECT_EQ(lists.query_tokens, 32);
  EXPECT_TRUE(lists.passages);
  EXPECT_EQ(ParseGpuCase("shard:1x10")->num_documents, 10);
  const GpuCase range = *ParseGpuCase("lists:3x7of9x5x4-4096");
  EXPECT_EQ(range.query_tokens, 5);
  EXPECT_EQ(range.min_document_tokens, 4);
  EXPECT_EQ(range.max_document_tokens, 4096);
  EXPECT_FALSE(range.passages);
  const GpuCase select = *ParseGpuCase("topk:1000000k100");
  EXPECT_EQ(select.num_documents, 1000000);
  EXPECT_EQ(select.select_k, 100);
}

TEST(GpuShapesTest, RefusesWhatIsNotAShape) {
  for (const char* name :
       {"", "1x2", "1x2x3", "1x2x3x4x5", "0x1x1x1", "1x1x4097x1", "1x1x1x65537", "1x1x1x9-8", "1x1x1x9-", "shard:1x2x3",
        "lists:1x10", "lists:1x11of10", "topk:5", "topk:5k10001", "1x1x1xragged"}) {
    const absl::StatusOr<GpuCase> shape = ParseGpuCase(name);
    ASSERT_FALSE(shape.ok()) << name;
    EXPECT_THAT(std::string(shape.status().message()), HasSubstr(std::string("\"") + name + "\""));
  }
}

TEST(GpuShapesTest, PassagesHaveTheLengthsTheyPromise) {
  const GpuCase shape = *ParseGpuCase("shard:1x100000");
  const std::vector<int64_t> offsets = OffsetsOf(shape);
  ASSERT_EQ(offsets.size(), 100001u);
  int64_t shortest = 1 << 20, longest = 0;
  for (size_t n = 1; n < offsets.size(); ++n) {
    shortest = std::min(shortest, offsets[n] - offsets[n - 1]);
    longest = std::max(longest, offsets[n] - offsets[n - 1]);
  }
  EXPECT_EQ(shortest, 8);
  EXPECT_EQ(longest, 512);
  EXPECT_NEAR(static_cast<double>(offsets.back()) / 100000, 121, 1);
  EXPECT_NEAR(static_cast<double>(offsets.back()), shape.ExpectedTokens(), 1e5);
  GpuCase other = shape;
  other.type = ScalarType::kI8;
  other.dim = 48;
  EXPECT_EQ(OffsetsOf(other), offsets) << "lengths are those of the shape, not of its storage";
}

TEST(GpuShapesTest, RangesReachBothEndsAndTheirMeanIsKnown) {
  const GpuCase shape = *ParseGpuCase("1x200000x1x4-40");
  const std::vector<int64_t> offsets = OffsetsOf(shape);
  std::set<int64_t> lengths;
  for (size_t n = 1; n < offsets.size(); ++n) lengths.insert(offsets[n] - offsets[n - 1]);
  EXPECT_EQ(*lengths.begin(), 4);
  EXPECT_EQ(*lengths.rbegin(), 40);
  EXPECT_NEAR(static_cast<double>(offsets.back()) / shape.ExpectedTokens(), 1, 0.01);
}

TEST(GpuShapesTest, ListsAreDistinctDocumentsAndDifferFromEachOther) {
  const GpuCase shape = *ParseGpuCase("lists:3x50of60");
  const std::vector<std::vector<uint32_t>> lists = ListsOf(shape);
  ASSERT_EQ(lists.size(), 3u);
  for (const std::vector<uint32_t>& list : lists) {
    EXPECT_EQ(list.size(), 50u);
    EXPECT_EQ(std::set<uint32_t>(list.begin(), list.end()).size(), 50u);
    EXPECT_LT(*std::max_element(list.begin(), list.end()), 60u);
  }
  EXPECT_NE(lists[0], lists[1]);
  EXPECT_EQ(ListsOf(shape), lists);
}

TEST(GpuShapesTest, RandomShapesComeFromTheSeedAndStayInBounds) {
  const std::vector<GpuCase> cases = RandomCases(200, 7);
  ASSERT_EQ(cases.size(), 200u);
  std::set<int32_t> dims;
  std::set<ScalarType> types;
  int num_lists = 0;
  for (const GpuCase& shape : cases) {
    dims.insert(shape.dim);
    types.insert(shape.type);
    num_lists += shape.list_size > 0 ? 1 : 0;
    EXPECT_TRUE(shape.num_queries >= 1 && shape.num_queries <= 64) << shape.name;
    EXPECT_TRUE(shape.query_tokens >= 4 && shape.query_tokens <= 2048) << shape.name;
    EXPECT_TRUE(shape.num_documents >= 10 && shape.num_documents <= 20000) << shape.name;
    EXPECT_TRUE(shape.min_document_tokens >= 4 && shape.max_document_tokens <= 4096) << shape.name;
    EXPECT_LE(shape.ExpectedTokens() * shape.dim, 0x1p29) << shape.name;
    const absl::StatusOr<GpuCase> again = ParseGpuCase(shape.name);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(OffsetsOf(*again), OffsetsOf(shape)) << "the name is all that it takes to run it again";
    EXPECT_EQ(again->list_size, shape.list_size);
    EXPECT_EQ(again->query_tokens, shape.query_tokens);
  }
  EXPECT_THAT(dims, ElementsAre(48, 64, 96, 128, 256, 768));
  EXPECT_EQ(types.size(), 2u);
  EXPECT_NEAR(num_lists, 100, 40);
  EXPECT_EQ(RandomCases(200, 7)[199].name, cases[199].name);
  EXPECT_NE(RandomCases(1, 8)[0].name, cases[0].name);
}

std::vector<std::string> NamesOf(const std::vector<GpuCase>& cases) {
  std::vector<std::string> names;
  for (const GpuCase& shape : cases) {
    names.push_back(shape.name + "/" + std::string(Name(shape.type)) + "/" + std::to_string(shape.dim));
  }
  return names;
}

TEST(GpuShapesTest, SelectsKnownShapesAsTheyAreKnownAndOthersInF16) {
  EXPECT_THAT(NamesOf(*SelectCases({"1x1000x1024x1024"}, {}, {})),
              ElementsAre("1x1000x1024x1024/f16/128", "1x1000x1024x1024/i8/128", "1x1000x1024x1024/bf16/128"));
  EXPECT_THAT(NamesOf(*SelectCases({"1x2x3x4", "1x2x3x4"}, {}, {})), ElementsAre("1x2x3x4/f16/128"));
  EXPECT_THAT(NamesOf(*SelectCases({"1x1000x1024x1024"}, {ScalarType::kI8}, {64, 96})),
              ElementsAre("1x1000x1024x1024/i8/64", "1x1000x1024x1024/i8/96"));
  EXPECT_EQ(SelectCases({"goals"}, {}, {})->size(), 22u);
  EXPECT_FALSE(SelectCases({"goals", "best"}, {}, {}).ok());
}

}  // namespace
}  // namespace maxsim::bench
