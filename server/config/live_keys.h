// The keys of the section `live`. Internal to server/config.
#pragma once

#include <vector>

#include "server/config/keys.h"

namespace maxsim::config {

void AddLiveKeys(std::vector<Key>& keys);

}  // namespace maxsim::config
