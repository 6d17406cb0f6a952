// Random calls on documents in residual codes (maxsim/residual_codes.h), and their expected results.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "kernels/library/include/maxsim/residual_codes.h"
#include "tests/support/library/library_case.h"

namespace maxsim::test {

struct CodesShape {
  LibraryShape library;  // with ties: centroids and weights are small integers, and vectors are not normalised
  int32_t nbits = 2;
  int32_t bit_order = MAXSIM_COLBERT_BITS;
  int32_t number_type = MAXSIM_INT64;
  bool normalize = false;
  int64_t num_centroids = 37;

  friend std::ostream& operator<<(std::ostream& out, const CodesShape& shape);
};

// A call with its memory. Tokens that must be ignored have an invalid centroid number, or the number of the last
// centroid, which is NaN. So a test fails if a call uses them.
struct CodesCase {
  CodesCase(const CodesShape& shape, uint64_t seed);
  CodesCase(const CodesCase&) = delete;
  CodesCase& operator=(const CodesCase&) = delete;

  // The call without document rows. Its document values are the decoded vectors in FP64, from which ReferenceScoresOf
  // and ReferenceGradientsOf compute the expected results.
  LibraryCase library;
  std::vector<char> numbers;
  std::vector<uint8_t> residuals;
  std::vector<char> centroids;
  std::vector<float> bucket_weights;
  maxsim_residual_codes codes = {};  // points to the members above
};

// Returns shapes that cover every layout, pairing, type, number of bits and bit order.
std::vector<CodesShape> CodesShapes();

// Returns shapes of one type. Their dimensions and numbers of tokens lie at the edges of the kernels' tiles.
std::vector<CodesShape> CodesEdgeShapes(int32_t type);

// Fails the test if gradients of queries or weights differ from FP64.
void ExpectQueryGradients(const CodesCase& codes_case, const std::vector<int32_t>& argmax,
                          LibraryGradientMemory gradients);

}  // namespace maxsim::test
