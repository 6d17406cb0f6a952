// Where a collection's token embeddings live while it is served.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace maxsim::store {

// As it is asked for, for a collection; and, but kAuto, as it is, for a shard (its tier).
enum class Residency : uint8_t {
  kAuto,  // shard by shard the first of gpu, host and disk that holds it (CPU backend: of host and disk)
  kGpu,   // device memory
  kHost,  // host memory; on GPUs pinned, and copied to the device by each call
  kDisk,  // mapped files, read through the page cache
};

std::string_view Name(Residency residency);  // "auto", "gpu", "host", "disk"
std::optional<Residency> ResidencyFromName(std::string_view name);

// Whether every device gets a copy of every shard.
enum class Replication : uint8_t {
  kAuto,  // where the collection is smaller than StoreOptions::replicate_below_bytes
  kOn,
  kOff,  // each shard lies on one device
};

std::string_view Name(Replication replication);  // "auto", "true", "false", as the configuration has it
std::optional<Replication> ReplicationFromName(std::string_view name);

}  // namespace maxsim::store
