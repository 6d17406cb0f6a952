// Compares codes and bounds of documents with the reference, bit for bit.
#include "kernels/codes/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/codes/code_levels.h"
#include "kernels/codes/reference_codes.h"
#include "kernels/codes/rounding.h"
#include "kernels/limits.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/kernels/codes/codes_fixture.h"

namespace maxsim {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kEncodeDims[] = {8, 9, 31, 32, 33, 48, 64, 96, 100, 127, 128, 129, 160, 384, 768, 1000, 4096};
constexpr ScalarType kEncodeTypes[] = {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8};

class CodeEncodeTest : public testing::Test {
 protected:
  const uint64_t seed_ = test::TestSeed();
  testing::ScopedTrace trace_{__FILE__, __LINE__, test::SeedTrace(seed_)};
};

void ExpectCellsOfReference(const CodesView& codes, const DocumentsView& documents) {
  for (int64_t token = 0; token < documents.num_tokens(); ++token) {
    ASSERT_EQ(StoredCells(codes, token), ReferenceCells(codes.shape, documents, token)) << "token " << token;
  }
}

void ExpectRoundedUp(uint16_t bits, double exact, const char* what) {
  const double stored = F16ToF32(bits);
  EXPECT_GE(stored, exact) << what;
  // Rounding up to F16, which has 11 significant bits, adds less than 2^-9 of the value. The absolute term covers the
  // residual's margin: 2^-38 of a squared norm.
  EXPECT_LE(stored, exact * (1 + 0x1p-9) + 0x1p-18) << what;
}

void ExpectBoundsOfReference(const CodesView& codes, const DocumentsView& documents) {
  for (const int planes : {1, 2, 4}) {
    for (int64_t document = 0; document < documents.num_documents; ++document) {
      SCOPED_TRACE(testing::Message() << planes << " planes, document " << document);
      const ReferenceBound expected = ReferenceBoundOf(codes, documents, planes, document);
      const CodeBound& bound = codes.bounds[BoundIndex(planes)][document];
      ExpectRoundedUp(bound.slope, expected.slope, "slope");
      ExpectRoundedUp(bound.residual, expected.residual, "residual");
      ExpectRoundedUp(bound.length, expected.length, "length");
      ExpectRoundedUp(bound.norm, expected.norm, "norm");
    }
  }
}

TEST_F(CodeEncodeTest, BitsAndBoundsAreThoseOfTheReference) {
  for (const int32_t dim : kEncodeDims) {
    for (const ScalarType type : kEncodeTypes) {
      if (dim > 400 && type != ScalarType::kF16 && test::kSanitized) continue;
      for (const bool factors : {false, true}) {
        SCOPED_TRACE(testing::Message() << "d " << dim << ", " << Name(type) << (factors ? ", factors" : ""));
        const test::RandomDocuments documents =
            test::MakeDocuments(seed_, type, dim, test::RandomLengths(seed_, 5, 1, 40));
        const EncodedDocuments codes = test::Encoded(documents.view(), factors);
        ASSERT_TRUE(ValidateCodes(codes.view()).ok());
        ExpectCellsOfReference(codes.view(), documents.view());
        ExpectBoundsOfReference(codes.view(), documents.view());
      }
    }
  }
}

TEST_F(CodeEncodeTest, BoundsHoldForNormsThatDiffer) {
  for (const bool factors : {false, true}) {
    test::RandomDocuments documents =
        test::MakeDocuments(seed_, ScalarType::kF32, 96, test::RandomLengths(2, 9, 1, 50));
    test::SpreadNorms(seed_, 300, &documents);
    const EncodedDocuments codes = test::Encoded(documents.view(), factors);
    ExpectCellsOfReference(codes.view(), documents.view());
    ExpectBoundsOfReference(codes.view(), documents.view());
  }
}

TEST_F(CodeEncodeTest, PaddingBitsAreZero) {
  for (const int32_t dim : {8, 33, 100, 129}) {
    const test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF16, dim, {3, 1});
    const EncodedDocuments encoded = test::Encoded(documents.view(), false);
    const CodesView codes = encoded.view();
    for (int64_t token = 0; token < 4; ++token) {
      for (int32_t column = dim; column < CodeColumns(dim); ++column) {
        const size_t place = static_cast<size_t>(token) * PlaneRowBytes(dim);
        const BitPlace bit = PlaneBit(dim, column);
        const BitPlace field = FieldBit(dim, column);
        EXPECT_EQ(codes.plane0[place + bit.byte] >> bit.bit & 1, 0);
        EXPECT_EQ(codes.plane1[place + bit.byte] >> bit.bit & 1, 0);
        EXPECT_EQ(codes.planes23[2 * place + field.byte] >> field.bit & 3, 0);
      }
    }
  }
}

// Encodes the same vector in three documents: as the only token; multiplied by 4, as one of seven tokens; and as one of
// four tokens. The token's code must be the same in all three.
TEST_F(CodeEncodeTest, ATokensBitsDependOnItsDirectionOnly) {
  test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF32, 100, {1, 7, 4});
  const std::vector<float> row = documents.tokens.Row(0);
  std::vector<float> longer = row;
  for (float& value : longer) value *= 4;
  documents.tokens.SetRow(5, longer);
  documents.tokens.SetRow(11, row);
  const EncodedDocuments encoded = test::Encoded(documents.view(), false);
  const std::vector<CodeCell> cells = StoredCells(encoded.view(), 0);
  EXPECT_EQ(StoredCells(encoded.view(), 5), cells);
  EXPECT_EQ(StoredCells(encoded.view(), 11), cells);
  EXPECT_NE(StoredCells(encoded.view(), 1), cells);
}

TEST_F(CodeEncodeTest, PiecesGiveTheBitsOfTheWhole) {
  const test::RandomDocuments documents =
      test::MakeDocuments(seed_, ScalarType::kF16, 96, test::RandomLengths(seed_, 20, 1, 70));
  const EncodedDocuments whole = test::Encoded(documents.view(), true);
  const CodesView expected = whole.view();
  const auto num_tokens = static_cast<size_t>(documents.view().num_tokens());
  std::vector<uint8_t> plane0(num_tokens * PlaneRowBytes(96), 77);
  std::vector<uint8_t> factors(num_tokens, 77);
  std::vector<float> scales(20, -1);
  std::vector<CodeBound> bounds(20);
  const CodesOutput output = {
      .plane0 = plane0.data(), .factors = factors.data(), .scales = scales.data(), .bounds = {bounds.data()}};
  for (const auto& [begin, end] : {std::pair{13, 20}, std::pair{0, 13}}) {
    ASSERT_TRUE(EncodeRange(expected.shape, documents.view(), begin, end, output).ok());
  }
  EXPECT_TRUE(std::equal(plane0.begin(), plane0.end(), expected.plane0));
  EXPECT_TRUE(std::equal(factors.begin(), factors.end(), expected.factors));
  EXPECT_TRUE(std::equal(scales.begin(), scales.end(), expected.scales));
  EXPECT_TRUE(std::equal(bounds.begin(), bounds.end(), expected.bounds[0]));
}

TEST_F(CodeEncodeTest, ScalesAndFactorsSayHowLongTokensAre) {
  test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF32, 128, {3});
  std::vector<float> row = documents.tokens.Row(0);
  for (float& value : row) value *= 10;
  documents.tokens.SetRow(0, row);
  documents.tokens.SetRow(1, std::vector<float>(128, 0.0f));
  const EncodedDocuments with = test::Encoded(documents.view(), true);
  EXPECT_EQ(with.view().factors[0], kMaxFactor);
  EXPECT_EQ(with.view().factors[1], 0);
  EXPECT_NEAR(with.view().factors[2], kMaxFactor / 10.0, 0.51);
  EXPECT_NEAR(NominalNorm(with.view().shape, with.view().scales[0]), 10, 1e-5);
  const EncodedDocuments without = test::Encoded(documents.view(), false);
  EXPECT_EQ(without.view().factors, nullptr);
  EXPECT_NEAR(NominalNorm(without.view().shape, without.view().scales[0]), std::sqrt((100 + 0 + 1) / 3.0), 1e-5);
}

TEST_F(CodeEncodeTest, DocumentsOfZerosHaveScaleZeroAndNoBound) {
  for (const float value : {0.0f, -0.0f, 1e-40f, 1e-30f}) {
    for (const bool factors : {false, true}) {
      test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF32, 100, {2, 1});
      documents.tokens.SetRow(0, std::vector<float>(100, value));
      documents.tokens.SetRow(1, std::vector<float>(100, -value));
      const EncodedDocuments encoded = test::Encoded(documents.view(), factors);
      EXPECT_EQ(encoded.view().scales[0], 0) << value;
      for (int which = 0; which < 3; ++which) EXPECT_EQ(encoded.view().bounds[which][0], CodeBound{}) << value;
      EXPECT_GT(encoded.view().scales[1], 0);
    }
  }
}

TEST_F(CodeEncodeTest, NormSpreadTellsWhetherNormsDiffer) {
  test::RandomDocuments documents =
      test::MakeDocuments(seed_, ScalarType::kF16, 128, test::RandomLengths(1, 30, 1, 40));
  EXPECT_LT(NormSpread(documents.view()), 0.001);
  test::SpreadNorms(seed_, 1.1f, &documents);
  EXPECT_LT(NormSpread(documents.view()), kMaxNormSpread);
  test::SpreadNorms(seed_, 2, &documents);
  EXPECT_GT(NormSpread(documents.view()), kMaxNormSpread);
}

TEST_F(CodeEncodeTest, UnusableValuesAreRefusedByName) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 2e12f}) {
    test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF32, 16, {2, 3});
    documents.tokens.Set(3, 5, bad);
    const absl::Status status =
        EncodedDocuments::Encode(test::ShapeFor(documents.view(), false), documents.view()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("document 1, token 1, column 5"));
  }
}

TEST_F(CodeEncodeTest, ShapesThatDoNotFitAreRefused) {
  const test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF16, 16, {2, 3});
  const auto message = [&](CodeShape shape, const DocumentsView& view) {
    return std::string(EncodedDocuments::Encode(shape, view).status().message());
  };
  CodeShape shape = test::ShapeFor(documents.view(), false);
  shape.dim = 24;
  EXPECT_THAT(message(shape, documents.view()), HasSubstr("24 columns of f16"));
  shape.dim = 4;
  EXPECT_THAT(message(shape, documents.view()), HasSubstr("codes.dim is 4; must be 8 to 4096"));
  shape.dim = 16;
  shape.originals = ScalarType::kBF16;
  EXPECT_THAT(message(shape, documents.view()), HasSubstr("of bf16"));
  // A document without tokens has no maximum.
  test::RandomDocuments empty = documents;
  empty.offsets = {0, 2, 2, 5};
  EXPECT_FALSE(EncodedDocuments::Encode(test::ShapeFor(empty.view(), false), empty.view()).ok());
}

TEST_F(CodeEncodeTest, NoDocumentsAreACodeOfNothing) {
  const test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF16, 16, {});
  const EncodedDocuments encoded = test::Encoded(documents.view(), false);
  EXPECT_EQ(encoded.view().num_documents, 0);
  EXPECT_TRUE(ValidateCodes(encoded.view()).ok());
}

TEST(ValidateCodesTest, SaysWhatIsWrong) {
  const test::RandomDocuments documents = test::MakeDocuments(1, ScalarType::kF16, 16, {2, 3});
  const EncodedDocuments encoded = test::Encoded(documents.view(), false);
  const auto message = [&](auto change) {
    CodesView codes = encoded.view();
    change(codes);
    return std::string(ValidateCodes(codes).message());
  };
  EXPECT_THAT(message([](CodesView& codes) { codes.planes = 3; }), HasSubstr("codes.planes is 3"));
  EXPECT_THAT(message([](CodesView& codes) { codes.plane1 = nullptr; }), HasSubstr("codes.plane1 is null"));
  EXPECT_THAT(message([](CodesView& codes) { codes.planes23 += 4; }), HasSubstr("multiple of 64"));
  EXPECT_THAT(message([](CodesView& codes) { codes.shape.factors = true; }), HasSubstr("codes.factors is null"));
  const int64_t offsets[] = {0, 2, 2};
  EXPECT_THAT(message([&](CodesView& codes) { codes.offsets = offsets; }), HasSubstr("document 1 has 0 tokens"));
  const float scales[] = {1, -1};
  EXPECT_THAT(message([&](CodesView& codes) { codes.scales = scales; }), HasSubstr("codes.scales[1] is -1"));
}

TEST(RoundingTest, RoundsUpToTheNextNumber) {
  EXPECT_EQ(F16ToF32(RoundUpToF16(1)), 1);
  EXPECT_EQ(F16ToF32(RoundUpToF16(1 + 1e-9)), 1 + 0x1p-10f);
  EXPECT_EQ(F16ToF32(RoundUpToF16(1 + 0x1p-10)), 1 + 0x1p-10f);
  EXPECT_EQ(F16ToF32(RoundUpToF16(1e-12)), 0x1p-24f);
  EXPECT_EQ(RoundUpToF16(0), 0);
  EXPECT_EQ(F16ToF32(RoundUpToF16(65505)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(RoundUpToF32(1 + 1e-12), std::nextafter(1.0f, 2.0f));
  EXPECT_EQ(RoundUpToF32(-1 - 1e-12), -1);
}

// Returns FNV-1a of bytes.
uint64_t Hash(const void* data, size_t num_bytes, uint64_t hash) {
  for (size_t idx = 0; idx < num_bytes; ++idx) {
    hash = (hash ^ static_cast<const uint8_t*>(data)[idx]) * 0x100000001b3;
  }
  return hash;
}

// Files store codes, so the encoder's output must never change. The expected hashes come from a Python program that was
// written from the descriptions in kernels/codes.
TEST(CodeBitsTest, NeverChange) {
  const auto hash_of = [](int32_t dim, bool factors) {
    // Uses only integers and few operations, so that every machine makes the same vectors.
    test::RandomDocuments documents = test::MakeDocuments(1, ScalarType::kF32, dim, {3, 2});
    uint64_t state = 1;
    for (int64_t token = 0; token < 5; ++token) {
      std::vector<float> row(dim);
      for (float& value : row) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        value = static_cast<float>(static_cast<int32_t>(state >> 40) - (1 << 23));
      }
      documents.tokens.SetRow(token, row);
    }
    const EncodedDocuments encoded = test::Encoded(documents.view(), factors);
    const CodesView codes = encoded.view();
    uint64_t hash = Hash(codes.plane0, 5 * PlaneRowBytes(dim), 0xcbf29ce484222325);
    hash = Hash(codes.plane1, 5 * PlaneRowBytes(dim), hash);
    hash = Hash(codes.planes23, 5 * FieldRowBytes(dim), hash);
    hash = Hash(codes.scales, 2 * sizeof(float), hash);
    for (const CodeBound* bounds : codes.bounds) hash = Hash(bounds, 2 * sizeof(CodeBound), hash);
    return factors ? Hash(codes.factors, 5, hash) : hash;
  };
  EXPECT_EQ(hash_of(8, false), 0xf980b4d3dcc2a865);
  EXPECT_EQ(hash_of(100, true), 0xd9b13c8d193823e5);
  EXPECT_EQ(hash_of(128, false), 0x3058434d6f6ff3a9);
}

}  // namespace
}  // namespace maxsim
