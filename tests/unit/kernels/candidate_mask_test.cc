#include "kernels/candidate_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/validate.h"

namespace maxsim {
namespace {

using testing::HasSubstr;

// A query whose candidates are the first documents, as a list and as a bitmap.
class CandidateMaskTest : public testing::Test {
 protected:
  // Makes the first `num_candidates` of `num_documents` documents the candidates.
  void MakeQuery(int64_t num_candidates, int64_t num_documents) {
    num_documents_ = num_documents;
    list_.resize(static_cast<size_t>(num_candidates));
    std::iota(list_.begin(), list_.end(), 0u);
    words_.assign(static_cast<size_t>(MaskWords(num_documents)), 0);
    for (const uint32_t ordinal : list_) words_[ordinal / 64] |= uint64_t{1} << (ordinal % 64);
    query_ = {.tokens = tokens_,
              .num_tokens = 1,
              .ordinals = list_.data(),
              .num_candidates = num_candidates,
              .mask = words_.data(),
              .top_k = 1};
  }

  std::string Error(CandidateForm form) const {
    return std::string(ValidateTopKCall({&query_, 1}, 1, num_documents_, form).message());
  }

  const uint16_t tokens_[8] = {};
  int64_t num_documents_ = 0;
  std::vector<uint32_t> list_;
  std::vector<uint64_t> words_;
  Query query_;
};

TEST_F(CandidateMaskTest, IsUsedForLongDenseListsThatAllQueriesShare) {
  const auto used = [&] { return SharedMask({&query_, 1}, num_documents_) == words_.data(); };
  MakeQuery(kMinMaskedCandidates, kMinMaskedCandidates);
  EXPECT_TRUE(used());
  MakeQuery(kMinMaskedCandidates - 1, kMinMaskedCandidates);
  EXPECT_FALSE(used()) << "a shorter list";
  MakeQuery(kMinMaskedCandidates, kMinMaskedCandidates * 16);
  EXPECT_TRUE(used()) << "half of the list's bytes";
  MakeQuery(kMinMaskedCandidates, kMinMaskedCandidates * 16 + 1);
  EXPECT_FALSE(used()) << "more than half of the list's bytes";
  MakeQuery(kMinMaskedCandidates, kMinMaskedCandidates);
  query_.mask = nullptr;
  EXPECT_FALSE(used()) << "without a bitmap";
  EXPECT_EQ(SharedMask({}, num_documents_), nullptr);
}

TEST_F(CandidateMaskTest, IsNotUsedIfTheQueriesDiffer) {
  MakeQuery(kMinMaskedCandidates, kMinMaskedCandidates);
  std::vector<Query> queries(2, query_);
  EXPECT_EQ(SharedMask(queries, num_documents_), words_.data());
  const std::vector<uint64_t> other = words_;
  queries[1].mask = other.data();
  EXPECT_EQ(SharedMask(queries, num_documents_), nullptr);
  queries[1] = query_;
  queries[1].ordinals = nullptr;
  EXPECT_EQ(SharedMask(queries, num_documents_), nullptr);
  queries[1] = query_;
  --queries[1].num_candidates;
  EXPECT_EQ(SharedMask(queries, num_documents_), nullptr);
}

TEST_F(CandidateMaskTest, WrongBitmapsAreRefused) {
  constexpr int64_t kDocuments = kMinMaskedCandidates + 30;
  MakeQuery(kMinMaskedCandidates, kDocuments);
  EXPECT_EQ(Error(CandidateForm::kSharedMask), "");
  words_[0] ^= 1;
  EXPECT_EQ(Error(CandidateForm::kSharedMask),
            "queries[0].mask has 65535 documents; must have as many as num_candidates, 65536");
  EXPECT_EQ(Error(CandidateForm::kList), "") << "the list is right";
  words_.back() |= uint64_t{1} << 30;
  EXPECT_EQ(Error(CandidateForm::kSharedMask), "queries[0].mask has document 65566; must be below 65566 documents");
  words_.back() ^= uint64_t{3} << 29;
  EXPECT_EQ(Error(CandidateForm::kSharedMask), "") << "the last document";
}

TEST_F(CandidateMaskTest, ListsAreCheckedUnlessABitmapIsUsed) {
  MakeQuery(kMinMaskedCandidates, kMinMaskedCandidates);
  list_.back() = static_cast<uint32_t>(kMinMaskedCandidates);
  EXPECT_THAT(Error(CandidateForm::kList), HasSubstr("queries[0].ordinals[65535] is 65536"));
  EXPECT_EQ(Error(CandidateForm::kSharedMask), "");
  MakeQuery(100, 100);
  list_.back() = 100;
  EXPECT_THAT(Error(CandidateForm::kSharedMask), HasSubstr("queries[0].ordinals[99] is 100"))
      << "too short a list for a bitmap";
}

}  // namespace
}  // namespace maxsim
