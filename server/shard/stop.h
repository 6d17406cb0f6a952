// How long reads and other long work are asked to give up.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "absl/status/status.h"

namespace maxsim::shard {

// Bytes that are read or hashed between two looks at the flag: well under a second from most disks.
inline constexpr size_t kStopBlockBytes = size_t{64} << 20;

// `stop` may be null: never.
inline bool Stopped(const std::atomic<bool>* stop) { return stop != nullptr && stop->load(std::memory_order_relaxed); }

// Returns OK while a piece of work that takes long is to go on, else why it has to end.
using StopCheck = std::function<absl::Status()>;

inline absl::Status StoppedError() { return absl::UnavailableError("stopped, because the server shuts down"); }

}  // namespace maxsim::shard
