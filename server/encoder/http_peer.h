// Makes the shared settings of an encoder's connections from its options. Internal to server/encoder.
#pragma once

#include "absl/status/statusor.h"
#include "server/encoder/http_connection.h"
#include "server/encoder/http_options.h"

namespace maxsim::encoder {

// Reads the files that the options name. Returns INVALID_ARGUMENT, NOT_FOUND or PERMISSION_DENIED with the key.
absl::StatusOr<HttpPeer> MakePeer(const HttpEncoderOptions& options);

}  // namespace maxsim::encoder
