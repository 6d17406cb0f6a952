// Wraps the C functions of the library.
#pragma once

#include "absl/functional/function_ref.h"
#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/library/problem/status.h"

namespace maxsim::library {

// Runs the body of a C function and returns the code of its status. Turns exceptions into error codes, and keeps the
// text of an error for maxsim_last_error. Thread-safe.
maxsim_status Finish(absl::FunctionRef<Status()> body);

}  // namespace maxsim::library
