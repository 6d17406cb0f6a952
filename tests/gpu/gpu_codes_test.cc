// Compares scans of codes on a GPU with scans on the CPU, bit for bit. Tests the GPU's fastest kernels and the kernels
// for all GPUs. (codes_test compares the CPU's scans with a reference.)
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/gpu/gpu_codes_fixture.h"
#include "tests/unit/kernels/codes/codes_fixture.h"
#include "tests/unit/kernels/codes/scan_calls_case.h"

namespace maxsim::test {
namespace {

TEST_F(GpuCodesTest, EveryShapeGivesTheBitsOfTheCpu) {
  for (const int32_t dim : {8, 31, 32, 33, 48, 64, 90, 96, 100, 127, 128, 129, 160, 224, 256, 384, 1000, 4096}) {
    for (const bool factors : {false, true}) {
      std::vector<int64_t> lengths = {1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 64, 65, 130};
      for (const int64_t length : RandomLengths(seed_, dim > 400 ? 10 : 300, 1, 90)) lengths.push_back(length);
      RandomDocuments documents = MakeDocuments(seed_, ScalarType::kF16, dim, lengths);
      if (factors) SpreadNorms(seed_, 7, &documents);
      const EncodedDocuments encoded = Encoded(documents.view(), factors);
      for (const int planes : {1, 2, 4}) {
        const CodesView codes = encoded.view(planes);
        for (const int32_t tokens : {1, 16, 17, 31, 32, 33, 70}) {
          SCOPED_TRACE(testing::Message() << "d " << dim << ", " << planes << " planes, factors " << factors << ", "
                                          << tokens << " query tokens");
          RandomQuery random = MakeQuery(seed_ + 1, ScalarType::kF16, dim, tokens);
          random.weights = MixedWeights(seed_, tokens);
          const QueryCodes query = EncodedQuery(codes.shape, planes, random);
          for (const ScanOrder order : {ScanOrder::kEstimate, ScanOrder::kUpperBound}) {
            Compare(codes, {{.codes = &query, .num_results = 1000, .order = order}});
          }
        }
      }
    }
  }
}

TEST_F(GpuCodesTest, MasksAndListsSayWhichDocumentsMayBeSelected) {
  constexpr size_t kDocuments = 9000;  // more than a single thread block ranks
  for (const int32_t dim : {96, 128, 200}) {
    const RandomDocuments documents =
        MakeDocuments(seed_, ScalarType::kF16, dim, RandomLengths(seed_, kDocuments, 1, 20));
    const EncodedDocuments encoded = Encoded(documents.view(), false);
    const CodesView codes = encoded.view();
    const QueryCodes query = EncodedQuery(codes.shape, 1, MakeQuery(seed_ + 1, ScalarType::kF16, dim, 20));
    std::mt19937_64 generator(seed_);
    const size_t num_words = (kDocuments + 63) / 64;
    std::vector<uint64_t> sparse(num_words), dense(num_words), none(num_words), last(num_words);
    for (uint64_t& word : sparse) word = generator() & generator() & generator();
    for (uint64_t& word : dense) word = generator() | generator() | generator();
    last[(kDocuments - 1) / 64] = uint64_t{1} << (kDocuments - 1) % 64;
    std::vector<uint32_t> few = {8999, 0, 0, 128, 127, 64, 63, 8999}, many;
    for (int i = 0; i < 7000; ++i) many.push_back(static_cast<uint32_t>(generator() % kDocuments));
    std::vector<ScanQuery> queries;
    for (const std::vector<uint64_t>* mask :
         {&sparse, &dense, &none, &last, static_cast<std::vector<uint64_t>*>(nullptr)}) {
      for (const std::vector<uint32_t>* list : {&few, &many, static_cast<std::vector<uint32_t>*>(nullptr)}) {
        for (const int32_t num_results : {1, 100, 20000}) {
          queries.push_back({.codes = &query,
                             .ordinals = list == nullptr ? nullptr : list->data(),
                             .num_candidates = list == nullptr ? 0 : static_cast<int64_t>(list->size()),
                             .mask = mask == nullptr ? nullptr : mask->data(),
                             .num_results = num_results});
        }
      }
    }
    queries.push_back({.codes = &query, .ordinals = few.data(), .num_candidates = 0, .num_results = 3});
    Compare(codes, queries);
    for (const ScanQuery& one : queries) Compare(codes, {one});  // the kernel for one query
  }
}

// When a server loads a collection, it reserves ScanBytesNeeded() bytes for scans. A scanner's workspace must not
// exceed this number.
TEST_F(GpuCodesTest, TheWorkspaceKeepsToItsBound) {
  constexpr size_t kDocuments = 9000;
  const RandomDocuments documents =
      MakeDocuments(seed_, ScalarType::kF16, 128, RandomLengths(seed_, kDocuments, 1, 20));
  const EncodedDocuments encoded = Encoded(documents.view(), false);
  const CodesView codes = encoded.view();
  const auto uploaded = Upload(codes, 1);
  const QueryCodes query = EncodedQuery(codes.shape, 1, MakeQuery(seed_ + 1, ScalarType::kF16, 128, 16));
  std::vector<uint32_t> all(kDocuments);
  std::iota(all.begin(), all.end(), uint32_t{0});
  const std::vector<uint64_t> mask((kDocuments + 63) / 64, ~uint64_t{0});
  EXPECT_EQ(scanner_->workspace_bytes(), 0u);
  size_t before = 0;
  for (const size_t num_queries : {size_t{1}, size_t{5}, static_cast<size_t>(kMaxScanQueries)}) {
    for (const bool listed : {false, true}) {
      for (const int32_t num_results : {10, kMaxScanResults}) {
        const std::vector<ScanQuery> queries(num_queries,
                                             {.codes = &query,
                                              .ordinals = listed ? all.data() : nullptr,
                                              .num_candidates = listed ? static_cast<int64_t>(kDocuments) : 0,
                                              .mask = listed ? nullptr : mask.data(),
                                              .num_results = num_results});
        OnGpu(*scanner_, *uploaded, queries);
        EXPECT_GE(scanner_->workspace_bytes(), before) << "it is kept";
        before = scanner_->workspace_bytes();
      }
    }
  }
  EXPECT_GE(before, kDocuments * kMaxScanQueries * sizeof(float));
  EXPECT_LE(before, backend().ScanBytesNeeded(codes.shape, kDocuments));
}

TEST_F(GpuCodesTest, AnyBatchGivesTheSameBits) {
  const RandomDocuments documents = MakeDocuments(seed_, ScalarType::kF16, 128, RandomLengths(seed_, 6000, 1, 100));
  const EncodedDocuments encoded = Encoded(documents.view(), false);
  const CodesView codes = encoded.view();
  std::vector<QueryCodes> query_codes;
  for (int i = 0; i < kMaxScanQueries; ++i) {
    const int32_t tokens = i == 7 ? 300 : 1 + i * 7 % 40;
    const RandomQuery query = MakeQuery(seed_ + static_cast<uint64_t>(i), ScalarType::kF16, 128, tokens);
    query_codes.push_back(EncodedQuery(codes.shape, std::vector<int>{1, 1, 2, 4}[i % 4], query));
  }
  std::vector<ScanQuery> queries;
  for (const QueryCodes& query : query_codes) {
    queries.push_back({.codes = &query,
                       .num_results = 25,
                       .order = queries.size() % 3 == 0 ? ScanOrder::kUpperBound : ScanOrder::kEstimate});
  }
  Compare(codes, queries);
  // These scanners process one query per pass.
  for (const Kernels kernels : {Kernels::kFastest, Kernels::kPortable}) {
    cuda::CudaCodeScanner small = Scanner(kernels, 1);
    std::vector<std::vector<Scored>> results(queries.size());
    ASSERT_TRUE(small.Scan(*Upload(codes, 4), queries, absl::MakeSpan(results)).ok());
    EXPECT_EQ(results, OnCpu(codes, queries));
  }
}

// The sizes of the batches are at, or a little above, the limits at which the Hopper kernel needs more row tiles
// (blocks of query tokens) or a further pass. A query of more than 640 tokens does not fit into one pass.
TEST_F(GpuCodesTest, BatchesOfEveryShapeGiveTheBitsOfTheCpu) {
  const std::vector<std::vector<int32_t>> batches = {{1, 1},
                                                     {32, 32},
                                                     {16, 17, 1, 33},
                                                     std::vector<int32_t>(20, 32),
                                                     std::vector<int32_t>(21, 32),
                                                     {640, 1},
                                                     {641, 5, 640, 700, 48},
                                                     std::vector<int32_t>(64, 32)};
  std::mt19937_64 generator(seed_);
  for (const int32_t dim : {8, 32, 64, 90, 96, 128}) {
    std::vector<int64_t> lengths = {1, 7, 8, 9, 127, 128, 129, 255, 256, 257, 700};
    for (const int64_t length : RandomLengths(seed_, 200, 1, 90)) lengths.push_back(length);
    const RandomDocuments documents = MakeDocuments(seed_, ScalarType::kF16, dim, lengths);
    const EncodedDocuments encoded = Encoded(documents.view(), false);
    std::vector<uint64_t> mask((lengths.size() + 63) / 64), other(mask.size());
    for (uint64_t& word : mask) word = generator() & generator();
    for (uint64_t& word : other) word = generator() & generator() & generator();
    for (const int planes : {1, 2, 4}) {
      const CodesView codes = encoded.view(planes);
      for (const std::vector<int32_t>& batch : batches) {
        SCOPED_TRACE(testing::Message() << "d " << dim << ", " << planes << " planes, " << batch.size() << " queries");
        std::vector<QueryCodes> query_codes;
        for (const int32_t tokens : batch) {
          RandomQuery random = MakeQuery(seed_ + query_codes.size(), ScalarType::kF16, dim, tokens);
          random.weights = MixedWeights(seed_, tokens);
          query_codes.push_back(EncodedQuery(codes.shape, planes, random));
        }
        for (const bool masked : {false, true}) {
          std::vector<ScanQuery> queries;
          for (const QueryCodes& query : query_codes) {
            queries.push_back({.codes = &query,
                               .mask = !masked                   ? nullptr
                                       : queries.size() % 2 == 0 ? mask.data()
                                                                 : other.data(),
                               .num_results = 1000,
                               .order = queries.size() % 3 == 1 ? ScanOrder::kUpperBound : ScanOrder::kEstimate});
          }
          Compare(codes, queries);
        }
      }
    }
  }
}

// With this many documents, each warp processes several whole chunks.
TEST_F(GpuCodesTest, ManyShortDocumentsGiveTheBitsOfTheCpu) {
  constexpr size_t kDocuments = 300000;
  for (const int32_t dim : {32, 128}) {
    const RandomDocuments documents =
        MakeDocuments(seed_, ScalarType::kF16, dim, RandomLengths(seed_, kDocuments, 1, 3));
    const EncodedDocuments encoded = Encoded(documents.view(), false);
    const CodesView codes = encoded.view(1);
    const QueryCodes query = EncodedQuery(codes.shape, 1, MakeQuery(seed_ + 1, ScalarType::kF16, dim, 32));
    std::mt19937_64 generator(seed_);
    std::vector<uint64_t> half((kDocuments + 63) / 64);
    for (uint64_t& word : half) word = generator();
    Compare(codes, {{.codes = &query, .num_results = 100000}});
    Compare(codes, {{.codes = &query, .mask = half.data(), .num_results = 100000, .order = ScanOrder::kUpperBound}});
    Compare(codes, {{.codes = &query, .mask = half.data(), .num_results = 100000},
                    {.codes = &query, .num_results = 100000, .order = ScanOrder::kUpperBound},
                    {.codes = &query, .num_results = 10}});
  }
}

TEST_F(GpuCodesTest, ZerosHaveNoSign) {
  RandomDocuments documents = MakeDocuments(seed_, ScalarType::kF16, 128, {3, 4});
  for (int64_t token = 0; token < 7; ++token) documents.tokens.SetRow(token, std::vector<float>(128, 0.0F));
  const EncodedDocuments encoded = Encoded(documents.view(), false);
  RandomQuery random = MakeQuery(seed_, ScalarType::kF16, 128, 2);
  random.weights = {-1.0F, -1.0F};
  const QueryCodes query = EncodedQuery(encoded.view().shape, 4, random);
  Compare(encoded.view(), {{.codes = &query, .num_results = 5}});
}

TEST_F(GpuCodesTest, EachOfManyCallsHasTheResultsThatItHasAlone) { ExpectCallsAreScannedAsEachAlone(backend(), seed_); }

TEST_F(GpuCodesTest, TheErrorOfAnyCallIsReturned) { ExpectErrorsOfAnyCallAreReturned(backend(), seed_); }

TEST_F(GpuCodesTest, CodesWithoutDocumentsHaveNoResults) {
  const CodesView codes = {.shape = {.dim = 128, .originals = ScalarType::kF16, .rotation_seed = kCodeSeed}};
  const QueryCodes query = EncodedQuery(codes.shape, 1, MakeQuery(seed_, ScalarType::kF16, 128, 5));
  EXPECT_TRUE(OnGpu(*scanner_, *Upload(codes, 1), {{.codes = &query, .num_results = 5}})[0].empty());
}

TEST_F(GpuCodesTest, WrongQueriesAreRefused) {
  const RandomDocuments documents = MakeDocuments(seed_, ScalarType::kF16, 128, {3, 4});
  const EncodedDocuments encoded = Encoded(documents.view(), false);
  const QueryCodes query = EncodedQuery(encoded.view().shape, 2, MakeQuery(seed_, ScalarType::kF16, 128, 5));
  std::vector<std::vector<Scored>> results(1);
  const auto uploaded = Upload(encoded.view(), 1);
  const ScanQuery wanted = {.codes = &query, .num_results = 5};
  const absl::Status status = scanner_->Scan(*uploaded, {&wanted, 1}, absl::MakeSpan(results));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "queries[0].codes are for 2 planes; the documents have 1");
  for (const int planes : {0, 3, 4}) {
    const auto refused = cuda::CudaCodes::Upload(*backend().device(), encoded.view(2), planes);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument) << planes;
  }
}

}  // namespace
}  // namespace maxsim::test
