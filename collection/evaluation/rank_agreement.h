// Measures how far two scorings of the same documents agree. The functions are pure.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace maxsim::evaluation {

// Returns Spearman's rank correlation of two scorings of the same documents. Equal scores share their mean rank. A
// scoring ranks nothing if it has fewer than two documents, or equal scores only: returns 1 if both rank nothing, and 0
// if only one does. The spans have the same size; scores are finite.
double Spearman(absl::Span<const float> a, absl::Span<const float> b);

// Returns how many documents two sets of distinct documents share, divided by the size of the larger set; 1 if both
// are empty.
double Overlap(absl::Span<const uint64_t> a, absl::Span<const uint64_t> b);

}  // namespace maxsim::evaluation
