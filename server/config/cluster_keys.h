// The keys of the section `cluster`. Internal to server/config.
#pragma once

#include <vector>

#include "server/config/keys.h"

namespace maxsim::config {

void AddClusterKeys(std::vector<Key>& keys);

}  // namespace maxsim::config
