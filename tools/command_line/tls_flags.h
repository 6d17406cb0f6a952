// Errors about the flags that set a client's TlsOptions.
#pragma once

#include "absl/status/status.h"

namespace maxsim::command_line {

// Replaces the option's name at the beginning of an error of MakeCredentials, or of its caller, by the flag that people
// gave: --tls-ca, --tls-cert or --tls-key. Returns any other status as it is.
absl::Status NameTlsFlag(const absl::Status& status);

}  // namespace maxsim::command_line
