#include "server/rpc/guard.h"

namespace maxsim::rpc {

absl::Status NoMemory() {
  static const auto* const status = new absl::Status(absl::StatusCode::kResourceExhausted, "no memory for the request");
  return *status;
}

}  // namespace maxsim::rpc
