// Residual codes, the compression of ColBERTv2 (Santhanam et al., 2022) that indexes of PLAID hold. A token is the
// number of a centroid and a bucket for each column:
//
//   v[c] = centroids[number][c] + bucket_weights[bucket c]          d = v / max(|v|, 1e-12)
//
// Centroids, bucket weights and each v[c] are rounded to one type, as colbert-ai and fast-plaid do with F16 when they
// decompress on a GPU. |v| is the norm of the rounded v.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/limits.h"
#include "kernels/scalar_type.h"

namespace maxsim {

// Upper bounds on the columns of a vector and on the centroids of a codebook. The kernels add all products of a row in
// one chain. With wider rows, the sum's error would exceed what kernels/maxsim.h allows.
inline constexpr int32_t kMaxResidualDim = 1024;
inline constexpr int64_t kMaxCentroids = int64_t{1} << 24;

// Bound on the magnitude of centroids and bucket weights, so that no sum of two overflows F16.
inline constexpr float kMaxResidualValue = 30000.0f;

// The smallest norm that a vector is divided by.
inline constexpr float kMinResidualNorm = 1e-12f;

// The codebook that rows of residual codes are decoded with. Does not own its memory.
struct ResidualCodebook {
  int64_t num_centroids = 0;              // 1 .. kMaxCentroids; 0: there is no codebook
  const uint16_t* centroids = nullptr;    // F16 [num_centroids, dim] row-major, within +-kMaxResidualValue
  const float* bucket_weights = nullptr;  // [2^bits], within +-kMaxResidualValue

  friend bool operator==(const ResidualCodebook&, const ResidualCodebook&) = default;
};

// Returns whether vectors of `dim` columns can be stored as a type of residual codes: the codes fill whole bytes, and
// `dim` is at most kMaxResidualDim.
constexpr bool TakesResidualDim(ScalarType type, int64_t dim) {
  return dim <= kMaxResidualDim && dim * ResidualBits(type) % 8 == 0;
}

// Returns the number of the centroid in a document row (RowBytes describes the row).
inline uint32_t ResidualCentroid(ScalarType type, int64_t dim, const void* row) {
  uint32_t number;
  std::memcpy(&number, static_cast<const char*>(row) + dim * ResidualBits(type) / 8, sizeof(number));
  return number;
}

// Searches `num_rows` document rows. Returns the index of the first row whose centroid number is `num_centroids` or
// more, or nullopt if there is none. Thread-safe.
std::optional<int64_t> FindUnusableRow(ScalarType type, int64_t dim, const void* rows, int64_t num_rows,
                                       int64_t num_centroids);

// Decodes codes in host memory. Immutable, so that any thread may use it.
class ResidualDecoder {
 public:
  // Says how codes are stored, and what they mean.
  struct Format {
    ScalarType type = ScalarType::kF16;  // of centroids, and what weights and sums are rounded to: F32, F16 or BF16
    int nbits = 0;                       // of a bucket: 1, 2, 4 or 8
    // False: the first column has the highest bits of a byte, and the bits of a bucket are in reverse order, as ColBERT
    // writes them. True: the first column has the lowest bits, and a bucket's lowest bit is lowest.
    bool low_bits_first = false;
    bool normalize = true;
    int32_t dim = 0;                        // at most kMaxDim; dim * nbits is a multiple of 8
    int64_t num_centroids = 0;              // at least 1
    const void* centroids = nullptr;        // [num_centroids, dim] in `type`; borrowed
    const float* bucket_weights = nullptr;  // [2^nbits]; only the constructor reads it
  };

  explicit ResidualDecoder(const Format& format);
  // Decodes rows of documents.
  ResidualDecoder(ScalarType type, int32_t dim, const ResidualCodebook& codebook);

  // Decodes a token from its centroid's number and the codes of its columns, [dim * nbits / 8]. Writes its vector,
  // [dim]. If `number` is out of range, uses the first or the last centroid.
  void Decode(int64_t number, const uint8_t* codes, float* vector) const;

  // Decodes a document row (RowBytes) and writes its vector, [dim].
  void DecodeRow(const void* row, float* vector) const;
  // Decodes in FP64. Only the sums v[c] are rounded, to Format::type.
  void DecodeRow(const void* row, double* vector) const;

 private:
  // Writes v, before it is normalised.
  void DecodeSums(int64_t number, const uint8_t* codes, float* vector) const;
  int64_t packed_bytes() const { return int64_t{format_.dim} * format_.nbits / 8; }

  const Format format_;
  // [256, 8 / nbits]: the weights of the columns that share a byte, for each value of the byte, in the format's type
  std::vector<float> weights_;
};

}  // namespace maxsim
