// Counts lossy tokens: tokens whose vectors i8 storage represents badly.
//
// A document has one scale, which its largest value determines. So tokens with much smaller values are rounded to few
// steps or to zeros. The stored elements show both cases, so a reader of a collection finds every lossy token that
// its writer counted. A reader also counts tokens that were all zeros before they were quantised; a writer that knows
// their values leaves them out.
#pragma once

#include <cstdint>
#include <string>

namespace maxsim::collection {

// A token is coarse if the rounding error exceeds this share of its length.
inline constexpr double kMaxRoundingShare = 0.25;

struct QuantizationLoss {
  int64_t num_documents = 0;  // documents with lossy tokens
  int64_t num_zeroed = 0;     // tokens that became zeros
  int64_t num_coarse = 0;     // tokens that are coarse and not zeros

  int64_t num_tokens() const { return num_zeroed + num_coarse; }
  void Add(const QuantizationLoss& other);
};

// Returns the loss of one document of `num_tokens` rows of `dim` elements. `rotated` has the values before
// quantisation, or is null if they are unknown. With `rotated`, tokens that were all zeros before are not counted.
// `rotated` must not be null for a document with scale 0.
QuantizationLoss LossOf(const int8_t* elements, const float* rotated, int64_t num_tokens, int64_t dim);

// Returns "19 tokens of 1 document (18 became zeros, of 1 rounding took more than 25 % of the length)".
std::string Describe(const QuantizationLoss& loss);

}  // namespace maxsim::collection
