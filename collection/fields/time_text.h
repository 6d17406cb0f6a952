// Reads and writes the times of fields: RFC 3339, such as "2026-01-02T03:04:05.678Z".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace maxsim::collection {

// Years 0000 to 9999 of UTC, in microseconds since 1970.
inline constexpr int64_t kMinTimeMicros = -62'167'219'200'000'000;
inline constexpr int64_t kMaxTimeMicros = 253'402'300'799'999'999;

// Returns the microseconds since 1970-01-01T00:00:00Z of a date and time with an offset ("Z", "+hh:mm" or "-hh:mm").
// Ignores digits after the microseconds. Second 60 counts as second 0 of the next minute. Returns nullopt for other
// text, for days that do not exist, and for times outside of kMinTimeMicros .. kMaxTimeMicros.
std::optional<int64_t> ParseTime(std::string_view text);

// Formats a time in UTC, with a fraction of 6 digits unless that is 0.
std::string FormatTime(int64_t micros);

}  // namespace maxsim::collection
