// The keys of the section `encoder`. Internal to server/config.
#pragma once

#include <vector>

#include "server/config/keys.h"

namespace maxsim::config {

void AddEncoderKeys(std::vector<Key>& keys);

}  // namespace maxsim::config
