// The keys of the section `nats`. Internal to server/config.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/config/config.h"
#include "server/config/keys.h"

namespace maxsim::config {

void AddNatsKeys(std::vector<Key>& keys);

// Returns INVALID_ARGUMENT, naming the keys, for what no single one can check.
absl::Status ValidateNats(const Config& config);

}  // namespace maxsim::config
