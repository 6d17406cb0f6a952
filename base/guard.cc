#include "base/guard.h"

namespace maxsim {

absl::Status NoMemory() {
  static const auto* const status = new absl::Status(absl::StatusCode::kResourceExhausted, "no memory for the request");
  return *status;
}

}  // namespace maxsim
