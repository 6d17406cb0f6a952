// Checks of ScanExecutor::Scan with several calls at a time, for the tests of every backend.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/codes/scan.h"
#include "kernels/codes/scan_executor.h"
#include "kernels/maxsim.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/kernels/codes/codes_fixture.h"

namespace maxsim::test {

// Codes that were not made by a backend.
class ForeignCodes final : public LoadedCodes {
 public:
  const CodeShape& shape() const override { return shape_; }
  int planes() const override { return 1; }
  int64_t num_documents() const override { return 1; }
  bool has_bounds(int) const override { return true; }
  MemoryNeed memory() const override { return {}; }

 private:
  CodeShape shape_ = {.dim = 128, .originals = ScalarType::kF16, .rotation_seed = kCodeSeed};
};

// Makes calls for parts (sets of codes) of different sizes. Owns the memory to which the calls point.
class ScanCalls {
 public:
  ScanCalls(Backend& backend, uint64_t seed) : generator_(seed) {
    for (const int32_t dim : {33, 128}) {
      for (const int planes : {1, 2, 4}) {
        for (const int64_t count : {int64_t{1}, int64_t{700}, int64_t{64}, planes == 1 ? kLargePart : int64_t{65}}) {
          AddPart(backend, dim, planes, count, dim == 33 && planes == 2);
        }
      }
    }
    for (size_t idx = 0; idx < parts_.size(); ++idx) AddQueries(*parts_[idx], idx);
    // The two parts added here are scanned in one call. They must share the memory in which their results are selected.
    for (const size_t num_queries : {size_t{1}, size_t{5}}) {
      AddPart(backend, 128, 1, kLargestPart, false);
      AddMaskedQueries(*parts_.back(), num_queries);
    }
    for (const std::unique_ptr<Part>& part : parts_) results_.emplace_back(part->queries.size());
  }

  size_t size() const { return parts_.size(); }
  // Returns the calls. Their results hold garbage, which a scan must overwrite.
  std::vector<ScanCall> Calls() {
    std::vector<ScanCall> calls;
    for (size_t idx = 0; idx < parts_.size(); ++idx) {
      for (std::vector<Scored>& one : results_[idx]) one.assign(3, garbage_);
      calls.push_back({.codes = parts_[idx]->codes.get(),
                       .queries = parts_[idx]->queries,
                       .results = absl::MakeSpan(results_[idx])});
    }
    return calls;
  }
  const std::vector<std::vector<std::vector<Scored>>>& results() const { return results_; }

 private:
  // Number of documents of a part. A large part is too large for one thread block of a GPU to rank. From a largest
  // part, a GPU selects in several steps. A sanitized build has no GPU.
  static constexpr int64_t kLargePart = kSanitized ? 900 : 9000;
  static constexpr int64_t kLargestPart = kSanitized ? 1000 : 20'000;

  struct Part {
    std::shared_ptr<const EncodedDocuments> encoded;
    std::unique_ptr<LoadedCodes> codes;
    std::vector<std::unique_ptr<QueryCodes>> query_codes;
    std::vector<uint64_t> mask;
    std::vector<uint64_t> empty_mask;
    std::vector<uint32_t> ordinals;
    std::vector<ScanQuery> queries;
  };

  void AddPart(Backend& backend, int32_t dim, int planes, int64_t count, bool factors) {
    auto part = std::make_unique<Part>();
    const uint64_t seed = generator_();
    const RandomDocuments documents =
        MakeDocuments(seed, ScalarType::kF16, dim, RandomLengths(seed, static_cast<size_t>(count), 1, 9));
    part->encoded = std::make_shared<const EncodedDocuments>(Encoded(documents.view(), factors));
    absl::StatusOr<std::unique_ptr<LoadedCodes>> loaded =
        backend.LoadCodes(part->encoded->view(), planes, part->encoded);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    part->codes = *std::move(loaded);
    parts_.push_back(std::move(part));
  }

  // Adds a query for at most 300 results to the part.
  ScanQuery& AddQuery(Part& part, ScanOrder order) {
    const CodeShape& shape = part.codes->shape();
    const auto tokens = static_cast<int32_t>(1 + generator_() % 40);
    part.query_codes.push_back(std::make_unique<QueryCodes>(
        EncodedQuery(shape, part.codes->planes(), MakeQuery(generator_(), ScalarType::kF16, shape.dim, tokens))));
    return part.queries.emplace_back(ScanQuery{.codes = part.query_codes.back().get(),
                                               .num_results = static_cast<int32_t>(1 + generator_() % 300),
                                               .order = order});
  }

  void MakeMask(Part& part) {
    part.mask.resize(static_cast<size_t>(part.codes->num_documents() + 63) / 64);
    for (uint64_t& word : part.mask) word = generator_();
  }

  // Adds queries with masks. The third query's mask excludes all documents.
  void AddMaskedQueries(Part& part, size_t num_queries) {
    MakeMask(part);
    part.empty_mask.resize(part.mask.size());
    for (size_t n = 0; n < num_queries; ++n) {
      AddQuery(part, ScanOrder::kEstimate).mask = n == 2 ? part.empty_mask.data() : part.mask.data();
    }
  }

  // Gives a part 1, 2 or 5 queries: over all its documents, with a mask of documents, over a list of documents, or over
  // an empty list.
  void AddQueries(Part& part, size_t idx) {
    MakeMask(part);
    for (int64_t n = part.codes->num_documents() - 1; n >= 0; n -= 2) part.ordinals.push_back(static_cast<uint32_t>(n));
    const size_t num_queries = std::vector<size_t>{1, 2, 5}[idx % 3];
    for (size_t n = 0; n < num_queries; ++n) {
      ScanQuery& query = AddQuery(part, n % 2 == 0 ? ScanOrder::kEstimate : ScanOrder::kUpperBound);
      if ((idx + n) % 3 == 1) query.mask = part.mask.data();
      if (n == 2 || idx % 4 == 3) {
        query.ordinals = part.ordinals.data();
        query.num_candidates = n == 3 ? 0 : static_cast<int64_t>(part.ordinals.size());
      }
    }
  }

  std::mt19937_64 generator_;
  const Scored garbage_ = {12345.0F, 4'000'000'000};
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::vector<std::vector<Scored>>> results_;  // [parts][queries]
};

// Scans many parts (sets of codes) in one call. Each part must get the same result bits as if it were scanned alone.
inline void ExpectCallsAreScannedAsEachAlone(Backend& backend, uint64_t seed) {
  ScanCalls parts(backend, seed);
  auto executor = backend.CreateScanExecutor();
  ASSERT_TRUE(executor.ok()) << executor.status();
  for (const ScanCall& call : parts.Calls()) {
    const absl::Status status = (*executor)->Scan({&call, 1}, nullptr);
    ASSERT_TRUE(status.ok()) << status;
  }
  const std::vector<std::vector<std::vector<Scored>>> expected = parts.results();
  // A new executor's workspace grows during the first round. The second round uses the grown workspace.
  executor = backend.CreateScanExecutor();
  ASSERT_TRUE(executor.ok()) << executor.status();
  for (int round = 0; round < 2; ++round) {
    CallTimings timings;
    const absl::Status status = (*executor)->Scan(parts.Calls(), &timings);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_GT(timings.kernel_seconds, 0);
    for (size_t idx = 0; idx < parts.size(); ++idx) EXPECT_EQ(parts.results()[idx], expected[idx]) << "part " << idx;
  }
  EXPECT_TRUE((*executor)->Scan({}, nullptr).ok()) << "no calls, no work";
}

// If one of the calls is invalid, Scan returns its error for all calls. Afterwards the executor can scan again.
inline void ExpectErrorsOfAnyCallAreReturned(Backend& backend, uint64_t seed) {
  ScanCalls parts(backend, seed);
  auto executor = backend.CreateScanExecutor();
  ASSERT_TRUE(executor.ok()) << executor.status();
  ASSERT_TRUE((*executor)->Scan(parts.Calls(), nullptr).ok());
  const std::vector<std::vector<std::vector<Scored>>> expected = parts.results();
  const ForeignCodes foreign;
  for (size_t idx = 0; idx < parts.size(); ++idx) {
    SCOPED_TRACE(testing::Message() << "part " << idx);
    const auto refused = [&](const ScanCall& wrong, const std::string& message) {
      std::vector<ScanCall> calls = parts.Calls();
      calls[idx] = wrong;
      const absl::Status status = (*executor)->Scan(calls, nullptr);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr(message));
    };
    const std::vector<ScanCall> good = parts.Calls();
    ScanCall wrong = good[idx];
    wrong.codes = &foreign;
    refused(wrong, "codes were made by another backend");
    std::vector<ScanQuery> queries(good[idx].queries.begin(), good[idx].queries.end());
    queries.back().num_results = 0;
    wrong = good[idx];
    wrong.queries = queries;
    refused(wrong, "num_results is 0");
  }
  ASSERT_TRUE((*executor)->Scan(parts.Calls(), nullptr).ok());
  EXPECT_EQ(parts.results(), expected);
}

}  // namespace maxsim::test
