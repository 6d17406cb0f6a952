// Shared by the cases of the backend contract: an executor whose outputs start out as garbage, and the comparison with
// the reference.
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
// Every backend takes all storage types. Under a sanitizer residual codes of one width stand for all: the others are
// decoded by the same code.
inline constexpr absl::Span<const ScalarType> kStorageTypes =
    absl::MakeConstSpan(kAllStorageTypes).first(kSanitized ? 5 : std::size(kAllStorageTypes));
// Documents of these types can be appended to, and staged.
inline constexpr ScalarType kWritableTypes[] = {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8};

// Returns document lengths on both sides of every tile height in use.
std::vector<int64_t> BoundaryLengths();

class ContractRunner {
 public:
  explicit ContractRunner(Backend& backend);

  Executor& executor() { return *executor_; }
  Backend& backend() { return backend_; }

  // Loads documents and keeps them loaded until the next Load.
  const Documents& Load(const RandomDocuments& documents);

  // Runs TopK on the loaded documents, into results that start out as garbage. An error fails the test and gives empty
  // results.
  Results TopK(absl::Span<const Query> queries);
  std::vector<Scored> TopK(const Query& query) { return TopK(absl::Span<const Query>(&query, 1)).front(); }

 private:
  Backend& backend_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Documents> documents_;
};

// Checks the results of one query against FP64: there are as many as there must be, in rank order, each score is within
// the contract's bound, no position comes twice, and nothing is left out that is clearly better than the last.
void ExpectMatchesReference(const RandomDocuments& documents, const Query& query, const std::vector<Scored>& results);

// Returns the scores of a query's candidates among I8 documents, bit for bit: docs/internals/correctness.md names every
// operation and leaves none to a backend.
std::vector<float> QuantizedScores(const RandomDocuments& documents, const Query& query);

// Checks that positions and score bits are equal.
void ExpectSameBits(const std::vector<Scored>& expected, const std::vector<Scored>& actual);

// Returns the score bits in the order of the results' positions.
std::vector<uint32_t> ScoreBits(const std::vector<Scored>& results);

}  // namespace maxsim::test
