// Rotates and quantises documents on their way into i8 storage, several at a time.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "collection/quantization_loss.h"

namespace maxsim::collection {

// `num_threads` is at least 1 and includes the caller's thread; fewer run if the system gives no more. The result does
// not depend on their number.
class DocumentQuantizer {
 public:
  DocumentQuantizer(int32_t dim, uint64_t rotation_seed, int num_threads)
      : dim_(dim), rotation_seed_(rotation_seed), num_threads_(num_threads) {}

  int num_threads() const { return num_threads_; }

  // Quantises documents of `lengths` tokens, whose rows follow each other in `rows` [sum of lengths, dim]. Rotates
  // `rows` in place, and fills `elements` [sum of lengths, dim] and `scales` and `losses` [lengths.size()]. Values must
  // be finite and within kMaxAbsValue.
  void Quantize(absl::Span<const int32_t> lengths, absl::Span<float> rows, int8_t* elements, absl::Span<float> scales,
                absl::Span<QuantizationLoss> losses) const;

 private:
  const int32_t dim_;
  const uint64_t rotation_seed_;
  const int num_threads_;
};

}  // namespace maxsim::collection
