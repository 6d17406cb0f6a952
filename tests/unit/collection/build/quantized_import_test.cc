// Tests imports of token vectors that another program quantised (i8, F8_E4M3), and of this project's own i8 shards.
#include "collection/build/sources/quantized_tokens.h"

#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.h"
#include "collection/build/import.h"
#include "collection/formats/safetensors.h"
#include "collection/shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/quantize.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kColumns = 8;
constexpr int64_t kNumTokens = 6;

// Returns the elements of three documents of 2, 1 and 3 tokens.
std::vector<int8_t> Elements() {
  std::vector<int8_t> elements;
  for (int64_t idx = 0; idx < kNumTokens * kColumns; ++idx)
    elements.push_back(static_cast<int8_t>((idx * 37) % 255 - 127));
  return elements;
}

class QuantizedImportTest : public ::testing::Test {
 protected:
  using Part = std::tuple<std::string, std::string, std::vector<int64_t>, std::string>;

  ImportOptions Safetensors(std::vector<Part> parts,
                            const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
    parts.emplace_back("lengths", "I32", std::vector<int64_t>{3}, AsBytes<int32_t>({2, 1, 3}));
    std::vector<SafetensorsTensor> tensors;
    std::string data;
    for (const auto& [name, dtype, shape, bytes] : parts) {
      tensors.push_back({name, dtype, shape, 0, 0});
      data += bytes;
    }
    WriteBytes(folder_.Path("input.safetensors"), FormatSafetensorsHeader(metadata, tensors, 8) + data);
    ImportOptions options;
    options.inputs = {folder_.Path("input.safetensors")};
    return options;
  }
  ImportOptions I8(const std::vector<float>& scales, std::vector<int64_t> shape) {
    return Safetensors({{"tokens", "I8", {kNumTokens, kColumns}, AsBytes(Elements())},
                        {"scales", "F32", std::move(shape), AsBytes(scales)}});
  }

  // Reads all rows, three at a time, so that some reads end in the middle of a document.
  absl::StatusOr<std::vector<float>> Rows(const ImportOptions& options) {
    absl::StatusOr<Import> import = OpenImport(options);
    if (!import.ok()) return import.status();
    EXPECT_EQ(import->tokens->type(), ElementType::kF32);
    EXPECT_EQ(import->tokens->dim(), kColumns);
    std::vector<float> rows(static_cast<size_t>(import->tokens->num_tokens() * kColumns));
    for (int64_t row = 0; row < import->tokens->num_tokens(); row += 3) {
      const absl::StatusOr<const void*> block = import->tokens->Next(3);
      if (!block.ok()) return block.status();
      std::memcpy(rows.data() + row * kColumns, *block, 3 * kColumns * sizeof(float));
    }
    return rows;
  }

  std::string Error(const ImportOptions& options) { return std::string(Rows(options).status().message()); }

  void ExpectScaled(const ImportOptions& options, const std::vector<float>& scale_of_token) {
    const auto rows = Rows(options);
    ASSERT_TRUE(rows.ok()) << rows.status();
    const std::vector<int8_t> elements = Elements();
    for (size_t idx = 0; idx < elements.size(); ++idx) {
      ASSERT_EQ((*rows)[idx], scale_of_token[idx / kColumns] * elements[idx]) << idx;
    }
  }

  TemporaryFolder folder_;
};

TEST_F(QuantizedImportTest, AScaleForEachTokenOrDocumentOrForAll) {
  const std::vector<float> per_token = {0.5, 2, 0.25, 1, 0, 4};
  ExpectScaled(I8(per_token, {6}), per_token);
  ExpectScaled(I8(per_token, {6, 1}), per_token);
  const std::vector<float> per_document = {0.5, 0.5, 2, 0.25, 0.25, 0.25};
  ExpectScaled(I8({0.5, 2, 0.25}, {3}), per_document);
  ExpectScaled(I8({0.5, 2, 0.25}, {3, 1}), per_document);
  ExpectScaled(I8({0.125}, {1}), std::vector<float>(6, 0.125));
  ExpectScaled(I8({0.125}, {}), std::vector<float>(6, 0.125));
}

TEST_F(QuantizedImportTest, NpyFilesToo) {
  ImportOptions options;
  options.tokens = folder_.Path("tokens.npy");
  options.lengths = folder_.Path("lengths.npy");
  options.scales = folder_.Path("scales.npy");
  WriteBytes(options.tokens, NpyBytes("|i1", "(6, 8)", AsBytes(Elements())));
  WriteBytes(options.lengths, NpyBytes("<i4", "(3,)", AsBytes<int32_t>({2, 1, 3})));
  WriteBytes(options.scales, NpyBytes("<f8", "(3,)", AsBytes<double>({0.5, 2, 0.25})));
  ExpectScaled(options, {0.5, 0.5, 2, 0.25, 0.25, 0.25});
  options.scales.clear();
  EXPECT_THAT(Error(options), HasSubstr("tokens.npy: i8 values need \"scales\", one for each document or each token"));
  WriteBytes(options.tokens, NpyBytes("<f4", "(6, 8)", std::string(6 * 8 * 4, '\0')));
  options.scales = folder_.Path("scales.npy");
  EXPECT_THAT(Error(options), HasSubstr("f32 values with scales"));
}

TEST_F(QuantizedImportTest, ScalesThatAreNoneAreRefused) {
  EXPECT_THAT(Error(I8({1, 1}, {2})),
              HasSubstr("scales: f32 [2], floating-point values expected, one for each of the 3 "
                        "documents or of the 6 tokens, or one for all"));
  EXPECT_THAT(Error(I8({1, 1, 1, 1, 1, 1}, {3, 2})), HasSubstr("scales: f32 [3, 2]"));
  EXPECT_THAT(Error(I8({1, -1, 1}, {3})), HasSubstr("scales[1]: -1 is not a finite number, 0 or more"));
  EXPECT_THAT(Error(I8({1, 1, std::nanf("")}, {3})), HasSubstr("scales[2]: nan"));
  EXPECT_THAT(Error(I8({1, 1, 1, 1, 1, std::numeric_limits<float>::infinity()}, {6})), HasSubstr("scales[5]: inf"));
  EXPECT_THAT(Error(Safetensors({{"tokens", "I8", {kNumTokens, kColumns}, AsBytes(Elements())},
                                 {"scales", "I32", {3}, AsBytes<int32_t>({1, 1, 1})}})),
              HasSubstr("scales: i32 [3], floating-point values expected"));
  EXPECT_THAT(Error(Safetensors({{"tokens", "I8", {kNumTokens, kColumns}, AsBytes(Elements())}})),
              HasSubstr("i8 values need \"scales\""));
  EXPECT_THAT(Error(Safetensors({{"tokens", "U8", {kNumTokens, kColumns}, AsBytes(Elements())}})),
              HasSubstr("u8 values; f16, bf16, f32, f64, f8_e4m3 and, with scales, i8 can be imported"));
  EXPECT_THAT(Error(Safetensors({{"tokens", "F16", {kNumTokens, kColumns}, std::string(96, '\0')},
                                 {"scales", "F32", {3}, AsBytes<float>({1, 1, 1})}})),
              HasSubstr("f16 values with scales; only i8 and f8_e4m3 ones can have them"));
  EXPECT_THAT(Error(Safetensors({{"tokens", "F16", {kNumTokens, kColumns}, std::string(96, '\0')}},
                                {{"rotation", "hadamard"}, {"rotation_seed", "1"}})),
              HasSubstr("f16 values with a rotation"));
}

// The values are those of the format's definition (OCP 8-bit floating point). F16 must hold each of them exactly.
TEST(F8E4M3Test, EveryByteHasItsValueAndF16HoldsIt) {
  EXPECT_EQ(F8E4M3ToF32(0x00), 0.0F);
  EXPECT_EQ(F8E4M3ToF32(0x01), 0x1p-9F);    // the smallest value
  EXPECT_EQ(F8E4M3ToF32(0x07), 0x1.cp-7F);  // the largest subnormal
  EXPECT_EQ(F8E4M3ToF32(0x08), 0x1p-6F);    // the smallest normal
  EXPECT_EQ(F8E4M3ToF32(0x38), 1.0F);
  EXPECT_EQ(F8E4M3ToF32(0x3c), 1.5F);
  EXPECT_EQ(F8E4M3ToF32(0x7e), 448.0F);  // the largest value
  EXPECT_EQ(F8E4M3ToF32(0xfe), -448.0F);
  EXPECT_TRUE(std::signbit(F8E4M3ToF32(0x80)));
  EXPECT_TRUE(std::isnan(F8E4M3ToF32(0x7f)));
  EXPECT_TRUE(std::isnan(F8E4M3ToF32(0xff)));
  for (int byte = 0; byte < 0x7f; ++byte) {
    const float value = F8E4M3ToF32(static_cast<uint8_t>(byte));
    EXPECT_EQ(F16ToF32(F32ToF16(value)), value) << byte;
    if (byte > 0) {
      EXPECT_GT(value, F8E4M3ToF32(static_cast<uint8_t>(byte - 1))) << byte;
    }
    EXPECT_EQ(F8E4M3ToF32(static_cast<uint8_t>(byte | 0x80)), -value) << byte;
  }
}

TEST_F(QuantizedImportTest, F8IsExactInF16) {
  std::string bytes;
  for (int64_t idx = 0; idx < kNumTokens * kColumns; ++idx)
    bytes += static_cast<char>((idx * 5) % 0x7f + (idx % 2) * 0x80);
  const ImportOptions options = Safetensors({{"tokens", "F8_E4M3", {kNumTokens, kColumns}, bytes}});
  absl::StatusOr<Import> import = OpenImport(options);
  ASSERT_TRUE(import.ok()) << import.status();
  const auto manifest =
      BuildCollection({.folder = folder_.Path("out"), .name = "x"}, *import->catalog, *import->tokens, nullptr);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const auto shard = *Shard::Open(folder_.Path("out"), *manifest, manifest->shards[0], Access::kCopied, true);
  const auto* stored = static_cast<const uint16_t*>(shard->documents().tokens);
  for (size_t idx = 0; idx < bytes.size(); ++idx) {
    EXPECT_EQ(F16ToF32(stored[idx]), F8E4M3ToF32(static_cast<uint8_t>(bytes[idx]))) << idx;
  }
}

TEST_F(QuantizedImportTest, F8MayHaveScalesAndNoNaN) {
  std::string bytes(kNumTokens * kColumns, '\x38');  // every element is 1
  const std::vector<float> scales = {0.5, 2, 3};
  const auto with_scales = [&] {
    return Safetensors({{"tokens", "F8_E4M3", {kNumTokens, kColumns}, bytes}, {"scales", "F32", {3}, AsBytes(scales)}});
  };
  const auto rows = Rows(with_scales());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ((*rows)[0], 0.5F);
  EXPECT_EQ((*rows)[2 * kColumns], 2.0F);
  EXPECT_EQ((*rows)[6 * kColumns - 1], 3.0F);
  bytes[2 * kColumns + 3] = '\x7f';
  absl::StatusOr<Import> import = OpenImport(with_scales());
  ASSERT_TRUE(import.ok()) << import.status();
  const auto built =
      BuildCollection({.folder = folder_.Path("out"), .name = "x"}, *import->catalog, *import->tokens, nullptr);
  EXPECT_THAT(std::string(built.status().message()),
              HasSubstr("tokens: row 2, column 3 (token 0 of document 1, id 1): nan is not finite"));
}

// An i8 shard stores rotated vectors. An import must rotate them back, or the collection would have other vectors.
TEST_F(QuantizedImportTest, AShardOfOurOwnIsRotatedBack) {
  SmallCollection collection;
  collection.dim = 20;
  const auto manifest = BuildSmall(
      collection, {.folder = folder_.Path("i8"), .name = "x", .storage = ScalarType::kI8, .rotation_seed = 99});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ImportOptions options;
  options.inputs = {folder_.Path(Cat("i8/", manifest->shards[0].file))};
  absl::StatusOr<Import> import = OpenImport(options);
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_EQ(import->catalog->ids.string_id(2), collection.ids[2]);
  const absl::StatusOr<const void*> rows = import->tokens->Next(collection.num_tokens());
  ASSERT_TRUE(rows.ok()) << rows.status();
  const std::vector<float> expected = collection.Values();
  double error = 0, norm = 0;
  for (size_t idx = 0; idx < expected.size(); ++idx) {
    const double difference = static_cast<const float*>(*rows)[idx] - expected[idx];
    error += difference * difference;
    norm += static_cast<double>(expected[idx]) * expected[idx];
  }
  EXPECT_LT(std::sqrt(error / norm), 0.01);
  EXPECT_GT(error, 0) << "quantising loses something";
}

TEST(UnrotateTest, IsTheInverseOfRotate) {
  for (const int32_t dim : {8, 9, 15, 16, 17, 48, 64, 96, 128, 200, 768, 4096}) {
    std::vector<float> row;
    for (int32_t column = 0; column < dim; ++column) row.push_back(static_cast<float>((column * 29) % 61 - 30) / 32);
    const std::vector<float> original = row;
    Rotate(7, absl::MakeSpan(row));
    EXPECT_NE(row, original) << dim;
    Unrotate(7, absl::MakeSpan(row));
    for (int32_t column = 0; column < dim; ++column) {
      EXPECT_NEAR(row[static_cast<size_t>(column)], original[static_cast<size_t>(column)], 2e-6) << dim;
    }
  }
}

}  // namespace
}  // namespace maxsim::collection
