#include "server/store/collection/document_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

// A part with documents of these lengths. `known` is the length that all documents have, or 0 if lengths differ.
struct Part {
  explicit Part(const std::vector<int64_t>& lengths, int64_t known = 0) : document_tokens(known) {
    for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  }

  DocumentsView view() const {
    return {.type = ScalarType::kF16,
            .dim = 16,
            .num_documents = static_cast<int64_t>(offsets.size()) - 1,
            .offsets = offsets.data(),
            .document_tokens = document_tokens};
  }

  std::vector<int64_t> offsets = {0};
  int64_t document_tokens;
};

TEST(DocumentLengthsTest, AreThoseOfTheOffsetsFromTheShortestToTheLongest) {
  const Part first({1, kMaxDocumentTokens, 7});
  const Part second({300, 2});
  const DocumentLengths lengths({first.view(), second.view()});
  std::vector<int64_t> all;
  for (uint64_t ordinal = 0; ordinal < 5; ++ordinal) all.push_back(lengths.Of(ordinal));
  EXPECT_THAT(all, testing::ElementsAre(1, kMaxDocumentTokens, 7, 300, 2));
  EXPECT_EQ(lengths.Sum(std::vector<uint64_t>{4, 1, 0}), 2u + kMaxDocumentTokens + 1u);
  EXPECT_EQ(lengths.Sum(3, std::vector<uint32_t>{1, 0}), 302u) << "ordinals of the second part";
  EXPECT_EQ(lengths.Sum(std::vector<uint64_t>{}), 0u);
  EXPECT_EQ(lengths.num_bytes(), DocumentLengths::NumBytes(5));
}

TEST(DocumentLengthsTest, EqualOnesTakeNoMemory) {
  const Part part({9, 9, 9}, 9);
  const DocumentLengths lengths({part.view(), part.view()});
  EXPECT_EQ(lengths.Of(5), 9);
  EXPECT_EQ(lengths.Sum(std::vector<uint64_t>{0, 5, 2}), 27u);
  EXPECT_EQ(lengths.Sum(3, std::vector<uint32_t>{0, 2}), 18u);
  EXPECT_EQ(lengths.num_bytes(), 0u);
}

TEST(DocumentLengthsTest, PartsThatAreEqualEachButUnlikeAreKept) {
  const Part nines({9, 9}, 9);
  const Part fours({4}, 4);
  const Part unknown({9});
  for (const Part* other : {&fours, &unknown}) {
    const DocumentLengths lengths({nines.view(), other->view()});
    EXPECT_EQ(lengths.Of(1), 9);
    EXPECT_EQ(lengths.Of(2), other->offsets[1]);
    EXPECT_EQ(lengths.num_bytes(), DocumentLengths::NumBytes(3));
  }
}

TEST(DocumentLengthsTest, ACollectionWithoutPartsHasNone) {
  const DocumentLengths lengths({});
  EXPECT_EQ(lengths.Sum(std::vector<uint64_t>{}), 0u);
  EXPECT_EQ(lengths.num_bytes(), 0u);
}

// Adds up lengths of documents in several shards, by ordinals of the collection and by ordinals of each part.
TEST(DocumentLengthsTest, ACollectionAddsUpItsOwn) {
  const test::TemporaryFolder folder;
  const test::RandomDocuments documents = test::SmallDocuments(1, 100);
  test::BuildCorpus(folder.path(), documents, {.max_shard_bytes = collection::kMinMaxShardBytes});
  test::FakeBackend backend;
  const auto collection = test::LoadCorpus(folder.path(), &backend);
  ASSERT_GT(collection->generation().parts().size(), 1u);
  uint64_t sum = 0;
  for (uint64_t ordinal = 0; ordinal < 100; ++ordinal) {
    EXPECT_EQ(collection->num_document_tokens(ordinal), documents.length(static_cast<int64_t>(ordinal)));
    sum += static_cast<uint64_t>(documents.length(static_cast<int64_t>(ordinal)));
    EXPECT_EQ(collection->num_tokens(std::vector<uint64_t>{0, ordinal}),
              static_cast<uint64_t>(documents.length(0) + documents.length(static_cast<int64_t>(ordinal))));
  }
  EXPECT_EQ(collection->num_tokens(), sum);
  const store::Part& last = collection->generation().parts().back();
  EXPECT_EQ(collection->num_tokens(last, std::vector<uint32_t>{0}),
            static_cast<uint64_t>(documents.length(static_cast<int64_t>(last.first_ordinal))));
}

}  // namespace
}  // namespace maxsim::store
