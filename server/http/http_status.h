// Gives the HTTP code of an error.
#pragma once

#include "absl/status/status.h"

namespace maxsim::http {

// Storage damage (DATA_LOSS) and what else a client cannot mend is 500; CANCELLED is 499, as nginx has it.
int ToHttpCode(absl::StatusCode code);

}  // namespace maxsim::http
