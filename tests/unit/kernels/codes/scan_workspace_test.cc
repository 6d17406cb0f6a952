// Tests the bound on the GPU memory that one lane's scans take. The host computes the sizes, so the test needs no GPU.
#include "kernels/cuda/codes/scan_workspace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/codes/query_codes.h"
#include "kernels/codes/scan.h"
#include "kernels/cuda/codes/scan_input.h"
#include "kernels/limits.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

DeviceLimits WithSms(int32_t num_sms) {
  DeviceLimits limits;
  limits.num_sms = num_sms;
  return limits;
}

CodeShape Shape(int32_t dim) { return {.dim = dim, .originals = ScalarType::kF16, .factors = false}; }

// A query of `num_tokens` zero vectors.
QueryCodes Zeros(const CodeShape& shape, int32_t num_tokens) {
  const std::vector<float> rows(static_cast<size_t>(num_tokens) * static_cast<size_t>(shape.dim));
  return *EncodeQuery(shape, 1, rows, {});
}

// Returns the bytes of device memory that one pass takes. All queries of the pass scan all documents and select
// `num_results` each, in a call with kMaxScanCallResults results.
int64_t PassBytes(const CodeShape& shape, const QueryCodes& codes, int64_t num_queries, int64_t num_documents,
                  int32_t num_results, const DeviceLimits& limits) {
  std::vector<ScanQuery> queries(static_cast<size_t>(num_queries), {.codes = &codes, .num_results = num_results});
  std::vector<size_t> members;
  for (size_t query = 0; query < queries.size(); ++query) members.push_back(query);
  EXPECT_EQ(codes.shape.dim, shape.dim);
  const ScanInput input = MakeScanInput(queries, members, {}, num_documents, limits);
  return static_cast<int64_t>(input.bytes.size()) + input.scores_stride * num_queries * 4 + 4 * num_documents +
         (num_documents + 63) / 64 * 8 + input.num_keys * 8 + kMaxScanCallResults * 8 +
         (input.large ? num_queries * static_cast<int64_t>(sizeof(SelectWorkspace)) : 0);
}

TEST(ScanWorkspaceTest, NoPassTakesMoreThanTheBound) {
  for (const int32_t dim : {8, 128, 1024}) {
    const CodeShape shape = Shape(dim);
    for (const int32_t num_tokens : {1, 17, 1024, kMaxQueryTokens}) {
      const QueryCodes codes = Zeros(shape, num_tokens);
      const int64_t with_these_tokens = std::max<int64_t>(kMaxScanCallTokens / num_tokens, 1);
      for (const int64_t num_documents : {int64_t{1}, int64_t{5}, kRankAllCandidates, kRankAllCandidates + 1,
                                          int64_t{100'003}, int64_t{10'000'000}, int64_t{700'000'001}}) {
        for (const int32_t num_sms : {16, 132, 300}) {
          const DeviceLimits limits = WithSms(num_sms);
          const auto bound = static_cast<int64_t>(MaxScanWorkspaceBytes(shape, num_documents, limits));
          for (const int64_t num_queries : {1, 2, 16, 64}) {
            if (num_queries > with_these_tokens) continue;
            if (num_queries > 1 && num_queries * num_documents > kMaxPassScores) continue;
            for (const int32_t num_results : {1, 1000, 65536, kMaxScanResults}) {
              if (num_queries * num_results > kMaxScanCallResults) continue;
              EXPECT_LE(PassBytes(shape, codes, num_queries, num_documents, num_results, limits), bound)
                  << dim << " columns, " << num_tokens << " tokens, " << num_documents << " documents, " << num_queries
                  << " queries, " << num_results << " results, " << num_sms << " multiprocessors";
            }
          }
        }
      }
    }
  }
}

// docs/internals/memory-bounds.md states these sizes.
TEST(ScanWorkspaceTest, IsAboutTheSizeOfTheScores) {
  const auto bytes = [](int64_t num_documents) {
    return static_cast<double>(MaxScanWorkspaceBytes(Shape(128), num_documents, WithSms(132)));
  };
  EXPECT_EQ(bytes(0), 0);
  EXPECT_EQ(bytes(-1), 0);
  EXPECT_LT(bytes(1'000), 36e6);
  EXPECT_LT(bytes(1'000'000), 0.4 * kGib);
  EXPECT_LT(bytes(10'000'000), 2.2 * kGib);
  EXPECT_GT(bytes(10'000'000), 2.1 * kGib);
  EXPECT_EQ(bytes(INT64_MAX), bytes(kMaxShardDocuments)) << "more than a shard can have";
}

}  // namespace
}  // namespace maxsim::cuda
