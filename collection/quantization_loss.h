// Counts the tokens that i8 storage keeps badly.
//
// A document has one scale, which its largest value sets. A token whose values are far smaller is rounded to a few
// steps, or to zeros: one vector of 10,000 times the length of the others leaves nothing of these. Both show in the
// stored elements, so that what reads a collection can count them as what writes it does.
#pragma once

#include <cstdint>
#include <string>

namespace maxsim::collection {

// A token is coarse when rounding takes more than this share of its length.
inline constexpr double kMaxRoundingShare = 0.25;

struct QuantizationLoss {
  int64_t num_documents = 0;  // that have such tokens
  int64_t num_zeroed = 0;     // tokens that became zeros
  int64_t num_coarse = 0;     // tokens that are coarse and not zeros

  int64_t num_tokens() const { return num_zeroed + num_coarse; }
  void Add(const QuantizationLoss& other);
};

// Returns the loss of one document of `num_tokens` rows of `dim` elements. `rotated` are the values that the elements
// were made of, so that tokens that were zeros before are not counted; it is null where they are not known. A document
// with scale 0 consists of zeros and must not be passed without them.
QuantizationLoss LossOf(const int8_t* elements, const float* rotated, int64_t num_tokens, int64_t dim);

// Returns "19 tokens of 1 document (18 became zeros, of 1 rounding took more than 25 % of the length)".
std::string Describe(const QuantizationLoss& loss);

}  // namespace maxsim::collection
