#include "base/guard.h"

namespace maxsim {
namespace {

// Made before main, because the first call of NoMemory may come after memory has run out.
const absl::Status* const no_memory =
    new absl::Status(absl::StatusCode::kResourceExhausted, "no memory for the request");

}  // namespace

absl::Status NoMemory() { return *no_memory; }

}  // namespace maxsim
