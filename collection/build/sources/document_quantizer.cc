#include "collection/build/sources/document_quantizer.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

#include "kernels/quantize.h"

namespace maxsim::collection {

void DocumentQuantizer::Quantize(absl::Span<const int32_t> lengths, absl::Span<float> rows, int8_t* elements,
                                 absl::Span<float> scales, absl::Span<QuantizationLoss> losses) const {
  std::vector<size_t> begins;  // of each document, in elements
  begins.reserve(lengths.size());
  size_t begin = 0;
  for (const int32_t length : lengths) {
    begins.push_back(begin);
    begin += static_cast<size_t>(length) * static_cast<size_t>(dim_);
  }
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t idx = next.fetch_add(1); idx < lengths.size(); idx = next.fetch_add(1)) {
      const size_t count = static_cast<size_t>(lengths[idx]) * static_cast<size_t>(dim_);
      scales[idx] = QuantizeDocument(rotation_seed_, dim_, rows.subspan(begins[idx], count), elements + begins[idx]);
      losses[idx] = LossOf(elements + begins[idx], rows.data() + begins[idx], lengths[idx], dim_);
    }
  };
  std::vector<std::thread> threads;
  const size_t useful = std::min(static_cast<size_t>(std::max(num_threads_, 1)), lengths.size());
  for (size_t idx = 1; idx < useful; ++idx) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // if no more threads can be started, the existing ones do the work
    }
  }
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace maxsim::collection
