// Wraps the body of every C function of the library.
#pragma once

#include "absl/functional/function_ref.h"
#include "kernels/library/include/maxsim/maxsim.h"
#include "kernels/library/problem/status.h"

namespace maxsim::library {

// Runs the body of a C function: no exception leaves it, and the text of its error is kept for maxsim_last_error.
// Returns the code of the body's status. Thread-safe.
maxsim_status Finish(absl::FunctionRef<Status()> body);

}  // namespace maxsim::library
