// Says whether the errors that reach a tenant gate come from a server of collections or from a router.
#pragma once

#include <cstdint>

namespace maxsim::service {

// A router's errors name groups of servers and addresses of replicas, which tenants must not learn.
enum class ErrorSource : uint8_t { kServer, kRouter };

}  // namespace maxsim::service
