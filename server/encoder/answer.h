// Reads what an encoder answers. Pure: the bytes come from outside and are trusted in nothing.
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
  // Who the encoder is, where an answer of the dialect `maxsim` says so; else "".
  std::string model;
  std::string fingerprint;
};

// Reads the answer to a call of `num_texts` texts. `dim` is what every vector must have; 0: whatever all have alike,
// within kMinDim and kMaxDim. Returns one matrix a text in the order of the call, each of at least one token and of
// values that can be scored. UNAVAILABLE where the body is not in the dialect, INTERNAL where it is and cannot be
// scored: another dimension, NaN, no token, another number of texts. Takes time and memory in proportion to the body.
absl::StatusOr<Answer> ParseAnswer(Dialect dialect, std::string_view body, size_t num_texts, int32_t dim);

// ParseAnswer's part for the dialect `maxsim`, before the checks that all dialects share.
absl::StatusOr<Answer> ParseTensors(std::string_view body, size_t num_texts);

}  // namespace maxsim::encoder
