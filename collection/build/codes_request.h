// Describes the codes (short approximations of token vectors; kernels/codes/codes.h) that a build should make.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "base/text.h"
#include "collection/manifest.h"
#include "kernels/codes/code_layout.h"

namespace maxsim::collection {

struct CodesRequest {
  int planes = 0;              // 1, 2 or 4; 0: no codes
  uint64_t rotation_seed = 0;  // up to kMaxRotationSeed; ignored for i8 vectors, which are rotated already
  // Whether to store a factor per token: its norm relative to the longest token of its document. With nullopt, stores
  // factors only if the tokens' norms differ (NeedFactors).
  std::optional<bool> factors = {};

  // Returns a request for the codes that a collection has.
  static CodesRequest Of(const Manifest& manifest) {
    if (!manifest.codes.has_value()) return {};
    return {manifest.codes->planes, manifest.codes->rotation_seed, manifest.codes->factors};
  }
};

inline absl::Status CheckCodesRequest(const CodesRequest& request) {
  if (request.planes != 0 && !IsPlaneCount(request.planes)) {
    return Invalid("codes: ", request.planes, " planes, expected 0 (none), 1, 2 or 4");
  }
  if (request.rotation_seed > static_cast<uint64_t>(kMaxRotationSeed)) {
    return Invalid("seed: ", request.rotation_seed, "; must be 0 to ", kMaxRotationSeed);
  }
  return absl::OkStatus();
}

}  // namespace maxsim::collection
