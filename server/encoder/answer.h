// Parses the answers of an encoder. Pure. The bytes come from outside, so nothing about them is trusted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/encoder/dialect.h"
#include "server/encoder/encoder.h"

namespace maxsim::encoder {

struct Answer {
  std::vector<EncodedText> texts;
  // The encoder's identity, if an answer in the dialect `maxsim` contains it; else "".
  std::string model;
  std::string fingerprint;
};

// Reads the answer to a call with `num_texts` texts. Every vector must have `dim` values; if `dim` is 0, all must have
// the same number, within kMinDim and kMaxDim. Returns one matrix per text, in the order of the call, with at least one
// token and only values that can be scored. UNAVAILABLE if the body is not in the dialect, INTERNAL if it is but cannot
// be scored: wrong dimension, NaN, no token, wrong number of texts. Time and memory are linear in the body's size.
absl::StatusOr<Answer> ParseAnswer(Dialect dialect, std::string_view body, size_t num_texts, int32_t dim);

// Parses an answer in the dialect `maxsim`. ParseAnswer calls it, and then makes the checks that all dialects share.
absl::StatusOr<Answer> ParseTensors(std::string_view body, size_t num_texts);

}  // namespace maxsim::encoder
