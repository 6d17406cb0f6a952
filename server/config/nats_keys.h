// The keys of the section `nats`. Internal to server/config.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/config/config.h"
#include "server/config/keys.h"

namespace maxsim::config {

void AddNatsKeys(std::vector<Key>& keys);

// Checks what no single key can check. Returns INVALID_ARGUMENT naming the keys.
absl::Status ValidateNats(const Config& config);

}  // namespace maxsim::config
