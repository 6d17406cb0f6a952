// Tests scans: every instruction set must select the same documents as the reference, bit for bit, and every
// certificate (proof that no better document was left out) must be right.
#include "kernels/cpu/codes/code_scanner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "kernels/codes/encode.h"
#include "kernels/codes/reference_codes.h"
#include "kernels/codes/scan.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/rank_order.h"
#include "tests/support/values/clustered_documents.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/kernels/codes/codes_fixture.h"
#include "tests/unit/kernels/emulated_isa.h"

namespace maxsim {
namespace {

using ::testing::HasSubstr;

// Several threads claim the work, in a different order each time. The results must not depend on that order.
constexpr int kNumThreads = 3;

std::vector<const cpu::Isa*> Isas() {
  std::vector<const cpu::Isa*> isas = cpu::AvailableIsas();
  for (const cpu::Isa* isa : test::EmulatedIsas()) isas.push_back(isa);
  return isas;
}

class CodeScanTest : public testing::TestWithParam<const cpu::Isa*> {
 protected:
  std::vector<std::vector<Scored>> Scan(const CodesView& codes, absl::Span<const ScanQuery> queries) {
    std::vector<std::vector<Scored>> results(queries.size());
    const absl::Status status = scanner_.Scan(codes, queries, absl::MakeSpan(results));
    EXPECT_TRUE(status.ok()) << status;
    return results;
  }

  const uint64_t seed_ = test::TestSeed();
  testing::ScopedTrace trace_{__FILE__, __LINE__, test::SeedTrace(seed_)};
  ThreadPool pool_{kNumThreads};
  CodeScanner scanner_{*GetParam(), pool_};
};

INSTANTIATE_TEST_SUITE_P(Isas, CodeScanTest, testing::ValuesIn(Isas()),
                         [](const auto& param_info) { return std::string(param_info.param->name); });

// Does what a scan does, by the reference.
std::vector<Scored> ExpectedResults(const CodesView& codes, const ScanQuery& query) {
  const bool whole = query.ordinals == nullptr;
  const int64_t num_candidates = whole ? codes.num_documents : query.num_candidates;
  std::vector<Scored> results;
  for (int64_t position = 0; position < num_candidates; ++position) {
    const int64_t document = whole ? position : query.ordinals[position];
    if (query.mask != nullptr && (query.mask[document / 64] >> (document % 64) & 1) == 0) continue;
    const ReferenceSums sums = ReferenceSumsOf(codes, *query.codes, document);
    const float scale = codes.scales[document];
    const float score =
        query.order == ScanOrder::kEstimate
            ? Estimate(*query.codes, sums.sum, scale)
            : UpperBound(*query.codes, sums.positive, scale, codes.bounds[BoundIndex(query.codes->planes)][document]);
    results.push_back({score, static_cast<uint32_t>(position)});
  }
  std::sort(results.begin(), results.end(), RanksBefore);
  results.resize(std::min(results.size(), static_cast<size_t>(query.num_results)));
  return results;
}

TEST_P(CodeScanTest, EstimatesAndBoundsAreThoseOfTheReference) {
  for (const int32_t dim : {8, 9, 31, 33, 48, 64, 96, 100, 128, 129, 224, 256, 384, 1000, 4096}) {
    for (const bool factors : {false, true}) {
      // Document lengths just below, at and above the heights of tiles and of row blocks.
      const std::vector<int64_t> lengths = {1, 2, 3, 5, 11, 12, 13, 23, 24, 25, 47, 96, 97, 130};
      test::RandomDocuments documents = test::MakeDocuments(
          seed_, ScalarType::kF32, dim, absl::MakeSpan(lengths).subspan(0, dim > 400 ? 7 : lengths.size()));
      if (factors) test::SpreadNorms(seed_, 7, &documents);
      const EncodedDocuments encoded = test::Encoded(documents.view(), factors);
      for (const int planes : {1, 2, 4}) {
        test::RandomQuery random = test::MakeQuery(seed_ + 1, ScalarType::kF32, dim, 5);
        random.weights = test::MixedWeights(seed_, 5);
        const QueryCodes query = test::EncodedQuery(encoded.view().shape, planes, random);
        for (const ScanOrder order : {ScanOrder::kEstimate, ScanOrder::kUpperBound}) {
          SCOPED_TRACE(testing::Message() << "d " << dim << ", " << planes << " planes, factors " << factors);
          const ScanQuery scan = {.codes = &query, .num_results = 100, .order = order};
          const CodesView codes = encoded.view(planes);
          ASSERT_EQ(Scan(codes, {&scan, 1})[0], ExpectedResults(codes, scan));
        }
      }
    }
  }
}

// Every level, element and factor has its largest magnitude, so the sums are the largest possible. An integer overflow
// would show here.
TEST_P(CodeScanTest, TheLargestSumsAreExact) {
  constexpr int32_t kDim = 4096;
  for (const bool factors : {false, true}) {
    test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF32, kDim, {1, 2});
    const EncodedDocuments encoded = test::Encoded(documents.view(), factors);
    CodesView codes = encoded.view();
    const size_t num_bytes = 3 * PlaneRowBytes(kDim);
    std::vector<uint8_t, test::CacheLineAllocator<uint8_t>> ones(2 * num_bytes, 0xff);
    std::vector<uint8_t, test::CacheLineAllocator<uint8_t>> signs(num_bytes, 0xff);
    std::fill_n(signs.begin(), PlaneRowBytes(kDim), 0);
    codes.plane0 = signs.data();
    codes.plane1 = ones.data();
    codes.planes23 = ones.data();
    const std::vector<uint8_t> largest(3, kMaxFactor);
    if (factors) codes.factors = largest.data();
    for (const int planes : {1, 2, 4}) {
      for (const int32_t value : {127, -127}) {
        QueryCodes query = test::EncodedQuery(codes.shape, planes, test::MakeQuery(1, ScalarType::kF32, kDim, 2));
        std::fill(query.elements.begin(), query.elements.end(), static_cast<int8_t>(value));
        if (planes == 1) {
          // Chooses the query so that every bit weighs 127 * 128, the largest weight that is possible.
          for (int32_t token = 0; token < 2; ++token) {
            for (int32_t word = 0; word < CodeWords(kDim); ++word) {
              int32_t coefficients[39] = {};
              for (int32_t bit = 31; bit >= 0; --bit) {
                int32_t above = 0;
                for (int32_t t = 1; t < 8; ++t) above += coefficients[bit + t] << (7 - t);
                coefficients[bit] = std::clamp((value * 128 - above) / 128, -127, 127);
                query.elements[token * kDim + ColumnOfBit(kDim, word, bit)] = static_cast<int8_t>(coefficients[bit]);
                query.weights[token * kDim + ColumnOfBit(kDim, word, bit)] =
                    static_cast<int16_t>(above + 128 * coefficients[bit]);
              }
            }
          }
        }
        for (int32_t token = 0; token < 2; ++token) {
          const auto elements = query.elements.begin() + static_cast<ptrdiff_t>(token) * kDim;
          query.element_sums[token] = std::accumulate(elements, elements + kDim, int32_t{0});
          query.weight_sums[token] = query.element_sums[token];
          if (planes != 1) continue;
          const auto weights = query.weights.begin() + static_cast<ptrdiff_t>(token) * kDim;
          query.weight_sums[token] = std::accumulate(weights, weights + kDim, int32_t{0});
        }
        std::fill(query.multipliers.begin(), query.multipliers.end(), int16_t{kMaxMultiplier});
        const ScanQuery scan = {.codes = &query, .num_results = 2};
        EXPECT_EQ(Scan(codes, {&scan, 1})[0], ExpectedResults(codes, scan)) << planes << " planes, " << value;
      }
    }
  }
}

TEST_P(CodeScanTest, MasksAndListsSayWhichDocumentsMayBeSelected) {
  const test::RandomDocuments documents =
      test::MakeDocuments(seed_, ScalarType::kF16, 96, test::RandomLengths(seed_, 300, 1, 9));
  const EncodedDocuments encoded = test::Encoded(documents.view(), false);
  const CodesView codes = encoded.view();
  const QueryCodes query = test::EncodedQuery(codes.shape, 1, test::MakeQuery(seed_ + 1, ScalarType::kF16, 96, 6));
  std::mt19937_64 generator(seed_);
  const std::vector<uint64_t> sparse = {generator() & generator(), 0, generator(), uint64_t{1} << 63, 1};
  const std::vector<uint64_t> none(5, 0);
  const std::vector<uint64_t> all(5, ~uint64_t{0});
  std::vector<uint32_t> list = {299, 0, 0, 128, 127, 64, 63, 299};
  for (int idx = 0; idx < 100; ++idx) list.push_back(static_cast<uint32_t>(generator() % 300));
  std::vector<ScanQuery> queries;
  for (const std::vector<uint64_t>* mask : {&sparse, &none, &all, static_cast<const std::vector<uint64_t>*>(nullptr)}) {
    for (const std::vector<uint32_t>* ordinals : {&list, static_cast<std::vector<uint32_t>*>(nullptr)}) {
      for (const int32_t num_results : {1, 7, 1000}) {
        ScanQuery scan = {.codes = &query, .num_results = num_results};
        if (mask != nullptr) scan.mask = mask->data();
        if (ordinals != nullptr) scan.ordinals = ordinals->data();
        if (ordinals != nullptr) scan.num_candidates = static_cast<int64_t>(ordinals->size());
        queries.push_back(scan);
      }
    }
  }
  queries.push_back({.codes = &query, .ordinals = list.data(), .num_candidates = 0, .num_results = 3});
  const std::vector<std::vector<Scored>> results = Scan(codes, queries);
  for (size_t idx = 0; idx < queries.size(); ++idx) {
    EXPECT_EQ(results[idx], ExpectedResults(codes, queries[idx])) << "query " << idx;
  }
}

TEST_P(CodeScanTest, AnyBatchGivesTheSameBits) {
  const test::RandomDocuments documents =
      test::MakeDocuments(seed_, ScalarType::kF16, 64, test::RandomLengths(seed_, 200, 1, 30));
  const EncodedDocuments encoded = test::Encoded(documents.view(), false);
  const CodesView codes = encoded.view();
  std::vector<QueryCodes> query_codes;
  for (int idx = 0; idx < kMaxScanQueries; ++idx) {
    const int32_t num_tokens = idx == 7 ? 1100 : 1 + idx * 7 % 40;
    const test::RandomQuery query = test::MakeQuery(seed_ + idx, ScalarType::kF16, 64, num_tokens);
    query_codes.push_back(test::EncodedQuery(codes.shape, std::vector<int>{1, 2, 4}[idx % 3], query));
  }
  std::vector<ScanQuery> queries;
  for (size_t idx = 0; idx < query_codes.size(); ++idx) {
    queries.push_back({.codes = &query_codes[idx],
                       .num_results = 25,
                       .order = idx % 2 == 0 ? ScanOrder::kEstimate : ScanOrder::kUpperBound});
  }
  const std::vector<std::vector<Scored>> together = Scan(codes, queries);
  for (size_t idx = 0; idx < queries.size(); ++idx) {
    EXPECT_EQ(Scan(codes, {&queries[idx], 1})[0], together[idx]) << "query " << idx;
    if (idx % 8 == 0) {
      EXPECT_EQ(together[idx], ExpectedResults(codes, queries[idx])) << "query " << idx;
    }
  }
}

TEST_P(CodeScanTest, EqualScoresRankByPosition) {
  test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF16, 32, std::vector<int64_t>(50, 1));
  for (int64_t token = 1; token < 50; ++token) documents.tokens.CopyRow(documents.tokens, 0, token);
  const EncodedDocuments encoded = test::Encoded(documents.view(), false);
  const QueryCodes query =
      test::EncodedQuery(encoded.view().shape, 2, test::MakeQuery(seed_ + 1, ScalarType::kF16, 32, 3));
  const ScanQuery scan = {.codes = &query, .num_results = 9};
  const std::vector<Scored> results = Scan(encoded.view(), {&scan, 1})[0];
  ASSERT_EQ(results.size(), 9u);
  for (uint32_t idx = 0; idx < 9; ++idx) EXPECT_EQ(results[idx].position, idx);
}

TEST_P(CodeScanTest, NoDocumentsGiveNoResults) {
  const test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF16, 32, {});
  const EncodedDocuments encoded = test::Encoded(documents.view(), false);
  const QueryCodes query =
      test::EncodedQuery(encoded.view().shape, 2, test::MakeQuery(seed_ + 1, ScalarType::kF16, 32, 3));
  const ScanQuery scan = {.codes = &query, .num_results = 9, .order = ScanOrder::kUpperBound};
  EXPECT_TRUE(Scan(encoded.view(), {&scan, 1})[0].empty());
}

// Returns the ordinals of the best k in FP64.
std::vector<uint32_t> BestOf(const std::vector<double>& scores, const std::vector<uint32_t>& among, size_t k) {
  std::vector<uint32_t> best = among;
  std::sort(best.begin(), best.end(),
            [&](uint32_t a, uint32_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; });
  best.resize(std::min(k, best.size()));
  return best;
}

// A certificate proves that a selection holds the exact top k: the k-th exact score in the selection exceeds the upper
// bounds of all other documents. Selections grow until that holds. One instruction set is enough, because all select
// the same documents.
TEST(CertificateTest, WhatIsProvenIsTheExactTopK) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  constexpr size_t kTopK = 10;
  const int64_t num_documents = test::kSanitized ? 400 : 800;
  const int num_queries = test::kSanitized ? 4 : 8;
  ThreadPool pool(kNumThreads);
  CodeScanner scanner(*cpu::AvailableIsas().front(), pool);
  std::vector<uint32_t> everything(num_documents);
  std::iota(everything.begin(), everything.end(), 0);
  for (const ScalarType type : {ScalarType::kF16, ScalarType::kI8}) {
    for (const bool factors : {false, true}) {
      test::ClusteredDocuments clustered(seed, num_documents, 128, type);
      const EncodedDocuments encoded = test::Encoded(clustered.documents.view(), factors);
      for (const int planes : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message() << Name(type) << ", " << planes << " planes, factors " << factors);
        int64_t refined = 0;
        for (int idx = 0; idx < num_queries; ++idx) {
          const test::RandomQuery random = clustered.Query();
          const std::vector<double> exact = test::ExactScores(clustered.documents.view(), random);
          const QueryCodes query = test::EncodedQuery(encoded.view().shape, planes, random);
          std::optional<std::vector<uint32_t>> proven;
          for (int32_t count = 20; !proven.has_value(); count *= 2) {
            const ScanQuery scan = {.codes = &query, .num_results = count, .order = ScanOrder::kUpperBound};
            std::vector<std::vector<Scored>> results(1);
            ASSERT_TRUE(scanner.Scan(encoded.view(), {&scan, 1}, absl::MakeSpan(results)).ok());
            std::vector<uint32_t> ordinals;
            for (const Scored& scored : results[0]) ordinals.push_back(scored.position);
            const std::vector<uint32_t> best = BestOf(exact, ordinals, kTopK);
            if (exact[best.back()] <= LargestOutside(scan, results[0])) continue;
            proven = best;
            refined += static_cast<int64_t>(results[0].size());
          }
          EXPECT_EQ(*proven, BestOf(exact, everything, kTopK)) << "query " << idx;
        }
        // A certificate that needs most of the documents would save nothing. Codes of one and two planes (bits per
        // value) are not checked, because their bounds are wide.
        if (planes == 4) {
          EXPECT_LT(refined / num_queries, num_documents / 2);
        }
      }
    }
  }
}

TEST(CodeScannerTest, SaysWhatIsWrong) {
  const test::RandomDocuments documents = test::MakeDocuments(1, ScalarType::kF16, 32, {1, 2});
  const EncodedDocuments encoded = test::Encoded(documents.view(), false);
  const test::RandomQuery random = test::MakeQuery(2, ScalarType::kF16, 32, 3);
  const QueryCodes query = test::EncodedQuery(encoded.view().shape, 2, random);
  ThreadPool pool(1);
  CodeScanner scanner(*cpu::AvailableIsas().front(), pool);
  const auto message = [&](const CodesView& codes, ScanQuery scan) {
    std::vector<std::vector<Scored>> results(1);
    return std::string(scanner.Scan(codes, {&scan, 1}, absl::MakeSpan(results)).message());
  };
  const ScanQuery good = {.codes = &query, .num_results = 3};
  EXPECT_EQ(message(encoded.view(), good), "");
  ScanQuery scan = good;
  scan.num_results = 0;
  EXPECT_THAT(message(encoded.view(), scan), HasSubstr("queries[0].num_results is 0; must be 1 to 1048576"));
  EXPECT_THAT(message(encoded.view(1), good), HasSubstr("queries[0].codes are for 2 planes; the documents have 1"));
  const uint32_t ordinals[] = {1, 2};
  scan = good;
  scan.ordinals = ordinals;
  scan.num_candidates = 2;
  EXPECT_THAT(message(encoded.view(), scan), HasSubstr("queries[0].ordinals[1] is 2; must be below 2 documents"));
  scan = good;
  scan.order = ScanOrder::kUpperBound;
  CodesView codes = encoded.view();
  codes.bounds[1] = nullptr;
  EXPECT_THAT(message(codes, scan), HasSubstr("no bounds of 2 planes"));
  codes.shape.rotation_seed = 5;
  EXPECT_THAT(message(codes, good), HasSubstr("another shape"));
  const std::vector<ScanQuery> many(65, good);
  std::vector<std::vector<Scored>> results(65);
  EXPECT_THAT(std::string(scanner.Scan(encoded.view(), many, absl::MakeSpan(results)).message()),
              HasSubstr("queries has 65 elements; must be at most 64"));
  EXPECT_THAT(std::string(scanner.Scan(encoded.view(), {&good, 1}, absl::MakeSpan(results)).message()),
              HasSubstr("results has 65 elements"));
}

}  // namespace
}  // namespace maxsim
