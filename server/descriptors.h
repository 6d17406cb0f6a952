// Computes how many file descriptors the process may have, and how many a configuration needs.
#pragma once

#include <cstdint>

#include "server/config/config.h"

namespace maxsim {

// Raises the process' soft limit to its hard one, which needs no privilege. Returns the limit in force.
uint64_t RaiseDescriptorLimit();

// How the descriptors are to be shared out.
struct DescriptorPlan {
  uint64_t needed = 0;      // by the configuration as it is
  int max_connections = 0;  // for gRPC: the configured number, or fewer if the limit requires it
};

// `num_open` descriptors are open already.
DescriptorPlan PlanDescriptors(const config::Config& config, uint64_t num_open, uint64_t limit);

// Returns how many of `wanted` connections the HTTP port may have, called once for those with a request and once for
// those without: at most an eighth of `limit`, which leaves room for gRPC and the collections, but at least 4.
int FitHttpConnections(int wanted, uint64_t limit);

}  // namespace maxsim
