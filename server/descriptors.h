// Computes how many file descriptors the process may have, and how many a configuration needs.
#pragma once

#include <cstdint>

#include "server/config/config.h"

namespace maxsim {

// Raises the process' soft limit to its hard limit, for which it needs no privilege. Returns the limit that now
// applies.
uint64_t RaiseDescriptorLimit();

// How the descriptors are divided.
struct DescriptorPlan {
  uint64_t needed = 0;      // descriptors that the configuration needs as it is
  int max_connections = 0;  // for gRPC: the configured number, or fewer if the limit requires it
};

// `num_open` descriptors are open already.
DescriptorPlan PlanDescriptors(const config::Config& config, uint64_t num_open, uint64_t limit);

// Returns how many of `wanted` connections the HTTP port may have: at most an eighth of `limit`, so that gRPC and the
// collections have room, but at least 4. Called twice: for connections with a request, and for those without.
int FitHttpConnections(int wanted, uint64_t limit);

}  // namespace maxsim
