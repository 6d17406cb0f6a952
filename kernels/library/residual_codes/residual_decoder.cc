#include "kernels/library/residual_codes/residual_decoder.h"

namespace maxsim::library {

CodedRowDecoder::CodedRowDecoder(const CodedProblem& problem) : problem_(problem) {
  const maxsim_residual_codes& codes = problem.codes;
  if (codes.bucket_weights == nullptr) return;  // there are no rows
  decoder_.emplace(ResidualDecoder::Format{.type = problem.problem.type(),
                                           .nbits = codes.nbits,
                                           .low_bits_first = codes.bit_order == MAXSIM_LOW_BITS_FIRST,
                                           .normalize = codes.normalize != 0,
                                           .dim = problem.problem.dim(),
                                           .num_centroids = codes.num_centroids,
                                           .centroids = codes.centroids,
                                           .bucket_weights = codes.bucket_weights});
}

void CodedRowDecoder::Decode(int64_t row, float* vector) const {
  decoder_->Decode(CentroidNumber(problem_.codes, row), problem_.codes.residuals + row * problem_.packed_row_bytes(),
                   vector);
}

}  // namespace maxsim::library
