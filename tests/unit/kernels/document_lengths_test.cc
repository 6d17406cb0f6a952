// Tests that statistics of document lengths, updated as documents are appended, agree with those of all documents at
// once.
#include "kernels/plan/document_lengths.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/limits.h"
#include "kernels/plan/shares.h"

namespace maxsim {
namespace {

std::vector<int64_t> OffsetsOf(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets = {0};
  for (int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

DocumentLengths LengthsOf(const std::vector<int64_t>& lengths) {
  const std::vector<int64_t> offsets = OffsetsOf(lengths);
  DocumentLengths counted;
  counted.Add(offsets.data(), static_cast<int64_t>(lengths.size()));
  return counted;
}

int64_t SpreadOf(const std::vector<int64_t>& lengths) {
  return SpreadTokens(OffsetsOf(lengths).data(), static_cast<int64_t>(lengths.size()));
}

TEST(DocumentLengthsTest, EqualDocumentsAreKnownUntilAnotherComes) {
  DocumentLengths lengths;
  EXPECT_EQ(lengths.num_documents(), 0);
  EXPECT_EQ(lengths.document_tokens(), 0);
  EXPECT_EQ(lengths.longest_tokens(), 0);
  EXPECT_EQ(lengths.spread_tokens(), 0);
  const std::vector<int64_t> offsets = {0, 9, 18, 27};
  lengths.Add(offsets.data(), 1);
  lengths.Add(offsets.data(), 3);
  EXPECT_EQ(lengths.num_documents(), 4);
  EXPECT_EQ(lengths.num_tokens(), 36);
  EXPECT_EQ(lengths.document_tokens(), 9);
  EXPECT_EQ(lengths.longest_tokens(), 9);
  EXPECT_EQ(lengths.spread_tokens(), 0);
  const std::vector<int64_t> shorter = {0, 4};
  lengths.Add(shorter.data(), 1);
  EXPECT_EQ(lengths.document_tokens(), 0);
  EXPECT_EQ(lengths.longest_tokens(), 9);
  lengths.Add(offsets.data(), 3);
  EXPECT_EQ(lengths.document_tokens(), 0);
  EXPECT_EQ(lengths.num_documents(), 8);
}

TEST(DocumentLengthsTest, TheSpreadIsThatOfAllDocuments) {
  std::mt19937_64 generator(7);
  for (int64_t longest : {2, 31, 300, 5000}) {
    std::uniform_int_distribution<int64_t> any(1, longest);
    std::vector<int64_t> lengths;
    DocumentLengths counted;
    for (int step = 0; step < 50; ++step) {
      std::vector<int64_t> more;
      for (int n = 0; n <= step % 4; ++n) more.push_back(any(generator));
      lengths.insert(lengths.end(), more.begin(), more.end());
      counted.Add(OffsetsOf(more).data(), static_cast<int64_t>(more.size()));
    }
    EXPECT_EQ(counted.num_tokens(), OffsetsOf(lengths).back());
    EXPECT_EQ(counted.spread_tokens(), SpreadOf(lengths)) << "longest " << longest;
  }
}

// The bound is sixteen times the mean.
TEST(DocumentLengthsTest, FewLongDocumentsAreBoundedAsTheSpreadBoundsThem) {
  std::vector<int64_t> lengths(10000, 100);
  for (int64_t length : {kMaxDocumentTokens, int64_t{40000}, int64_t{9000}}) lengths.push_back(length);
  EXPECT_EQ(LengthsOf(lengths).spread_tokens(), SpreadOf(lengths));
  // Lengths are bounded by sixteen times the mean. The statistics count documents by powers of two of their length, so
  // near the bound they are only estimates.
  std::vector<int64_t> around(100000, 100);
  for (int64_t length = 1100; length < 2000; length += 10) around.push_back(length);
  const auto exact = static_cast<double>(SpreadOf(around));
  EXPECT_NEAR(static_cast<double>(LengthsOf(around).spread_tokens()), exact, exact / 5);
  EXPECT_GT(exact, 10);
}

TEST(DocumentLengthsTest, TheLongestDocumentsHaveAPlace) {
  const DocumentLengths lengths = LengthsOf({1, kMaxDocumentTokens});
  EXPECT_EQ(lengths.longest_tokens(), kMaxDocumentTokens);
  EXPECT_EQ(lengths.spread_tokens(), SpreadOf({1, kMaxDocumentTokens}));
}

}  // namespace
}  // namespace maxsim
