// Measures how far two scorings of the same documents agree. The functions are pure.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace maxsim::evaluation {

// Returns Spearman's rank correlation of two scorings of the same documents, equal scores sharing their mean rank. 1
// where either ranks nothing (fewer than two documents, or all scores equal) and the other does not either; 0 where
// only one does. The spans have the same size; scores are finite.
double Spearman(absl::Span<const float> a, absl::Span<const float> b);

// Elements that two sets of distinct documents share, over the larger size; 1 for two empty ones.
double Overlap(absl::Span<const uint64_t> a, absl::Span<const uint64_t> b);

}  // namespace maxsim::evaluation
