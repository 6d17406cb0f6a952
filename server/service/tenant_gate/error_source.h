// Says whether the errors that a tenant gate passes on come from a server or a router.
#pragma once

#include <cstdint>

namespace maxsim::service {

// Errors of a router name its groups of servers, and addresses of replicas. Tenants must not learn these.
enum class ErrorSource : uint8_t { kServer, kRouter };

}  // namespace maxsim::service
