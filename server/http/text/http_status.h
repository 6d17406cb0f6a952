// Maps errors to HTTP status codes.
#pragma once

#include "absl/status/status.h"

namespace maxsim::http {

// Returns the HTTP status of an error: 500 for DATA_LOSS and other errors that a client cannot fix, 499 for CANCELLED,
// as in nginx.
int ToHttpCode(absl::StatusCode code);

// Returns the HTTP status of a call that failed in the HTTP port itself. There, RESOURCE_EXHAUSTED means that memory
// ran out, which is the server's fault (503), and not that the client should wait for its turn in a queue (429).
inline int StatusOfFailureHere(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? 503 : ToHttpCode(status.code());
}

}  // namespace maxsim::http
