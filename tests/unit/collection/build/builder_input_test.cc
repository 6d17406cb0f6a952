// Tests which values, shapes and ids a build refuses, and how it rounds values.
#include "collection/build/builder.h"

#include <limits>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "collection/build/shard_plan.h"
#include "collection/build/sources/memory_sources.h"
#include "collection/shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/limits.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/unit/collection/build/builder_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Stage = BuildProgress::Stage;

// A build refuses values that it cannot store, and the error names the value's row, column and document.
TEST(BuilderTest, UnusableValuesAreRefusedWithRowColumnAndDocument) {
  struct Case {
    float value;
    ScalarType storage;
    const char* message;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const Case cases[] = {
      {std::numeric_limits<float>::quiet_NaN(), ScalarType::kF16, "nan is not finite"},
      {infinity, ScalarType::kF32, "inf is not finite"},
      {-infinity, ScalarType::kBF16, "-inf is not finite"},
      {65520.0f, ScalarType::kF16, "65520 is too large for f16"},
      {2e12f, ScalarType::kF32, "is beyond the limit of 1e+12"},
      {1.003e12f, ScalarType::kBF16, "is beyond the limit of 1e+12"},
  };
  const SmallCollection collection = NumberedCollection(50);
  for (const Case& item : cases) {
    TemporaryFolder folder;
    std::vector<float> values = collection.Values();
    int64_t row = 0;
    for (int idx = 0; idx < 33; ++idx) row += collection.lengths[static_cast<size_t>(idx)];
    values[static_cast<size_t>((row + 2) * collection.dim + 5)] = item.value;
    MemoryTokens tokens(ElementType::kF32, collection.dim, collection.num_tokens(), values.data());
    MemoryPayloads payloads(collection.payloads);
    const auto manifest =
        BuildCollection({.folder = folder.path(), .name = "x", .storage = item.storage, .max_shard_bytes = 8192},
                        *collection.MakeCatalog(), tokens, &payloads);
    EXPECT_EQ(manifest.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(manifest.status().message()), HasSubstr(item.message));
    EXPECT_THAT(std::string(manifest.status().message()),
                HasSubstr(Cat("row ", row + 2, ", column 5 (token 2 of document 33, id 967)")));
    EXPECT_THAT(FilesIn(folder.path()), ElementsAre());
  }
}

TEST(BuilderTest, ValuesAreRoundedToNearestEven) {
  for (const ElementType type : {ElementType::kF32, ElementType::kF64}) {
    TemporaryFolder folder;
    SmallCollection collection = NumberedCollection(1);
    collection.payloads.clear();
    // Two values halfway between two F16 values (one rounds up, one down), the largest value that still rounds to a
    // finite F16, and a subnormal.
    const std::vector<float> row = {1.00048828125f, 1.00146484375f, 65519.99f, 5.9604645e-8f, -0.0f, 0.1f, -1.5f, 3.0f};
    const std::vector<double> wide(row.begin(), row.end());
    MemoryTokens tokens(type, 8, 1, type == ElementType::kF32 ? static_cast<const void*>(row.data()) : wide.data());
    const auto manifest =
        BuildCollection({.folder = folder.path(), .name = "x"}, *collection.MakeCatalog(), tokens, nullptr);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    const auto shard = *Shard::Open(folder.path(), *manifest, manifest->shards[0], Access::kMapped, true);
    const auto* stored = static_cast<const uint16_t*>(shard->documents().tokens);
    EXPECT_THAT(std::vector<uint16_t>(stored, stored + 8),
                ElementsAre(0x3c00, 0x3c02, 0x7bff, 0x0001, 0x8000, 0x2e66, 0xbe00, 0x4200));
  }
}

TEST(BuilderTest, WhatDoesNotFitTogetherIsRefused) {
  TemporaryFolder folder;
  const SmallCollection collection = NumberedCollection(3);
  const std::vector<float> values(1000 * 5000);
  const auto build = [&](const SmallCollection& documents, int64_t dim, int64_t num_tokens, BuildOptions options) {
    options.folder = folder.path();
    options.name = "x";
    MemoryTokens tokens(ElementType::kF32, dim, num_tokens, values.data());
    MemoryPayloads payloads(documents.payloads);
    const absl::Status status = BuildCollection(options, *documents.MakeCatalog(), tokens, &payloads).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  EXPECT_THAT(build(collection, 7, collection.num_tokens(), {}), HasSubstr("7 columns; must be 8 to 4096"));
  EXPECT_THAT(build(collection, 4097, collection.num_tokens(), {}), HasSubstr("4097 columns"));
  EXPECT_THAT(build(collection, 8, collection.num_tokens() + 1, {}), HasSubstr("sum to"));
  EXPECT_THAT(
      build(collection, 8, collection.num_tokens(), {.storage = ScalarType::kI8, .rotation_seed = uint64_t{1} << 53}),
      HasSubstr("seed: 9007199254740992; must be 0 to 9007199254740991"));
  EXPECT_THAT(build(collection, 8, collection.num_tokens(), {.max_shard_bytes = 8191}),
              HasSubstr("must be at least 8192"));
  SmallCollection wrong = collection;
  wrong.lengths[1] = 0;
  EXPECT_THAT(build(wrong, 8, wrong.num_tokens(), {}), HasSubstr("lengths[1]: 0 tokens"));
  wrong.lengths[1] = 65537;
  EXPECT_THAT(build(wrong, 8, wrong.num_tokens(), {}), HasSubstr("lengths[1]: 65537 tokens; must be 1 to 65536"));
  EXPECT_THAT(build(NumberedCollection(0), 8, 0, {}), HasSubstr("no document"));
}

TEST(IdListTest, RefusesDuplicatesAndWhatIsNoId) {
  IdList strings(IdType::kString);
  EXPECT_TRUE(strings.Add(std::string_view("a")).ok());
  EXPECT_TRUE(strings.Add(std::string_view("b")).ok());
  EXPECT_EQ(strings.Add(std::string_view("a")).message(), "id \"a\" is already the id of document 0");
  EXPECT_THAT(std::string(strings.Add(std::string_view("")).message()), HasSubstr("empty"));
  EXPECT_TRUE(strings.Add(std::string_view(std::string(kMaxIdBytes, 'x'))).ok());
  EXPECT_THAT(std::string(strings.Add(std::string_view(std::string(kMaxIdBytes + 1, 'x'))).message()),
              HasSubstr("513 bytes, the limit is 512"));
  EXPECT_THAT(std::string(strings.Add(std::string_view("\xff")).message()), HasSubstr("UTF-8"));
  EXPECT_EQ(strings.size(), 3);
  EXPECT_EQ(strings.string_id(1), "b");
  IdList ints(IdType::kInt64);
  for (int64_t id = 0; id < 10000; ++id) ASSERT_TRUE(ints.Add(id * 3).ok());
  EXPECT_EQ(ints.Add(int64_t{2997}).message(), "id 2997 is already the id of document 999");
  EXPECT_EQ(ints.size(), 10000);
}

}  // namespace
}  // namespace maxsim::collection
