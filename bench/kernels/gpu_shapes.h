// The shapes that the GPU benchmark runs, by name, and their ragged lengths and candidate lists. All functions are pure
// and have the same results on every machine.
//
// These are the names, with all numbers in decimal:
//
//   1x1000x32x300                 queries x documents x query tokens x document tokens, every pair scored
//   shard:32x100000               queries x documents, of passage lengths (log-normal, 8 to 512, mean near 121)
//   lists:32x1000of100000         queries x candidates of a set of that many documents, each query its own list
//   topk:1000000k100              selection alone: the best 100 of that many scores
//
// "x QUERY_TOKENS x DOCUMENT_TOKENS" may follow the second and the third; it is 32 x passages otherwise. Document
// tokens are a number, "passages", or a range such as 4-4096 (every length's logarithm is equally likely).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/scalar_type.h"

namespace maxsim::bench {

struct GpuCase {
  std::string name;
  ScalarType type = ScalarType::kF16;
  int32_t dim = 128;
  int32_t num_queries = 1;
  int32_t query_tokens = 32;
  int64_t num_documents = 0;  // documents; in a selection's case, scores
  int32_t min_document_tokens = 0;
  int32_t max_document_tokens = 0;
  bool passages = false;  // lengths are log-normal, as those of text passages are, within the two bounds
  int64_t list_size = 0;  // candidates of each query; 0 if all documents are candidates
  int32_t select_k = 0;   // above 0: selection alone, no documents

  // Returns the expected number of tokens of all documents together.
  double ExpectedTokens() const;
};

// Returns the shape that a name describes. If the grammar above or the limits of a call do not allow the name,
// returns INVALID_ARGUMENT with the name.
absl::StatusOr<GpuCase> ParseGpuCase(absl::string_view name);

// GoalCases returns the shapes of the goals (docs/performance/kernels.md). AllCases returns these and the other
// shapes of the comparison: bf16, INT8 and every width.
std::vector<GpuCase> GoalCases();
std::vector<GpuCase> AllCases();

// Returns the cases that a user has chosen. Each name is "goals", "all" or the name of a shape. A shape that AllCases
// has is returned in the storage types and widths that it has there, and any other shape in f16 and 128 columns.
// `types` and `dims`, if not empty, replace these. No case is returned twice.
absl::StatusOr<std::vector<GpuCase>> SelectCases(absl::Span<const std::string> names,
                                                 absl::Span<const ScalarType> types, absl::Span<const int32_t> dims);

// Returns `count` shapes drawn from `seed`: 1 to 64 queries of 4 to 2,048 tokens; 10 to 20,000 documents of 4 to 4,096;
// 48, 64, 96, 128, 256 or 768 columns; f16 or i8; lists or whole sets. Sizes are drawn by their logarithm. Shapes of
// more than 2^29 elements or 8e12 operations are drawn again.
std::vector<GpuCase> RandomCases(int count, uint64_t seed);

// Returns where each document's tokens begin: [num_documents + 1].
std::vector<int64_t> OffsetsOf(const GpuCase& shape);

// Returns a list of candidates for each query. They are distinct and in no particular order. If the case has no lists,
// each list is empty.
std::vector<std::vector<uint32_t>> ListsOf(const GpuCase& shape);

}  // namespace maxsim::bench
