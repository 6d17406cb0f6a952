// The keys of the section `tracing`. Internal to server/config.
#pragma once

#include <vector>

#include "server/config/keys.h"

namespace maxsim::config {

void AddTracingKeys(std::vector<Key>& keys);

}  // namespace maxsim::config
