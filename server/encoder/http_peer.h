// Makes what connections to an encoder have alike out of its options. Internal to server/encoder.
#pragma once

#include "absl/status/statusor.h"
#include "server/encoder/http_connection.h"
#include "server/encoder/http_options.h"

namespace maxsim::encoder {

// Reads the files that the options name. INVALID_ARGUMENT, NOT_FOUND or PERMISSION_DENIED naming the key.
absl::StatusOr<HttpPeer> MakePeer(const HttpEncoderOptions& options);

}  // namespace maxsim::encoder
