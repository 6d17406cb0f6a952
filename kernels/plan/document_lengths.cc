#include "kernels/plan/document_lengths.h"

#include <algorithm>
#include <bit>

#include "kernels/plan/shares.h"

namespace maxsim {

void DocumentLengths::Add(const int64_t* offsets, int64_t num_documents) {
  for (int64_t n = 0; n < num_documents; ++n) {
    const int64_t tokens = offsets[n + 1] - offsets[n];
    shortest_ = num_documents_ + n == 0 ? tokens : std::min(shortest_, tokens);
    longest_ = std::max(longest_, tokens);
    num_tokens_ += tokens;
    Octave& octave = octaves_[static_cast<size_t>(std::bit_width(static_cast<uint64_t>(tokens)) - 1)];
    const auto length = static_cast<double>(tokens);
    octave.documents += 1;
    octave.tokens += length;
    octave.squares += length * length;
  }
  num_documents_ += num_documents;
}

int64_t DocumentLengths::spread_tokens() const {
  if (num_documents_ == 0 || shortest_ == longest_) return 0;
  const auto num_tokens = static_cast<double>(num_tokens_);
  const double mean = num_tokens / static_cast<double>(num_documents_);
  const double bound = kMaxSpreadMeans * mean;
  double squares = 0;
  for (int n = 0; n < kOctaves; ++n) {
    const Octave& octave = octaves_[static_cast<size_t>(n)];
    if (octave.documents == 0) continue;
    const auto longest = static_cast<double>(std::min((int64_t{2} << n) - 1, longest_));
    if (longest <= bound) {
      squares += octave.squares;
    } else {
      const double bounded = std::min(octave.tokens / octave.documents, bound);
      squares += octave.documents * bounded * bounded;
    }
  }
  return static_cast<int64_t>(std::max(squares / num_tokens - mean, 0.0));
}

}  // namespace maxsim
