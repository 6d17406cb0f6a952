// How another thread asks a long read to give up.
#pragma once

#include <atomic>
#include <cstddef>

#include "absl/status/status.h"

namespace maxsim::shard {

// Bytes that are read or hashed between two looks at the flag: well under a second from most disks.
inline constexpr size_t kStopBlockBytes = size_t{64} << 20;

// `stop` may be null: never.
inline bool Stopped(const std::atomic<bool>* stop) { return stop != nullptr && stop->load(std::memory_order_relaxed); }

inline absl::Status StoppedError() { return absl::UnavailableError("stopped, because the server shuts down"); }

}  // namespace maxsim::shard
