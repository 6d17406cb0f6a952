#include "base/guard.h"

namespace maxsim {
namespace {

// Made before main: the first call that needs it may come when memory has run out, in a destructor.
const absl::Status* const no_memory =
    new absl::Status(absl::StatusCode::kResourceExhausted, "no memory for the request");

}  // namespace

absl::Status NoMemory() { return *no_memory; }

}  // namespace maxsim
