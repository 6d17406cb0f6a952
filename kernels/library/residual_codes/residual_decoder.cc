#include "kernels/library/residual_codes/residual_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/scalar_type.h"

namespace maxsim::library {
namespace {

// The smallest norm that a vector is divided by.
constexpr float kMinNorm = 1e-12f;

// Returns the value that is nearest to `value` in the type.
float Rounded(ScalarType type, float value) {
  switch (type) {
    case ScalarType::kF16:
      return F16ToF32(F32ToF16(value));
    case ScalarType::kBF16:
      return Bf16ToF32(F32ToBf16(value));
    default:
      return value;
  }
}

// Returns the bucket of column `column` of those that share a byte.
int BucketOf(int byte, int column, int nbits, int32_t bit_order) {
  if (bit_order == MAXSIM_LOW_BITS_FIRST) return byte >> (column * nbits) & ((1 << nbits) - 1);
  int bucket = 0;
  for (int bit = 0; bit < nbits; ++bit) bucket |= (byte >> (7 - column * nbits - bit) & 1) << bit;
  return bucket;
}

template <int kColumns>
void AddWeights(const uint8_t* residuals, int64_t num_bytes, const float* weights, float* vector) {
  for (int64_t idx = 0; idx < num_bytes; ++idx) {
    const float* const of_byte = weights + size_t{residuals[idx]} * kColumns;
    float* const target = vector + idx * kColumns;
    for (int column = 0; column < kColumns; ++column) target[column] += of_byte[column];
  }
}

// Returns the norm, of sums that a compiler can vectorise.
float NormOf(const float* vector, int32_t dim) {
  constexpr int32_t kSums = 16;
  float sums[kSums] = {};
  int32_t column = 0;
  for (; column + kSums <= dim; column += kSums) {
    for (int32_t idx = 0; idx < kSums; ++idx) sums[idx] += vector[column + idx] * vector[column + idx];
  }
  for (; column < dim; ++column) sums[column % kSums] += vector[column] * vector[column];
  float sum = 0;
  for (const float part : sums) sum += part;
  return std::sqrt(sum);
}

}  // namespace

ResidualDecoder::ResidualDecoder(const CodedProblem& problem) : problem_(problem) {
  const maxsim_residual_codes& codes = problem.codes;
  if (codes.bucket_weights == nullptr) return;  // there are no rows
  const int columns = 8 / codes.nbits;
  weights_.reserve(static_cast<size_t>(256 * columns));
  for (int byte = 0; byte < 256; ++byte) {
    for (int column = 0; column < columns; ++column) {
      const float weight = codes.bucket_weights[BucketOf(byte, column, codes.nbits, codes.bit_order)];
      weights_.push_back(Rounded(problem.problem.type(), weight));
    }
  }
}

void ResidualDecoder::Decode(int64_t row, float* vector) const {
  const maxsim_residual_codes& codes = problem_.codes;
  const ScalarType type = problem_.problem.type();
  const int32_t dim = problem_.problem.dim();
  const int64_t number = std::clamp<int64_t>(CentroidNumber(codes, row), 0, codes.num_centroids - 1);
  const int64_t row_bytes = dim * static_cast<int64_t>(SizeOf(type));
  ConvertElements(type, static_cast<const char*>(codes.centroids) + number * row_bytes, ScalarType::kF32, vector,
                  static_cast<size_t>(dim));
  const int64_t num_bytes = problem_.packed_row_bytes();
  const uint8_t* const residuals = codes.residuals + row * num_bytes;
  switch (codes.nbits) {
    case 1:
      AddWeights<8>(residuals, num_bytes, weights_.data(), vector);
      break;
    case 2:
      AddWeights<4>(residuals, num_bytes, weights_.data(), vector);
      break;
    case 4:
      AddWeights<2>(residuals, num_bytes, weights_.data(), vector);
      break;
    default:
      AddWeights<1>(residuals, num_bytes, weights_.data(), vector);
  }
  if (type != ScalarType::kF32) {
    for (int32_t column = 0; column < dim; ++column) vector[column] = Rounded(type, vector[column]);
  }
  if (codes.normalize == 0) return;
  const float factor = 1.0f / std::max(NormOf(vector, dim), kMinNorm);
  for (int32_t column = 0; column < dim; ++column) vector[column] *= factor;
}

}  // namespace maxsim::library
