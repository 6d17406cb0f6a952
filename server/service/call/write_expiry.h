// The metadata with which a router says when a write expires: a server must not begin it after that (ServerClock in
// rerank.proto). A call may be under way for any time, for example if its connection stands still and then goes on. Its
// gRPC deadline does not help, because gRPC counts it from the call's arrival. The expiry is a time on the clock of the
// server that carries out the write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace maxsim::service {

inline constexpr char kWriteExpiryKey[] = "maxsim-write-expires";

// Returns the random id, never 0, of this process' clock (MonotonicNow()).
uint64_t ClockId();

// Returns the metadata's value. `clock_id` is the id of the server's clock, and `expires` the time on that clock.
std::string FormatWriteExpiry(uint64_t clock_id, absl::Time expires);

// Returns the time of MonotonicNow() at which the write expires. Returns InfinitePast (the write must not begin) if the
// value is malformed or is for the clock of another process, such as one that listened at this address before.
absl::Time ParseWriteExpiry(std::string_view value);

}  // namespace maxsim::service
