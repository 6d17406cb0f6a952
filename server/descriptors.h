// The number of file descriptors: the process' limit, and how many are needed.
#pragma once

#include <cstdint>

#include "server/config/config.h"

namespace maxsim {

// Raises the process' soft limit on open files to its hard limit, for which it needs no privilege. Returns the limit
// that applies now.
uint64_t RaiseDescriptorLimit();

// How the descriptors are divided.
struct DescriptorPlan {
  uint64_t needed = 0;      // descriptors that the configuration needs as it is
  int max_connections = 0;  // for gRPC: the configured number, or fewer if the limit requires it
};

// `num_open` descriptors are open already.
DescriptorPlan PlanDescriptors(const config::Config& config, uint64_t num_open, uint64_t limit);

// Returns the number of connections that the HTTP port may have: `wanted`, but at most an eighth of `limit` or 4,
// whichever is larger. Called twice: for connections with a request, and for those without.
int FitHttpConnections(int wanted, uint64_t limit);

}  // namespace maxsim
