// Tests safetensors files that are well-formed but not shards. The parser must refuse each and say why.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "collection/formats/safetensors.h"
#include "collection/shard_contents.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

// Makes safetensors files that are well-formed but not valid shards.
class ForeignFileTest : public ::testing::Test {
 protected:
  // Applies `change` to the tensors of a valid file of two documents, and parses the result.
  absl::Status ParseWith(const std::function<void(std::vector<SafetensorsTensor>&, std::vector<std::string>&)>& change,
                         std::vector<std::pair<std::string, std::string>> metadata = {{"format", "maxsim-shard"},
                                                                                      {"format_version", "1"}}) {
    std::vector<SafetensorsTensor> tensors = {
        {"tokens", "F16", {3, 8}, 0, 0}, {"offsets", "I64", {3}, 0, 0}, {"ids", "I64", {2}, 0, 0}};
    std::vector<std::string> data = {std::string(48, '\0'), AsBytes<int64_t>({0, 1, 3}), AsBytes<int64_t>({7, 8})};
    change(tensors, data);
    std::string bytes = FormatSafetensorsHeader(metadata, tensors, 64);
    for (const std::string& part : data) bytes += part;
    buffer_ = std::make_unique<Aligned[]>(bytes.size() / sizeof(Aligned) + 1);
    std::memcpy(buffer_.get(), bytes.data(), bytes.size());
    return ParseShard({reinterpret_cast<const char*>(buffer_.get()), bytes.size()}).status();
  }
  static void AddPayloads(std::vector<SafetensorsTensor>& tensors, std::vector<std::string>& data,
                          const std::vector<int64_t>& offsets, const std::string& bytes) {
    tensors.push_back({"payload_offsets", "I64", {static_cast<int64_t>(offsets.size())}, 0, 0});
    data.push_back(AsBytes(offsets));
    tensors.push_back({"payload_bytes", "U8", {static_cast<int64_t>(bytes.size())}, 0, 0});
    data.push_back(bytes);
  }
  struct alignas(64) Aligned {
    char bytes[64];
  };
  std::unique_ptr<Aligned[]> buffer_;
};

TEST_F(ForeignFileTest, AreRefusedWithAReason) {
  using Tensors = std::vector<SafetensorsTensor>;
  using Data = std::vector<std::string>;
  ASSERT_TRUE(ParseWith([](Tensors&, Data&) {}).ok());
  const std::pair<const char*, std::function<void(Tensors&, Data&)>> cases[] = {
      {"\"tokens\" is missing", [](Tensors& t, Data&) { t[0].name = "token"; }},
      {"tokens: dtype \"F8_E4M3\" is not supported by this version (F16, BF16, F32, I8 and, for residual codes, U8 "
       "are)",
       [](Tensors& t, Data&) {
         t[0] = {"tokens", "F8_E4M3", {6, 8}, 0, 0};
       }},
      {"scales: tokens of type f16 have none",
       [](Tensors& t, Data& d) {
         t.push_back({"scales", "F32", {2}, 0, 0});
         d.push_back(AsBytes<float>({1, 1}));
       }},
      {"tokens: dtype \"F64\"",
       [](Tensors& t, Data& d) {
         t[0].dtype = "F64";
         d[0].resize(192);
       }},
      {"tokens: 1 dimensions", [](Tensors& t, Data&) { t[0].shape = {24}; }},
      {"tokens: 4 columns",
       [](Tensors& t, Data&) {
         t[0].shape = {6, 4};
       }},
      {"tokens: 4097 columns",
       [](Tensors& t, Data& d) {
         t[0].shape = {3, 4097};
         d[0].resize(2 * 3 * 4097);
       }},
      {"not a multiple of 64",
       [](Tensors& t, Data& d) {
         t.insert(t.begin(), {"first", "U8", {2}, 0, 0});
         d.insert(d.begin(), "xx");
       }},
      {"\"offsets\" is missing", [](Tensors& t, Data&) { t[1].name = "offset"; }},
      {"offsets: dtype \"U64\"", [](Tensors& t, Data&) { t[1].dtype = "U64"; }},
      {"offsets: 2 dimensions",
       [](Tensors& t, Data&) {
         t[1].shape = {3, 1};
       }},
      {"offsets: 0 documents",
       [](Tensors& t, Data& d) {
         t[1].shape = {1};
         d[1].resize(8);
       }},
      {"offsets: -1 documents",
       [](Tensors& t, Data& d) {
         t[1].shape = {0};
         d[1].clear();
       }},
      {"offsets[0]: 1",
       [](Tensors&, Data& d) {
         d[1] = AsBytes<int64_t>({1, 2, 3});
       }},
      {"offsets[1]: 0 after entry 0",
       [](Tensors&, Data& d) {
         d[1] = AsBytes<int64_t>({0, 0, 3});
       }},
      {"offsets[2]: 2 is not in 3 .. 3",
       [](Tensors&, Data& d) {
         d[1] = AsBytes<int64_t>({0, 3, 2});
       }},
      {"offsets: ends at 2, expected 3",
       [](Tensors&, Data& d) {
         d[1] = AsBytes<int64_t>({0, 1, 2});
       }},
      {"ids: 3 entries, expected 2",
       [](Tensors& t, Data& d) {
         t[2].shape = {3};
         d[2].resize(24);
       }},
      {"ids: dtype \"F64\"", [](Tensors& t, Data&) { t[2].dtype = "F64"; }},
      {"\"id_bytes\" is missing", [](Tensors& t, Data&) { t[2].name = "identity"; }},
      {"exclude each other",
       [](Tensors& t, Data& d) {
         t.push_back({"id_bytes", "U8", {1}, 0, 0});
         d.push_back("x");
       }},
      {"\"payload_offsets\" is missing",
       [](Tensors& t, Data& d) {
         t.push_back({"payload_bytes", "U8", {1}, 0, 0});
         d.push_back("x");
       }},
      {"id_offsets[1]: 0 after entry 0, expected 1 .. 512",
       [](Tensors& t, Data& d) {
         t[2] = {"id_offsets", "I64", {3}, 0, 0};
         d[2] = AsBytes<int64_t>({0, 0, 2});
         t.push_back({"id_bytes", "U8", {2}, 0, 0});
         d.push_back("xy");
       }},
      {"id_offsets[1]: 513 after entry 0",
       [](Tensors& t, Data& d) {
         t[2] = {"id_offsets", "I64", {3}, 0, 0};
         d[2] = AsBytes<int64_t>({0, 513, 514});
         t.push_back({"id_bytes", "U8", {514}, 0, 0});
         d.emplace_back(514, 'x');
       }},
      {"the id of document 1 is not UTF-8",
       [](Tensors& t, Data& d) {
         t[2] = {"id_offsets", "I64", {3}, 0, 0};
         d[2] = AsBytes<int64_t>({0, 1, 2});
         t.push_back({"id_bytes", "U8", {2}, 0, 0});
         d.push_back("x\xc3");
       }},
      {"the payload of document 1 is not UTF-8",
       [](Tensors& t, Data& d) {
         AddPayloads(t, d, {0, 0, 1}, "\xff");
       }},
      // All payload bytes together are valid UTF-8, but the boundary between the documents is inside a character.
      {"the payload of document 0 is not UTF-8",
       [](Tensors& t, Data& d) {
         AddPayloads(t, d, {0, 1, 2}, "\xc3\xa9");
       }},
  };
  for (const auto& [message, change] : cases) {
    SCOPED_TRACE(message);
    const absl::Status status = ParseWith(change);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  const auto unchanged = [](Tensors&, Data&) {};
  EXPECT_THAT(std::string(ParseWith(unchanged, {}).message()), HasSubstr("__metadata__.format"));
  EXPECT_THAT(std::string(ParseWith(unchanged, {{"format", "maxsim-shard"}, {"format_version", "2"}}).message()),
              HasSubstr("this version reads \"1\""));
}

TEST_F(ForeignFileTest, OfI8AreRefusedWithAReason) {
  using Metadata = std::vector<std::pair<std::string, std::string>>;
  const Metadata rotated = {
      {"format", "maxsim-shard"}, {"format_version", "1"}, {"rotation", "hadamard"}, {"rotation_seed", "17"}};
  const auto parse = [&](const std::vector<float>& scales, const Metadata& metadata, const char* dtype = "F32") {
    const auto change = [&](std::vector<SafetensorsTensor>& t, std::vector<std::string>& d) {
      t[0].dtype = "I8";
      d[0].resize(24);
      t.push_back({"scales", dtype, {static_cast<int64_t>(scales.size())}, 0, 0});
      d.push_back(AsBytes(scales));
    };
    return std::string(ParseWith(change, metadata).message());
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(parse({0, kMaxScale}, rotated), "");
  EXPECT_THAT(parse({1, std::nextafter(kMaxScale, kInfinity)}, rotated),
              HasSubstr("scales[1]: 7.87402e+09 is not in 0 .. "));
  EXPECT_THAT(parse({1, kInfinity}, rotated), HasSubstr("scales[1]: inf is not in 0 .. "));
  EXPECT_THAT(parse({std::nanf(""), 1}, rotated), HasSubstr("scales[0]: nan"));
  EXPECT_THAT(parse({1, -1}, rotated), HasSubstr("scales[1]: -1"));
  EXPECT_THAT(parse({1}, rotated), HasSubstr("scales: 1 entries, expected 2"));
  EXPECT_THAT(parse({1, 1, 1}, rotated), HasSubstr("scales: 3 entries, expected 2"));
  EXPECT_THAT(parse({1, 1}, rotated, "I32"), HasSubstr("scales: dtype \"I32\", expected F32"));
  EXPECT_THAT(parse({1, 1}, {rotated.begin(), rotated.begin() + 2}), HasSubstr("__metadata__.rotation: \"\""));
  for (const char* seed : {"", "-1", "+1", "01", " 1", "1.0", "9007199254740992", "99999999999999999999"}) {
    Metadata metadata = rotated;
    metadata[3].second = seed;
    EXPECT_THAT(parse({1, 1}, metadata), HasSubstr("__metadata__.rotation_seed: ")) << seed;
  }
  Metadata other = rotated;
  other[2].second = "givens";
  EXPECT_THAT(parse({1, 1}, other), HasSubstr("__metadata__.rotation: \"givens\", expected \"hadamard\""));
  const auto without_scales = [](std::vector<SafetensorsTensor>& t, std::vector<std::string>& d) {
    t[0].dtype = "I8";
    d[0].resize(24);
  };
  EXPECT_THAT(std::string(ParseWith(without_scales, rotated).message()), HasSubstr("tensor \"scales\" is missing"));
  EXPECT_THAT(std::string(ParseWith([](auto&, auto&) {}, rotated).message()),
              HasSubstr("__metadata__.rotation: tokens of type f16 have none"));
}

}  // namespace
}  // namespace maxsim::collection
