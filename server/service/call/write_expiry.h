// The metadata that says until when a write may begin (ServerClock in rerank.proto). A call may be under way for any
// time, for example if its connection stands still and then goes on. Its gRPC deadline does not help then, because it
// counts from the call's arrival. The expiry is a time on the clock of the server that carries out the write.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace maxsim::service {

inline constexpr char kWriteExpiryKey[] = "maxsim-write-expires";

// Returns the id of this process's clock, which is MonotonicNow(). It is random, and never 0.
uint64_t ClockId();

// Returns the metadata's value for a server whose clock has this id and shows `expires` when the write expires.
std::string FormatWriteExpiry(uint64_t clock_id, absl::Time expires);

// Returns the time of MonotonicNow() at which the write expires. Returns InfinitePast if the value is for the clock of
// another process, such as one that listened at this address before, or if it is malformed.
absl::Time ParseWriteExpiry(std::string_view value);

}  // namespace maxsim::service
