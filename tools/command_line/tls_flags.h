// The flags of a command line that are a client's TlsOptions.
#pragma once

#include "absl/status/status.h"

namespace maxsim::command_line {

// Returns an error of MakeCredentials, or of what calls it, for people who gave flags: --tls-ca, --tls-cert or
// --tls-key in place of the option's name at its beginning. Any other status as it is.
absl::Status NameTlsFlag(const absl::Status& status);

}  // namespace maxsim::command_line
