// Tests that an executor refuses calls beyond its limits, and that it accepts only Documents of the CUDA backend.
#include "kernels/cuda/call/planning/executor_limits.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/match.h"
#include "kernels/cuda/documents/cuda_documents.h"
#include "kernels/cuda/documents/loaded_documents.h"
#include "kernels/limits.h"

namespace maxsim::cuda {
namespace {

class ForeignDocuments final : public Documents {
 public:
  ScalarType type() const override { return ScalarType::kF16; }
  int32_t dim() const override { return dim_; }
  int64_t num_documents() const override { return 100; }
  int64_t num_tokens() const override { return 1000; }
  MemoryNeed memory() const override { return {}; }

  int32_t dim_ = 64;
};

constexpr ExecutorOptions kOptions{.max_queries = 2,
                                   .max_query_tokens = 40,
                                   .max_candidates = 150,
                                   .max_dim = 128,
                                   .max_staged_bytes = 4096,
                                   .max_staged_documents = 3};

Query Scan(int32_t num_tokens) {
  Query query;
  query.num_tokens = num_tokens;
  return query;
}

Query List(int32_t num_tokens, const std::vector<uint32_t>& ordinals) {
  Query query = Scan(num_tokens);
  query.ordinals = ordinals.data();
  query.num_candidates = static_cast<int64_t>(ordinals.size());
  return query;
}

bool Names(const absl::Status& status, const char* limit) {
  return absl::IsResourceExhausted(status) && absl::StrContains(status.message(), limit);
}

TEST(ExecutorLimitsTest, OptionsOutOfRangeAreInvalid) {
  EXPECT_TRUE(CheckOptions(kOptions).ok());
  EXPECT_TRUE(CheckOptions({}).ok());
  for (const auto& change : std::vector<void (*)(ExecutorOptions&)>{
           [](ExecutorOptions& o) { o.max_queries = 0; }, [](ExecutorOptions& o) { o.max_query_tokens = 0; },
           [](ExecutorOptions& o) { o.max_candidates = 0; },
           [](ExecutorOptions& o) { o.max_candidates = int64_t{kMaxShardDocuments} + 1; },
           [](ExecutorOptions& o) { o.max_dim = kMinDim - 1; }, [](ExecutorOptions& o) { o.max_dim = kMaxDim + 1; },
           [](ExecutorOptions& o) { o.max_staged_bytes = -1; },
           [](ExecutorOptions& o) { o.max_staged_documents = -1; }}) {
    ExecutorOptions options = kOptions;
    change(options);
    EXPECT_TRUE(absl::IsInvalidArgument(CheckOptions(options)));
  }
}

TEST(ExecutorLimitsTest, ACallMayReachEveryLimitAndNamesTheOneItExceeds) {
  ForeignDocuments documents;
  const std::vector<uint32_t> fifty(50), fifty_one(51);
  EXPECT_TRUE(CheckTopKLimits(kOptions, documents, {Scan(20), List(20, fifty)}).ok());
  EXPECT_TRUE(Names(CheckTopKLimits(kOptions, documents, {Scan(20), List(21, fifty)}), "max_query_tokens"));
  EXPECT_TRUE(Names(CheckTopKLimits(kOptions, documents, {Scan(20), List(20, fifty_one)}), "max_candidates"));
  EXPECT_TRUE(
      Names(CheckTopKLimits(kOptions, documents, {List(1, fifty), List(1, fifty), List(1, fifty)}), "max_queries"));
  EXPECT_TRUE(CheckAlignLimits(kOptions, documents, Scan(40)).ok());
  EXPECT_TRUE(Names(CheckAlignLimits(kOptions, documents, Scan(41)), "max_query_tokens"));
  documents.dim_ = 128;
  EXPECT_TRUE(CheckTopKLimits(kOptions, documents, {Scan(1)}).ok());
  documents.dim_ = 129;
  EXPECT_TRUE(Names(CheckTopKLimits(kOptions, documents, {Scan(1)}), "max_dim"));
  EXPECT_TRUE(Names(CheckAlignLimits(kOptions, documents, Scan(1)), "max_dim"));
}

TEST(ExecutorLimitsTest, StagedDocumentsCountWithTheirRowPadding) {
  // A row of 60 columns in F16 takes 128 bytes on the device.
  const auto shape = [](int64_t num_documents, int64_t num_tokens) {
    return CudaDocuments::Shape{ScalarType::kF16, 60, num_documents, num_tokens};
  };
  EXPECT_TRUE(CheckStageLimits(kOptions, shape(3, 32)).ok());
  EXPECT_TRUE(Names(CheckStageLimits(kOptions, shape(3, 33)), "max_staged_bytes"));
  EXPECT_TRUE(Names(CheckStageLimits(kOptions, shape(4, 32)), "max_staged_documents"));
}

TEST(LoadedDocumentsTest, OnlyTheBackendsOwnDocumentsAreTakenAsTheyAre) {
  EXPECT_EQ(LoadedDocuments::From(ForeignDocuments()), nullptr);
  const Device device;
  const CudaDocuments::Shape shape{ScalarType::kF32, 64, 0, 0};
  const CudaDocuments resident(&device, shape, nullptr, nullptr);
  const LoadedDocuments* const loaded = LoadedDocuments::From(resident);
  ASSERT_NE(loaded, nullptr);
  EXPECT_EQ(loaded->device(), &device);
  EXPECT_EQ(loaded->resident(), &resident);
  EXPECT_EQ(loaded->host(), nullptr);
}

}  // namespace
}  // namespace maxsim::cuda
