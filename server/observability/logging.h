// Formats structured log lines (log_event.h) as text for people or as one JSON object per line. Plain spdlog::info()
// and the like take the same way.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/observability/log_event.h"
#include "spdlog/spdlog.h"

namespace maxsim::log {

inline bool DebugEnabled() { return spdlog::should_log(spdlog::level::debug); }

// Sends spdlog's default logger to stderr in `format` ("text" or "json") at `level` (spdlog's names), and gRPC's own
// messages with it: errors as warnings, the rest at debug; and protobuf's, of releases that let themselves be listened
// to (newer ones log through Abseil): fatal ones as critical, the rest at debug.
// Call once, after signals are blocked and before other threads start. Lines are queued and written by a thread of its
// own (log_sink.h), so that logging never waits for the reader of stderr: a full queue loses its oldest lines. gRPC's
// errors are cut and at most ten a second, with the count of those left out: any client can cause them.
void Initialize(const std::string& level, const std::string& format);

// Waits until what was logged is written, for a second at most. A process that ends by exit() or by returning from
// main() does so by itself, one that ends by _exit() must call it.
void Flush();

// Returns `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

// Return the formatters, for tests.
std::unique_ptr<spdlog::formatter> TextFormatter();
std::unique_ptr<spdlog::formatter> JsonFormatter();

}  // namespace maxsim::log
