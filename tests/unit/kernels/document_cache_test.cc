#include "kernels/cuda/host_documents/document_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "tests/support/values/random_documents.h"

namespace maxsim::cuda {
namespace {

using Key = DocumentCache::Key;

constexpr int64_t kBegin = 1000;
constexpr int64_t kCapacity = 32 * 1000;

// Offers a document up to twice, because the cache admits a document only at its second miss. Returns its offset in the
// cache.
std::optional<int64_t> AdmitTwice(DocumentCache& cache, const Key& key, int64_t bytes, int64_t alignment = 1) {
  if (const auto offset = cache.Admit(key, bytes, alignment)) return offset;
  return cache.Admit(key, bytes, alignment);
}

TEST(DocumentCacheTest, AdmitsADocumentAtItsSecondMiss) {
  DocumentCache cache(kBegin, kCapacity);
  const Key key{1, 7};
  EXPECT_EQ(cache.Find(key), std::nullopt);
  EXPECT_EQ(cache.Admit(key, 100, 16), std::nullopt);
  EXPECT_EQ(cache.Find(key), std::nullopt);
  EXPECT_EQ(cache.Admit(key, 100, 16), 1008);
  EXPECT_EQ(cache.Find(key), 1008);
  EXPECT_EQ(cache.Find({2, 7}), std::nullopt);
  EXPECT_EQ(cache.Find({1, 8}), std::nullopt);
}

// For any sequence of documents, cached documents are aligned, inside the region, and do not overlap.
TEST(DocumentCacheTest, HeldDocumentsNeverShareMemory) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  std::mt19937_64 random(seed);
  DocumentCache cache(kBegin, kCapacity);
  std::vector<int64_t> bytes(400);
  for (int64_t& size : bytes) size = 1 + static_cast<int64_t>(random() % 700);
  for (int pass = 0; pass < 500; ++pass) {
    cache.BeginPass();
    std::map<int64_t, int64_t> used;  // begin and end of what this pass uses
    for (int i = 0; i < 20; ++i) {
      const auto n = static_cast<uint32_t>(random() % 20 * (random() % 20));
      auto place = cache.Find({1, n});
      if (!place.has_value()) place = cache.Admit({1, n}, bytes[n], 24);
      if (!place.has_value()) continue;
      EXPECT_EQ(*place % 24, 0);
      EXPECT_GE(*place, kBegin);
      EXPECT_LE(*place + bytes[n], kBegin + kCapacity);
      used[*place] = *place + bytes[n];
    }
    int64_t end = 0;
    for (const auto& [first, last] : used) {
      EXPECT_GE(first, end);
      end = last;
    }
  }
  EXPECT_GT(cache.num_documents(), 20u);
}

TEST(DocumentCacheTest, OnePassOverManyDocumentsLeavesItAsItWas) {
  DocumentCache cache(kBegin, kCapacity);
  for (uint32_t n = 0; n < 50; ++n) ASSERT_TRUE(AdmitTwice(cache, {1, n}, 400).has_value());
  for (uint32_t n = 1000; n < 5000; ++n) {
    cache.BeginPass();
    EXPECT_EQ(cache.Find({1, n}), std::nullopt);
    // The cache remembers missed documents inexactly: it may mistake one of these for an earlier one and admit it. That
    // happens to fewer than one in a hundred.
    cache.Admit({1, n}, 400, 1);
  }
  size_t held = 0;
  for (uint32_t n = 0; n < 50; ++n) held += cache.Find({1, n}).has_value() ? 1 : 0;
  EXPECT_GE(held, 40u);
}

TEST(DocumentCacheTest, TheOldestMakeRoomAndThoseThatWereHitComeBackAtOnce) {
  DocumentCache cache(kBegin, kCapacity);
  ASSERT_TRUE(AdmitTwice(cache, {1, 0}, 900).has_value());
  ASSERT_TRUE(AdmitTwice(cache, {1, 1}, 900).has_value());
  ASSERT_TRUE(cache.Find({1, 0}).has_value());
  bool overwrote = false;
  for (uint32_t n = 100; n < 134; ++n) {
    cache.BeginPass();
    ASSERT_TRUE(AdmitTwice(cache, {1, n}, 900).has_value()) << n;
    overwrote = overwrote || cache.Overwrites();
  }
  EXPECT_TRUE(overwrote);
  cache.BeginPass();
  EXPECT_FALSE(cache.Overwrites());
  EXPECT_EQ(cache.Find({1, 0}), std::nullopt);
  EXPECT_EQ(cache.Find({1, 1}), std::nullopt);
  EXPECT_TRUE(cache.Admit({1, 0}, 900, 1).has_value());
}

TEST(DocumentCacheTest, APassOverwritesNothingThatItReads) {
  DocumentCache cache(kBegin, kCapacity);
  for (uint32_t n = 0; n < 32; ++n) {
    cache.BeginPass();
    ASSERT_TRUE(AdmitTwice(cache, {1, n}, 900).has_value());
  }
  cache.BeginPass();
  ASSERT_TRUE(cache.Find({1, 0}).has_value());  // the oldest document
  EXPECT_EQ(AdmitTwice(cache, {1, 50}, 900), std::nullopt);
  EXPECT_TRUE(cache.Find({1, 0}).has_value());
  cache.BeginPass();
  EXPECT_TRUE(AdmitTwice(cache, {1, 50}, 900).has_value());
}

TEST(DocumentCacheTest, DocumentsLongerThanASegmentAreNotHeld) {
  DocumentCache cache(kBegin, kCapacity);
  EXPECT_EQ(AdmitTwice(cache, {1, 0}, 1001), std::nullopt);
  EXPECT_TRUE(AdmitTwice(cache, {1, 1}, 990).has_value());
}

TEST(DocumentCacheTest, WithoutMemoryItHoldsNothing) {
  DocumentCache cache(kBegin, 0);
  EXPECT_EQ(AdmitTwice(cache, {1, 0}, 1), std::nullopt);
  EXPECT_EQ(cache.Find({1, 0}), std::nullopt);
}

TEST(DocumentCacheTest, AfterClearNothingIsFound) {
  DocumentCache cache(kBegin, kCapacity);
  ASSERT_TRUE(AdmitTwice(cache, {1, 0}, 10).has_value());
  cache.Clear();
  EXPECT_EQ(cache.Find({1, 0}), std::nullopt);
  EXPECT_EQ(cache.num_documents(), 0u);
}

}  // namespace
}  // namespace maxsim::cuda
