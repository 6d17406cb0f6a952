#include "collection/formats/safetensors.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

std::string LengthField(uint64_t length) {
  std::string bytes;
  for (int idx = 0; idx < 8; ++idx) bytes += static_cast<char>(length >> (8 * idx) & 0xff);
  return bytes;
}

absl::StatusOr<SafetensorsHeader> ParseJson(const std::string& json, int64_t data_bytes) {
  const std::string bytes = LengthField(json.size()) + json;
  return ParseSafetensorsHeader(bytes, static_cast<int64_t>(bytes.size()) + data_bytes);
}

TEST(SafetensorsTest, ReadsTensorsInTheOrderOfTheirBytes) {
  const auto header = ParseJson(
      R"({"b":{"dtype":"I64","shape":[2],"data_offsets":[6,22]},"__metadata__":{"k":"v"},)"
      R"("a":{"dtype":"F16","shape":[3,1],"data_offsets":[0,6]},"none":{"dtype":"U8","shape":[0],"data_offsets":[22,22]}}  )",
      22);
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->tensors.size(), 3);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[0].begin, header->data_begin);
  EXPECT_EQ(header->tensors[1].end, header->data_begin + 22);
  EXPECT_EQ(header->FindMetadata("k"), "v");
  EXPECT_EQ(header->Find("c"), nullptr);
}

TEST(SafetensorsTest, AFormattedHeaderIsAlignedAndReadsBack) {
  std::vector<SafetensorsTensor> tensors = {{"tokens", "F16", {5, 3}, 0, 0}, {"offsets", "I64", {2}, 0, 0}};
  for (const int64_t alignment : {1, 8, 64, 4096}) {
    const std::string bytes = FormatSafetensorsHeader({{"format", "x"}}, tensors, alignment);
    EXPECT_EQ(bytes.size() % static_cast<size_t>(alignment), 0);
    const auto header = ParseSafetensorsHeader(bytes, static_cast<int64_t>(bytes.size()) + 46);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->Find("offsets")->begin, tensors[1].begin);
    EXPECT_EQ(header->Find("offsets")->end, tensors[1].end);
    EXPECT_EQ(header->FindMetadata("format"), "x");
  }
}

struct Hostile {
  const char* name;
  std::string json;
  int64_t data_bytes;
  const char* message;
};

TEST(SafetensorsTest, HostileHeadersAreRefusedWithAReason) {
  const std::string deep(100'000, '[');
  const Hostile cases[] = {
      {"overlap",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
       6, "inside the tensor before it"},
      {"hole",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
       6, "after a gap"},
      {"bytes at the end", R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3, "the file ends at 3"},
      {"beyond the file", R"({"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", 8,
       "are outside of the data section"},
      {"backwards", R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[3,2]}})", 4, "are outside of the data section"},
      {"shape and range differ", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "needs 8 bytes"},
      {"shape overflows", R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "2^60"},
      {"shape wraps to the right size",
       R"({"a":{"dtype":"U8","shape":[9223372036854775807,2,3],"data_offsets":[0,0]}})", 0, "2^60"},
      {"2^63", R"({"a":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,0]}})", 0, "integers from 0"},
      {"2^64", R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,0]}})", 0, "integers from 0"},
      {"negative", R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", 0, "a negative number"},
      {"fraction", R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,0]}})", 0, "integers from 0"},
      {"same tensor twice",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0, "appears twice"},
      {"same name spelled in two ways",
       R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       0, "appears twice"},
      {"same key twice", R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, "appears twice"},
      {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "appears twice"},
      {"metadata number", R"({"__metadata__":{"a":1}})", 0, "strings expected"},
      {"metadata nested", R"({"__metadata__":{"a":{"b":"c"}}})", 0, "strings expected"},
      {"unknown dtype", R"({"a":{"dtype":"F17","shape":[0],"data_offsets":[0,0]}})", 0, "unknown dtype"},
      {"half a byte", R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", 1, "uneven"},
      {"no dtype", R"({"a":{"shape":[0],"data_offsets":[0,0]}})", 0, "dtype, shape and two data_offsets"},
      {"one offset", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})", 0, "two data_offsets"},
      {"three offsets", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})", 0, "more than 2"},
      {"33 dimensions",
       R"({"a":{"dtype":"U8","shape":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],)"
       R"("data_offsets":[0,0]}})",
       0, "more than 32"},
      {"dtype is a list", R"({"a":{"dtype":["U8"],"shape":[0],"data_offsets":[0,0]}})", 0, "a string expected"},
      {"list in a shape", R"({"a":{"dtype":"U8","shape":[[0]],"data_offsets":[0,0]}})", 0, "deeper than 3"},
      {"tensor is a number", R"({"a":1})", 0, "object expected"},
      {"unknown key", R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":1}})", 0, "unknown key"},
      {"not an object", "[]", 0, "'{'"},
      {"white space first", " {}", 0, "'{'"},
      {"empty", "", 0, "'{'"},
      {"cut off", R"({"a":{"dtype":"U8")", 0, "malformed JSON"},
      {"two objects", "{}{}", 0, "malformed JSON"},
      {"NUL behind the object", std::string("{}\0{", 4), 0, "NUL"},
      {"not UTF-8", "{\"\xff\":1}", 0, "malformed JSON"},
      {"deep", R"({"a":)" + deep, 0, "an object expected, not an array"},
  };
  for (const Hostile& hostile : cases) {
    SCOPED_TRACE(hostile.name);
    const auto header = ParseJson(hostile.json, hostile.data_bytes);
    ASSERT_FALSE(header.ok());
    EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(header.status().message()), HasSubstr(hostile.message));
    EXPECT_LT(header.status().message().size(), 1000);
  }
}

TEST(SafetensorsTest, LengthsThatPassTheFileOrTheLimitAreRefusedBeforeAnythingIsRead) {
  EXPECT_FALSE(SafetensorsHeaderEnd(LengthField(1), 8).ok());
  EXPECT_EQ(*SafetensorsHeaderEnd(LengthField(1), 9), 9);
  EXPECT_FALSE(SafetensorsHeaderEnd("1234567", 7).ok());
  for (const uint64_t length : {kMaxSafetensorsHeaderBytes + 1, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    const auto end = SafetensorsHeaderEnd(LengthField(length), INT64_MAX);
    ASSERT_FALSE(end.ok()) << length;
    EXPECT_THAT(std::string(end.status().message()), HasSubstr("longer than the limit of 100000000 bytes"));
  }
  EXPECT_TRUE(SafetensorsHeaderEnd(LengthField(kMaxSafetensorsHeaderBytes), INT64_MAX).ok());
}

}  // namespace
}  // namespace maxsim::collection
