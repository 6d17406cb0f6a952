// Decodes rows of residual codes in host memory.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/library/cpu/row_decoder.h"
#include "kernels/library/residual_codes/coded_problem.h"
#include "kernels/residual_codes.h"

namespace maxsim::library {

// Returns the centroid number of a row.
inline int64_t CentroidNumber(const maxsim_residual_codes& codes, int64_t row) {
  return codes.number_type == MAXSIM_INT32 ? static_cast<const int32_t*>(codes.centroid_numbers)[row]
                                           : static_cast<const int64_t*>(codes.centroid_numbers)[row];
}

// Decodes the documents of `problem`, which must outlive this object. Replaces a centroid number that is out of range
// by the nearest valid one.
class CodedRowDecoder : public RowDecoder {
 public:
  explicit CodedRowDecoder(const CodedProblem& problem);

  void Decode(int64_t row, float* vector) const override;

 private:
  const CodedProblem& problem_;
  std::optional<ResidualDecoder> decoder_;  // nullopt where there are no rows
};

}  // namespace maxsim::library
