// What the cases of the backend contract share: an executor with poisoned outputs, and the comparison with the
// reference.
#pragma once

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "kernels/maxsim.h"
#include "tests/support/random_documents.h"

namespace maxsim::test {

using Results = std::vector<std::vector<Scored>>;

// All storage types a backend takes.
inline constexpr ScalarType kStorageTypes[] = {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8};

// Lengths on both sides of every tile height in use.
std::vector<int64_t> BoundaryLengths();

class ContractRunner {
 public:
  explicit ContractRunner(Backend& backend);

  Executor& executor() { return *executor_; }
  Backend& backend() { return backend_; }

  // Loads documents and keeps them loaded until the next Load.
  const Documents& Load(const RandomDocuments& documents);

  // TopK on the loaded documents; the results start out as garbage. An error fails the test and gives empty results.
  Results TopK(absl::Span<const Query> queries);
  std::vector<Scored> TopK(const Query& query) { return TopK(absl::Span<const Query>(&query, 1)).front(); }

 private:
  Backend& backend_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Documents> documents_;
};

// Results of one query against FP64: as many as there must be, in rank order, each score within the contract's bound,
// no position twice, and nothing left out that is clearly better than the last.
void ExpectMatchesReference(const RandomDocuments& documents, const Query& query, const std::vector<Scored>& results);

// Scores of a query's candidates among I8 documents, bit for bit: every operation is named in
// docs/internals/correctness.md and none is left to a backend.
std::vector<float> QuantizedScores(const RandomDocuments& documents, const Query& query);

// Equal positions and equal score bits.
void ExpectSameBits(const std::vector<Scored>& expected, const std::vector<Scored>& actual);

// Score bits by position, in position order.
std::vector<uint32_t> ScoreBits(const std::vector<Scored>& results);

}  // namespace maxsim::test
