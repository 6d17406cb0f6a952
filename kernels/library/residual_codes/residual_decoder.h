// Decodes rows of residual codes in host memory.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/library/cpu/row_decoder.h"
#include "kernels/library/residual_codes/coded_problem.h"

namespace maxsim::library {

// Returns the centroid number of a row.
inline int64_t CentroidNumber(const maxsim_residual_codes& codes, int64_t row) {
  return codes.number_type == MAXSIM_INT32 ? static_cast<const int32_t*>(codes.centroid_numbers)[row]
                                           : static_cast<const int64_t*>(codes.centroid_numbers)[row];
}

// It borrows the problem. Numbers outside of the centroids are taken for the nearest one, so that none is read outside.
class ResidualDecoder : public RowDecoder {
 public:
  explicit ResidualDecoder(const CodedProblem& problem);

  void Decode(int64_t row, float* vector) const override;

 private:
  const CodedProblem& problem_;
  // [256, 8 / nbits]: the weights of the columns that share a byte, for each value of the byte, in the queries' type
  std::vector<float> weights_;
};

}  // namespace maxsim::library
