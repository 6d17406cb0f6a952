#include "server/encoder/encoder_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/server/encoder/encoder_fixture.h"

namespace maxsim::encoder {
namespace {

using test::FakeEncoder;
using ::testing::HasSubstr;

EncodedText Matrix(size_t num_values) {
  return {.num_tokens = 1, .dim = static_cast<int32_t>(num_values), .values = std::vector<float>(num_values, 1)};
}

TEST(EncoderCacheTest, TheLeastRecentlyUsedTextGoesFirst) {
  EncoderCache cache(3 * (400 + 300), nullptr);
  const EncoderIdentity identity{.model = "m"};
  for (const char* text : {"a", "b", "c"}) cache.Add(identity, 0, text, Matrix(100));
  ASSERT_NE(cache.Find(identity, 0, "a"), nullptr);
  cache.Add(identity, 0, "d", Matrix(100));
  EXPECT_NE(cache.Find(identity, 0, "a"), nullptr);
  EXPECT_EQ(cache.Find(identity, 0, "b"), nullptr);
  EXPECT_NE(cache.Find(identity, 0, "c"), nullptr);
  EXPECT_NE(cache.Find(identity, 0, "d"), nullptr);
  EXPECT_LE(cache.num_bytes(), 3 * 700u);
}

TEST(EncoderCacheTest, AMatrixLargerThanTheCacheIsNotKept) {
  EncoderCache cache(1000, nullptr);
  cache.Add({}, 0, "small", Matrix(10));
  cache.Add({}, 0, "large", Matrix(1000));
  EXPECT_NE(cache.Find({}, 0, "small"), nullptr);
  EXPECT_EQ(cache.Find({}, 0, "large"), nullptr);
  EncoderCache none(0, nullptr);
  none.Add({}, 0, "a", Matrix(1));
  EXPECT_EQ(none.Find({}, 0, "a"), nullptr);
}

TEST(EncoderCacheTest, ATextThatIsAddedTwiceTakesItsRoomOnce) {
  EncoderCache cache(10000, nullptr);
  cache.Add({}, 0, "a", Matrix(10));
  const uint64_t bytes = cache.num_bytes();
  cache.Add({}, 0, "a", Matrix(10));
  EXPECT_EQ(cache.num_bytes(), bytes);
}

TEST(EncoderCacheTest, AnotherEncoderOrBoundHasItsOwnEntries) {
  EncoderCache cache(100000, nullptr);
  const EncoderIdentity one{.model = "m", .fingerprint = "f"};
  cache.Add(one, 0, "a", Matrix(1));
  EXPECT_NE(cache.Find(one, 0, "a"), nullptr);
  EXPECT_EQ(cache.Find(one, 5, "a"), nullptr);
  EXPECT_EQ(cache.Find({.model = "m", .fingerprint = "g"}, 0, "a"), nullptr);
  // Parts may not run into one another.
  EXPECT_EQ(cache.Find({.model = "mf"}, 0, "a"), nullptr);
  EXPECT_EQ(cache.Find({.model = "m"}, 0, "fa"), nullptr);
}

TEST(CachedEncoderTest, AQueryIsEncodedOnceAndADocumentEachTime) {
  Metrics metrics;
  FakeEncoder fake(Right);
  CachedEncoder encoder(MakeEncoder(OptionsFor(fake)), 1 << 20, &metrics);
  for (int idx = 0; idx < 3; ++idx) ExpectMatrices(EncodeNow(encoder, Queries({"two words"})), {"two words"});
  EXPECT_EQ(fake.num_calls(), 1);
  for (int idx = 0; idx < 2; ++idx) ExpectMatrices(EncodeNow(encoder, Documents({"two words"})), {"two words"});
  EXPECT_EQ(fake.num_calls(), 3);
  const std::string text = metrics.Expose();
  EXPECT_THAT(text, HasSubstr("maxsim_encoder_cache_hits_total 2"));
  EXPECT_THAT(text, HasSubstr("maxsim_encoder_cache_misses_total 1"));
  EXPECT_EQ(text.find("maxsim_encoder_cache_bytes 0"), std::string::npos);
}

TEST(CachedEncoderTest, AnErrorIsNotKept) {
  FakeEncoder fake(
      [](const test::FakeCall& call) { return call.number == 0 ? test::FakeReply{.status = 500} : Right(call); });
  CachedEncoder encoder(MakeEncoder(OptionsFor(fake)), 1 << 20, nullptr);
  EXPECT_FALSE(EncodeNow(encoder, Queries({"one"})).ok());
  ExpectMatrices(EncodeNow(encoder, Queries({"one"})), {"one"});
}

}  // namespace
}  // namespace maxsim::encoder
