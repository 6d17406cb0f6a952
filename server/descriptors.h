// Says how many file descriptors the process may have, and how many a configuration needs.
#pragma once

#include <cstdint>

#include "server/config/config.h"

namespace maxsim {

// Raises the process' soft limit to its hard one, which needs no privilege. Returns the limit in force.
uint64_t RaiseDescriptorLimit();

// How the descriptors are to be shared out.
struct DescriptorPlan {
  uint64_t needed = 0;      // by the configuration as it is
  int max_connections = 0;  // of gRPC: the configured number, or what fits below the limit
};

// `num_open` descriptors are open already.
DescriptorPlan PlanDescriptors(const config::Config& config, uint64_t num_open, uint64_t limit);

// Returns how many of `wanted` connections of the HTTP port fit below `limit`, for those with a request and for those
// without one: an eighth of it at most, so that gRPC's and the collections' descriptors are left, and 4 in any case.
int FitHttpConnections(int wanted, uint64_t limit);

}  // namespace maxsim
