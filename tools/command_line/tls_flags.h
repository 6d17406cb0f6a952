// Errors about the flags that set a client's TlsOptions.
#pragma once

#include "absl/status/status.h"

namespace maxsim::command_line {

// Renames the field at the beginning of an error: tls.ca_file, tls.cert_file and tls.key_file become the flags
// --tls-ca, --tls-cert and --tls-key. Returns any other status unchanged.
absl::Status NameTlsFlag(const absl::Status& status);

}  // namespace maxsim::command_line
