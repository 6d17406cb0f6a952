#include "kernels/scalar_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "kernels/limits.h"
#include "tests/support/values/random_documents.h"

namespace maxsim {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<uint16_t> AllPatterns() {
  std::vector<uint16_t> patterns(65536);
  for (size_t idx = 0; idx < patterns.size(); ++idx) patterns[idx] = static_cast<uint16_t>(idx);
  return patterns;
}

// Returns the value of an FP16 pattern, by the format's definition.
double HalfValue(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? kNan : sign * kInfinity;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

std::vector<float> Widen(ScalarType type, const std::vector<uint16_t>& values) {
  std::vector<float> floats(values.size(), kNan);
  ConvertElements(type, values.data(), ScalarType::kF32, floats.data(), values.size());
  return floats;
}

std::vector<uint16_t> Narrow(ScalarType type, const std::vector<float>& values) {
  std::vector<uint16_t> halves(values.size(), 0xdead);
  ConvertElements(ScalarType::kF32, values.data(), type, halves.data(), values.size());
  return halves;
}

TEST(ScalarTypeTest, EveryHalfHasItsValue) {
  const std::vector<float> widened = Widen(ScalarType::kF16, AllPatterns());
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double expected = HalfValue(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(widened[bits])) << bits;
    } else {
      ASSERT_EQ(widened[bits], expected) << bits;
      ASSERT_EQ(std::signbit(widened[bits]), std::signbit(expected)) << bits;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(widened[bits]), std::bit_cast<uint32_t>(F16ToF32(static_cast<uint16_t>(bits))));
  }
}

TEST(ScalarTypeTest, EveryPatternSurvivesTheWayThereAndBack) {
  for (ScalarType type : {ScalarType::kF16, ScalarType::kBF16}) {
    const std::vector<uint16_t> patterns = AllPatterns();
    const std::vector<float> widened = Widen(type, patterns);
    const std::vector<uint16_t> back = Narrow(type, widened);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      if (std::isnan(widened[bits])) {
        // A NaN stays a NaN of the same sign.
        ASSERT_TRUE(std::isnan(Widen(type, {back[bits]})[0])) << bits;
        ASSERT_EQ(back[bits] >> 15, bits >> 15);
      } else {
        ASSERT_EQ(back[bits], bits);
      }
    }
  }
}

// The values lie in the middle between two neighbours, and one FP32 step to either side of it.
TEST(ScalarTypeTest, NarrowingRoundsToNearestAndTiesToEven) {
  for (ScalarType type : {ScalarType::kF16, ScalarType::kBF16}) {
    const uint32_t infinity = type == ScalarType::kF16 ? 0x7c00 : 0x7f80;
    std::vector<uint16_t> expected;
    std::vector<float> values;
    for (uint32_t sign : {0u, 0x8000u}) {
      for (uint32_t low = 0; low + 1 < infinity; ++low) {
        const float below = Widen(type, {static_cast<uint16_t>(low)})[0];
        const float above = Widen(type, {static_cast<uint16_t>(low + 1)})[0];
        const auto middle = static_cast<float>((static_cast<double>(below) + above) / 2);
        const float direction = sign != 0 ? -1.0f : 1.0f;
        const auto add = [&](float value, uint32_t pattern) {
          values.push_back(direction * value);
          expected.push_back(static_cast<uint16_t>(sign | pattern));
        };
        add(std::nextafter(middle, 0.0f), low);
        add(middle, low % 2 == 0 ? low : low + 1);
        add(std::nextafter(middle, kInfinity), low + 1);
      }
    }
    const std::vector<uint16_t> narrowed = Narrow(type, values);
    for (size_t idx = 0; idx < values.size(); ++idx) {
      ASSERT_EQ(narrowed[idx], expected[idx]) << values[idx];
      const uint16_t single = type == ScalarType::kF16 ? F32ToF16(values[idx]) : F32ToBf16(values[idx]);
      ASSERT_EQ(single, expected[idx]) << values[idx];
    }
  }
}

TEST(ScalarTypeTest, NarrowingOverflowsToInfinity) {
  EXPECT_EQ(Narrow(ScalarType::kF16, {65519.99f, 65520.0f, -1e30f, kInfinity}),
            (std::vector<uint16_t>{0x7bff, 0x7c00, 0xfc00, 0x7c00}));
  EXPECT_EQ(Narrow(ScalarType::kBF16, {std::numeric_limits<float>::max(), -kInfinity}),
            (std::vector<uint16_t>{0x7f80, 0xff80}));
}

// Long runs of elements and single elements are converted by different code. Both must give the same bits.
TEST(ScalarTypeTest, LongRunsConvertLikeSingleElements) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  std::mt19937_64 generator(seed);
  std::vector<float> values(100003);
  for (float& value : values) value = std::bit_cast<float>(static_cast<uint32_t>(generator()));
  const std::vector<uint16_t> halves = Narrow(ScalarType::kF16, values);
  const std::vector<uint16_t> brains = Narrow(ScalarType::kBF16, values);
  for (size_t idx = 0; idx < values.size(); ++idx) {
    ASSERT_EQ(halves[idx], F32ToF16(values[idx])) << std::bit_cast<uint32_t>(values[idx]);
    ASSERT_EQ(brains[idx], F32ToBf16(values[idx])) << std::bit_cast<uint32_t>(values[idx]);
  }
}

TEST(ScalarTypeTest, NarrowTypesConvertThroughF32) {
  const std::vector<uint16_t> patterns = AllPatterns();
  std::vector<uint16_t> brains(patterns.size());
  ConvertElements(ScalarType::kF16, patterns.data(), ScalarType::kBF16, brains.data(), patterns.size());
  for (size_t idx = 0; idx < patterns.size(); ++idx) {
    ASSERT_EQ(brains[idx], F32ToBf16(F16ToF32(patterns[idx]))) << idx;
  }
}

TEST(ScalarTypeTest, ConvertsAnyCountFromAnyAddress) {
  for (size_t count : {0, 1, 7, 8, 9, 15, 16, 17, 511, 512, 513}) {
    for (size_t shift : {0, 1, 3}) {
      std::vector<unsigned char> source(count * 2 + shift);
      for (size_t idx = 0; idx < count; ++idx) {
        const auto bits = static_cast<uint16_t>(0x3c00 + idx);
        std::memcpy(source.data() + shift + 2 * idx, &bits, 2);
      }
      std::vector<float> target(count + 1, -1.0f);
      ConvertElements(ScalarType::kF16, source.data() + shift, ScalarType::kF32, target.data(), count);
      for (size_t idx = 0; idx < count; ++idx) ASSERT_EQ(target[idx], F16ToF32(static_cast<uint16_t>(0x3c00 + idx)));
      ASSERT_EQ(target[count], -1.0f) << "written past the end";
    }
  }
}

TEST(ScalarTypeTest, FindsTheFirstUnusableElementWhereverItIs) {
  for (size_t count : {1, 8, 511, 512, 513, 2000}) {
    std::vector<float> values(count, kMaxAbsValue);
    EXPECT_EQ(FindUnusableElement(ScalarType::kF32, values.data(), count), std::nullopt);
    for (float bad : {kNan, -kNan, kInfinity, -kInfinity, std::nextafter(kMaxAbsValue, kInfinity), -2 * kMaxAbsValue}) {
      for (size_t place : {size_t{0}, count / 2, count - 1}) {
        std::vector<float> broken(values);
        broken[place] = bad;
        broken[count - 1] = bad;
        EXPECT_EQ(FindUnusableElement(ScalarType::kF32, broken.data(), count), place) << bad;
      }
    }
  }
  EXPECT_EQ(FindUnusableElement(ScalarType::kF32, nullptr, 0), std::nullopt);
}

TEST(ScalarTypeTest, JudgesEveryPatternByItsValue) {
  for (ScalarType type : {ScalarType::kF16, ScalarType::kBF16}) {
    const std::vector<float> widened = Widen(type, AllPatterns());
    // kMaxAbsValue itself rounds up to the BF16 pattern 0x5369, which must therefore be usable, too.
    const float limit = type == ScalarType::kBF16 ? widened[0x5369] : kMaxAbsValue;
    ASSERT_GE(limit, kMaxAbsValue);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto pattern = static_cast<uint16_t>(bits);
      const bool usable = std::fabs(widened[bits]) <= limit;
      ASSERT_EQ(FindUnusableElement(type, &pattern, 1).has_value(), !usable) << bits;
    }
  }
}

TEST(ScalarTypeTest, NamesAndTypesCorrespond) {
  for (ScalarType type : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8}) {
    EXPECT_EQ(ScalarTypeFromName(Name(type)), type);
  }
  EXPECT_EQ(ScalarTypeFromName("F16"), std::nullopt);
  EXPECT_EQ(ScalarTypeFromName(""), std::nullopt);
}

}  // namespace
}  // namespace maxsim
