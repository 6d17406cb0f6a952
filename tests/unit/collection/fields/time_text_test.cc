// Times of RFC 3339.
#include "collection/fields/time_text.h"

#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::collection {
namespace {

TEST(TimeTextTest, TimesAreMicrosecondsSince1970) {
  EXPECT_EQ(ParseTime("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(ParseTime("1970-01-01t00:00:01.000002z"), 1'000'002);
  EXPECT_EQ(ParseTime("1969-12-31T23:59:59.999999Z"), -1);
  EXPECT_EQ(ParseTime("2026-01-02T03:04:05+01:30"), ParseTime("2026-01-02T01:34:05Z"));
  EXPECT_EQ(ParseTime("2026-01-02T03:04:05-01:30"), ParseTime("2026-01-02T04:34:05Z"));
  EXPECT_EQ(ParseTime("2026-01-02T03:04:05.1234567891234Z"), ParseTime("2026-01-02T03:04:05.123456Z"));
  EXPECT_EQ(ParseTime("2016-12-31T23:59:60Z"), ParseTime("2017-01-01T00:00:00Z"));
  EXPECT_EQ(ParseTime("0000-01-01T00:00:00Z"), kMinTimeMicros);
  EXPECT_EQ(ParseTime("9999-12-31T23:59:59.999999Z"), kMaxTimeMicros);
  EXPECT_NE(ParseTime("2024-02-29T00:00:00Z"), std::nullopt);
}

TEST(TimeTextTest, OtherTextIsNoTime) {
  for (const char* const text : {"",
                                 "2026-01-02",
                                 "2026-01-02T03:04:05",
                                 "2026-01-02 03:04:05Z",
                                 "2026-1-02T03:04:05Z",
                                 "2026-13-02T03:04:05Z",
                                 "2026-00-02T03:04:05Z",
                                 "2026-01-00T03:04:05Z",
                                 "2026-02-29T03:04:05Z",
                                 "1900-02-29T03:04:05Z",
                                 "2026-04-31T03:04:05Z",
                                 "2026-01-02T24:00:00Z",
                                 "2026-01-02T03:60:05Z",
                                 "2026-01-02T03:04:61Z",
                                 "2026-01-02T03:04:05.Z",
                                 "2026-01-02T03:04:05+0130",
                                 "2026-01-02T03:04:05+24:00",
                                 "2026-01-02T03:04:05+01:60",
                                 "2026-01-02T03:04:05Zx",
                                 " 2026-01-02T03:04:05Z",
                                 "+026-01-02T03:04:05Z",
                                 "0000-01-01T00:00:00+00:01",
                                 "9999-12-31T23:59:59-00:01",
                                 "2026-01-02T03:04:05+",
                                 "2026-01-02T03:04:05,5Z"}) {
    EXPECT_EQ(ParseTime(text), std::nullopt) << text;
  }
}

// abseil knows the calendar by other means.
TEST(TimeTextTest, RandomTimesAreThoseOfAbseilAndReturn) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int64_t> times(kMinTimeMicros, kMaxTimeMicros);
  for (int round = 0; round < 20'000; ++round) {
    int64_t time = times(random);
    if (round % 3 == 0) time -= (time - kMinTimeMicros) % 1'000'000;
    const std::string text = FormatTime(time);
    ASSERT_EQ(ParseTime(text), time) << text;
    const absl::Time expected = absl::FromUnixMicros(time);
    const char* const format = round % 3 == 0 ? "%E4Y-%m-%dT%H:%M:%SZ" : "%E4Y-%m-%dT%H:%M:%E6SZ";
    ASSERT_EQ(text, absl::FormatTime(format, expected, absl::UTCTimeZone()));
  }
}

}  // namespace
}  // namespace maxsim::collection
