// Names the codes (kernels/codes/codes.h) that a build or an encoding is to make.
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
  uint64_t rotation_seed = 0;  // up to kMaxRotationSeed. Codes of i8 vectors have the rotation of these instead
  // Whether tokens have factors. With nullopt they have them if the norms of tokens differ (NeedFactors).
  std::optional<bool> factors = {};

  // Returns the request for what a collection has.
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
    return Invalid("seed: ", request.rotation_seed, ", the limits are 0 .. ", kMaxRotationSeed);
  }
  return absl::OkStatus();
}

}  // namespace maxsim::collection
