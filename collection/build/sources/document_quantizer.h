// Rotates documents' vectors and quantises them to i8, several documents at a time.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "collection/quantization_loss.h"

namespace maxsim::collection {

// `num_threads` is at least 1 and includes the caller's thread. If the system cannot start that many, fewer run, with
// the same result.
class DocumentQuantizer {
 public:
  DocumentQuantizer(int32_t dim, uint64_t rotation_seed, int num_threads)
      : dim_(dim), rotation_seed_(rotation_seed), num_threads_(num_threads) {}

  int num_threads() const { return num_threads_; }

  // Quantises one document per entry of `lengths` (its tokens). `rows` [sum of lengths, dim] has their vectors one
  // after another, and is overwritten with the rotated vectors. Fills `elements` [sum of lengths, dim], and `scales`
  // and `losses` [lengths.size()]. Values must be finite and within kMaxAbsValue.
  void Quantize(absl::Span<const int32_t> lengths, absl::Span<float> rows, int8_t* elements, absl::Span<float> scales,
                absl::Span<QuantizationLoss> losses) const;

 private:
  const int32_t dim_;
  const uint64_t rotation_seed_;
  const int num_threads_;
};

}  // namespace maxsim::collection
