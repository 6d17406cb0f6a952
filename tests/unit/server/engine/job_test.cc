#include "server/engine/job.h"

#include <gtest/gtest.h>

#include <limits>

#include "server/engine/candidates_by_part.h"
#include "tests/support/engine_fixture.h"
#include "tests/support/fake_backend.h"

namespace maxsim::engine {
namespace {

class JobTest : public testing::Test {
 protected:
  JobTest() : documents_(test::SmallDocuments(11, 200)) {
    test::BuildCorpus(folder_.path(), documents_, {.max_shard_bytes = 10'000});
    collection_ = test::LoadCorpus(folder_.path(), &backend_);
  }

  JobQuery Query(int32_t num_tokens, CandidatesPtr candidates) const {
    return MakeJobQuery(test::MakeQuery(1, ScalarType::kF16, 16, num_tokens), std::move(candidates), 10);
  }
  uint64_t Work(std::vector<JobQuery> queries) const { return MakeJob(collection_, std::move(queries))->work; }

  const test::TemporaryFolder folder_;
  const test::RandomDocuments documents_;
  test::FakeBackend backend_;
  std::shared_ptr<const store::Collection> collection_;
};

TEST_F(JobTest, WorkIsQueryTokensTimesCandidateTokens) {
  const auto total = static_cast<uint64_t>(documents_.view().num_tokens());
  EXPECT_EQ(Work({Query(7, WholeCollection())}), 7 * total);
  const uint64_t some = static_cast<uint64_t>(documents_.length(3) + documents_.length(199));
  const CandidatesPtr list = Ordinals({199, 3});
  EXPECT_EQ(Work({Query(5, list)}), 5 * some);
  EXPECT_EQ(Work({Query(5, Inline(documents_))}), 5 * total);
  EXPECT_EQ(Work({Query(5, list), Query(1, WholeCollection()), Query(2, list)}), 7 * some + total);
  EXPECT_EQ(Work({Query(5, Ordinals({}))}), 0u);
  EXPECT_EQ(Work({}), 0u);
}

TEST_F(JobTest, BytesAreThoseOfTokensWeightsAndEachSetOnce) {
  const CandidatesPtr documents = Inline(documents_);
  const auto bytes = [&](std::vector<JobQuery> queries) { return JobBytes(*MakeJob(collection_, std::move(queries))); };
  const uint64_t staged = static_cast<uint64_t>(documents_.view().num_tokens()) * 16 * sizeof(uint16_t);
  const uint64_t one = bytes({Query(5, documents)});
  EXPECT_GE(one, staged + 5 * 16 * sizeof(uint16_t));
  EXPECT_LT(one, 2 * staged);
  EXPECT_LT(bytes({Query(5, documents), Query(5, documents)}), one + staged) << "a shared set counts once";
  EXPECT_GE(bytes({Query(5, documents), Query(5, Inline(documents_))}), one + staged);
  auto list = std::make_shared<CandidateSet>();
  list->kind = CandidateSet::Kind::kOrdinals;
  list->ordinals.resize(100'000);
  list->positions.resize(100'000);
  EXPECT_GE(bytes({Query(1, list)}), 1'200'000u);
}

TEST_F(JobTest, WorkSaturates) {
  auto set = std::make_shared<CandidateSet>();
  set->kind = CandidateSet::Kind::kInline;
  set->inline_offsets = {0, std::numeric_limits<int64_t>::max()};
  EXPECT_EQ(Work({Query(2, set)}), std::numeric_limits<uint64_t>::max() - 1);
  EXPECT_EQ(Work({Query(3, set)}), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Work({Query(2, set), Query(2, set)}), std::numeric_limits<uint64_t>::max());
}

TEST_F(JobTest, OrdinalsBeyondTheCollectionCountAsNothing) {
  EXPECT_EQ(Work({Query(1, Ordinals({0, 200, std::numeric_limits<uint64_t>::max()}))}),
            static_cast<uint64_t>(documents_.length(0)));
}

TEST_F(JobTest, ACandidateListIsSplitByPartInItsOrder) {
  ASSERT_GE(collection_->generation().parts().size(), 3u);
  std::vector<uint64_t> ordinals;
  for (uint64_t idx = 0; idx < 200; ++idx) ordinals.push_back((idx * 77) % 200);
  const CandidatesPtr set = Ordinals(ordinals, 3);
  CandidatesByPart split;
  // Assigns two lists. Nothing of the first may be left.
  ASSERT_TRUE(split.Assign(*collection_, *Ordinals({5, 190, 100})).ok());
  ASSERT_TRUE(split.Assign(*collection_, *set).ok());
  size_t total = 0;
  for (size_t part = 0; part < collection_->generation().parts().size(); ++part) {
    const auto local = split.ordinals(part);
    const auto indices = split.indices(part);
    ASSERT_EQ(local.size(), indices.size());
    total += local.size();
    for (size_t idx = 0; idx < local.size(); ++idx) {
      EXPECT_EQ(collection_->generation().parts()[part].first_ordinal + local[idx], ordinals[indices[idx]]);
      if (idx != 0) {
        EXPECT_GT(indices[idx], indices[idx - 1]);
      }
    }
  }
  EXPECT_EQ(total, 200u);
}

TEST_F(JobTest, ListsThatContradictThemselvesAreRefused) {
  CandidatesByPart split;
  CandidateSet set = *Ordinals({1, 2, 3});
  set.positions.pop_back();
  EXPECT_EQ(split.Assign(*collection_, set).code(), absl::StatusCode::kInvalidArgument);
  set.positions = {0, 2, 2};
  EXPECT_EQ(split.Assign(*collection_, set).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(split.Assign(*collection_, *Ordinals({1, 200})).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace maxsim::engine
