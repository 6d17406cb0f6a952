// Measures how far two rankings agree.
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace maxsim::evaluation {

// Returns Spearman's rank correlation of the scores a[i] and b[i] of documents i. Equal scores share their mean rank.
// Returns 1 if all scores in both spans are equal (or there are fewer than two), and 0 if that holds for one span only.
// The spans must have the same size and finite scores.
double Spearman(absl::Span<const float> a, absl::Span<const float> b);

// Returns the number of documents in both lists, divided by the size of the larger list; 1 if both are empty. Neither
// list may repeat a document.
double Overlap(absl::Span<const uint64_t> a, absl::Span<const uint64_t> b);

}  // namespace maxsim::evaluation
