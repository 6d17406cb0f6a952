// Makes a collection of several parts (loaded shards), and jobs for a lane (the thread that scores a batch). The test
// decides how the lane's backend answers.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/engine_fixture.h"
#include "tests/support/fake_backend.h"

namespace maxsim::engine {

class LaneCallsTest : public testing::Test {
 protected:
  LaneCallsTest() : documents_(test::SmallDocuments(21, 200)) {
    test::BuildCorpus(folder_.path(), documents_, {.max_shard_bytes = 12'000});
    collection_ = test::LoadCorpus(folder_.path(), &backend_);
    num_parts_ = collection_->generation().parts().size();
    EXPECT_GE(num_parts_, 2u);
  }

  JobQuery Query(int32_t num_tokens, CandidatesPtr candidates, int32_t top_k = 10) const {
    return MakeJobQuery(test::MakeQuery(1, ScalarType::kF16, 16, num_tokens), std::move(candidates), top_k);
  }
  std::unique_ptr<Job> OneQuery(int32_t num_tokens, CandidatesPtr candidates, int32_t top_k = 10) const {
    std::vector<JobQuery> queries;
    queries.push_back(Query(num_tokens, std::move(candidates), top_k));
    return MakeJob(collection_, std::move(queries));
  }
  static std::vector<std::unique_ptr<Job>> Jobs(std::unique_ptr<Job> a, std::unique_ptr<Job> b,
                                                std::unique_ptr<Job> c = nullptr) {
    std::vector<std::unique_ptr<Job>> jobs;
    jobs.push_back(std::move(a));
    jobs.push_back(std::move(b));
    if (c != nullptr) jobs.push_back(std::move(c));
    return jobs;
  }
  uint64_t AllTokens() const { return static_cast<uint64_t>(documents_.view().num_tokens()); }

  const test::TemporaryFolder folder_;
  const test::RandomDocuments documents_;
  test::FakeBackend backend_;
  std::shared_ptr<const store::Collection> collection_;
  size_t num_parts_ = 0;
};

}  // namespace maxsim::engine
