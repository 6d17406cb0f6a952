// The tiers that hold a collection's token embeddings.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace maxsim::store {

// The memory that holds token embeddings while they are scored. A collection is configured with a residency, which may
// be kAuto. Each of its shards gets one of the other three values, called the shard's tier.
enum class Residency : uint8_t {
  kAuto,  // Each shard goes to the first of gpu, host and disk that has space (on the CPU backend, of host and disk).
  kGpu,   // Device memory.
  kHost,  // Host memory. With GPUs it is pinned, and each call copies what it scores to the device.
  kDisk,  // Mapped files, which are read through the page cache.
};

// Returns the residency's name in the configuration: "auto", "gpu", "host" or "disk".
std::string_view Name(Residency residency);
std::optional<Residency> ResidencyFromName(std::string_view name);

// Whether every device gets a replica of every shard.
enum class Replication : uint8_t {
  kAuto,  // Collections smaller than StoreOptions::replicate_below_bytes are replicated.
  kOn,
  kOff,  // Each shard lies on one device.
};

// Returns the name in the configuration: "auto", "true" or "false".
std::string_view Name(Replication replication);
std::optional<Replication> ReplicationFromName(std::string_view name);

}  // namespace maxsim::store
