// Whether errors that reach a tenant gate come from a server or a router.
#pragma once

#include <cstdint>

namespace maxsim::service {

// A router's errors name groups and replicas, which tenants must not learn.
enum class ErrorSource : uint8_t { kServer, kRouter };

}  // namespace maxsim::service
