// Helpers of the cases of the backend contract. An executor fills its outputs with garbage before each call, and
// functions compare results with the reference.
#pragma once

#include <iterator>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::test {

using Results = std::vector<std::vector<Scored>>;

inline constexpr ScalarType kAllStorageTypes[] = {
    ScalarType::kF32,       ScalarType::kF16,       ScalarType::kBF16,      ScalarType::kI8,
    ScalarType::kResidual4, ScalarType::kResidual1, ScalarType::kResidual2, ScalarType::kResidual8};
// The storage types that the cases test. Builds with a sanitizer test residual codes of only one width, because all
// widths are decoded by the same code.
inline constexpr absl::Span<const ScalarType> kStorageTypes =
    absl::MakeConstSpan(kAllStorageTypes).first(kSanitized ? 5 : std::size(kAllStorageTypes));
// The types of documents that support appending and staging.
inline constexpr ScalarType kWritableTypes[] = {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8};

// Returns document lengths one below, at and one above every tile height in use.
std::vector<int64_t> BoundaryLengths();

class ContractRunner {
 public:
  explicit ContractRunner(Backend& backend);

  Executor& executor() { return *executor_; }
  Backend& backend() { return backend_; }

  // Loads documents, and keeps them until the next Load.
  const Documents& Load(const RandomDocuments& documents);

  // Runs TopK on the loaded documents. Fills the result memory with garbage first. If TopK fails, fails the test and
  // returns empty results.
  Results TopK(absl::Span<const Query> queries);
  std::vector<Scored> TopK(const Query& query) { return TopK(absl::Span<const Query>(&query, 1)).front(); }

 private:
  Backend& backend_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Documents> documents_;
};

// Checks the results of one query against FP64. Their number and rank order must be right, each score within the
// contract's error bound, and no position repeated. No candidate that is clearly better than the last result may be
// missing.
void ExpectMatchesReference(const RandomDocuments& documents, const Query& query, const std::vector<Scored>& results);

// Returns the exact scores of a query's candidates among I8 documents. Every backend must compute the same bits,
// because docs/internals/correctness.md prescribes every operation.
std::vector<float> QuantizedScores(const RandomDocuments& documents, const Query& query);

// Checks that positions and the bits of scores are equal.
void ExpectSameBits(const std::vector<Scored>& expected, const std::vector<Scored>& actual);

// Returns the bits of the scores, in the order of the results' positions.
std::vector<uint32_t> ScoreBits(const std::vector<Scored>& results);

}  // namespace maxsim::test
