#include "kernels/residual_codes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace maxsim {
namespace {

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

// Returns the bucket of a column. `byte` holds the buckets of several columns, and `column` counts among these from 0.
int BucketOf(int byte, int column, const ResidualDecoder::Format& format) {
  const int nbits = format.nbits;
  if (format.low_bits_first) return byte >> (column * nbits) & ((1 << nbits) - 1);
  int bucket = 0;
  for (int bit = 0; bit < nbits; ++bit) bucket |= (byte >> (7 - column * nbits - bit) & 1) << bit;
  return bucket;
}

uint32_t NumberAt(const uint8_t* bytes) {
  uint32_t number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

template <int kColumns>
void AddWeights(const uint8_t* codes, int64_t num_bytes, const float* weights, float* vector) {
  for (int64_t idx = 0; idx < num_bytes; ++idx) {
    const float* const of_byte = weights + size_t{codes[idx]} * kColumns;
    float* const target = vector + idx * kColumns;
    for (int column = 0; column < kColumns; ++column) target[column] += of_byte[column];
  }
}

// Returns the Euclidean norm. The code keeps several partial sums, so that compilers can vectorise it.
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

std::optional<int64_t> FindUnusableRow(ScalarType type, int64_t dim, const void* rows, int64_t num_rows,
                                       int64_t num_centroids) {
  const auto* row = static_cast<const char*>(rows);
  for (int64_t idx = 0; idx < num_rows; ++idx, row += RowBytes(type, dim)) {
    if (int64_t{ResidualCentroid(type, dim, row)} >= num_centroids) return idx;
  }
  return std::nullopt;
}

ResidualDecoder::ResidualDecoder(const Format& format) : format_(format) {
  const int columns = 8 / format.nbits;
  weights_.reserve(static_cast<size_t>(256 * columns));
  for (int byte = 0; byte < 256; ++byte) {
    for (int column = 0; column < columns; ++column) {
      weights_.push_back(Rounded(format.type, format.bucket_weights[BucketOf(byte, column, format)]));
    }
  }
}

ResidualDecoder::ResidualDecoder(ScalarType type, int32_t dim, const ResidualCodebook& codebook)
    : ResidualDecoder(Format{.nbits = ResidualBits(type),
                             .dim = dim,
                             .num_centroids = codebook.num_centroids,
                             .centroids = codebook.centroids,
                             .bucket_weights = codebook.bucket_weights}) {}

void ResidualDecoder::DecodeSums(int64_t number, const uint8_t* codes, float* vector) const {
  const ScalarType type = format_.type;
  const int32_t dim = format_.dim;
  const int64_t centroid = std::clamp<int64_t>(number, 0, format_.num_centroids - 1);
  ConvertElements(type, static_cast<const char*>(format_.centroids) + centroid * RowBytes(type, dim), ScalarType::kF32,
                  vector, static_cast<size_t>(dim));
  switch (format_.nbits) {
    case 1:
      AddWeights<8>(codes, packed_bytes(), weights_.data(), vector);
      break;
    case 2:
      AddWeights<4>(codes, packed_bytes(), weights_.data(), vector);
      break;
    case 4:
      AddWeights<2>(codes, packed_bytes(), weights_.data(), vector);
      break;
    default:
      AddWeights<1>(codes, packed_bytes(), weights_.data(), vector);
  }
  if (type == ScalarType::kF32) return;
  uint16_t rounded[kMaxDim];
  ConvertElements(ScalarType::kF32, vector, type, rounded, static_cast<size_t>(dim));
  ConvertElements(type, rounded, ScalarType::kF32, vector, static_cast<size_t>(dim));
}

void ResidualDecoder::Decode(int64_t number, const uint8_t* codes, float* vector) const {
  DecodeSums(number, codes, vector);
  if (!format_.normalize) return;
  const float factor = 1.0f / std::max(NormOf(vector, format_.dim), kMinResidualNorm);
  for (int32_t column = 0; column < format_.dim; ++column) vector[column] *= factor;
}

void ResidualDecoder::DecodeRow(const void* row, float* vector) const {
  const auto* const codes = static_cast<const uint8_t*>(row);
  Decode(NumberAt(codes + packed_bytes()), codes, vector);
}

void ResidualDecoder::DecodeRow(const void* row, double* vector) const {
  const auto* const codes = static_cast<const uint8_t*>(row);
  std::vector<float> sums(static_cast<size_t>(format_.dim));
  DecodeSums(NumberAt(codes + packed_bytes()), codes, sums.data());
  double squares = 0;
  for (const float value : sums) squares += static_cast<double>(value) * value;
  const double norm = std::max<double>(std::sqrt(squares), kMinResidualNorm);
  for (size_t column = 0; column < sums.size(); ++column) vector[column] = sums[column] / norm;
}

}  // namespace maxsim
