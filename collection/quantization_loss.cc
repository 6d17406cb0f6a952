#include "collection/quantization_loss.h"

#include <algorithm>
#include <cstddef>

#include "base/text.h"
#include "base/units.h"

namespace maxsim::collection {
namespace {

std::string Count(int64_t count, const char* noun) { return Cat(FormatCount(count), " ", noun, count == 1 ? "" : "s"); }

}  // namespace

void QuantizationLoss::Add(const QuantizationLoss& other) {
  num_documents += other.num_documents;
  num_zeroed += other.num_zeroed;
  num_coarse += other.num_coarse;
}

QuantizationLoss LossOf(const int8_t* elements, const float* rotated, int64_t num_tokens, int64_t dim) {
  // Rounding moves each value by 12^-1/2 of a step (root mean square), and so moves a row by (dim / 12)^1/2 steps. This
  // exceeds kMaxRoundingShare of the row's length if the sum of its squared elements is at most `least`.
  const auto least = static_cast<int64_t>(static_cast<double>(dim) / (12 * kMaxRoundingShare * kMaxRoundingShare));
  QuantizationLoss loss;
  for (int64_t token = 0; token < num_tokens; ++token) {
    const int8_t* const row = elements + token * dim;
    int32_t sum = 0;
    for (int64_t column = 0; column < dim; ++column) sum += row[column] * row[column];
    if (sum > least) continue;
    if (sum > 0) {
      ++loss.num_coarse;
      continue;
    }
    const float* const values = rotated == nullptr ? nullptr : rotated + token * dim;
    if (values == nullptr || std::any_of(values, values + dim, [](float value) { return value != 0; })) {
      ++loss.num_zeroed;
    }
  }
  loss.num_documents = loss.num_tokens() > 0 ? 1 : 0;
  return loss;
}

std::string Describe(const QuantizationLoss& loss) {
  constexpr int kPercent = 100;
  std::string kinds;
  if (loss.num_zeroed > 0) kinds = Cat(FormatCount(loss.num_zeroed), " became zeros");
  if (loss.num_coarse > 0) {
    kinds = Cat(kinds, kinds.empty() ? "" : ", ", "of ", FormatCount(loss.num_coarse), " rounding took more than ",
                static_cast<int>(kPercent * kMaxRoundingShare), " % of the length");
  }
  return Cat(Count(loss.num_tokens(), "token"), " of ", Count(loss.num_documents, "document"), " (", kinds, ")");
}

}  // namespace maxsim::collection
