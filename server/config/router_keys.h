// The keys of a router: the groups of its cluster, and how patient it is with them.
#pragma once

#include <vector>

#include "server/config/keys.h"

namespace maxsim::config {

void AddRouterKeys(std::vector<Key>& keys);

}  // namespace maxsim::config
