// Formats structured log lines (log_event.h) as text for people or as one JSON object per line. Lines of plain
// spdlog::info() and the like are formatted in the same way.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/observability/log_event.h"
#include "spdlog/spdlog.h"

namespace maxsim::log {

inline bool DebugEnabled() { return spdlog::should_log(spdlog::level::debug); }

// Makes spdlog's default logger write to stderr in `format` ("text" or "json") at `level` (spdlog's names). gRPC's own
// messages go there too: its errors as warnings, its other messages at debug. So do protobuf's messages, if its release
// has a log handler (newer ones log through Abseil): fatal ones as critical, the others at debug. Call once, after
// signals are blocked and before other threads start. A separate thread writes the lines (log_sink.h), so that logging
// never waits for the reader of stderr; if the queue is full, its oldest lines are dropped. Since any client can cause
// gRPC's errors, these lines are shortened and limited to ten per second, with a count of the lines left out.
void Initialize(const std::string& level, const std::string& format);

// Waits, for at most a second, until all logged lines are written. A process that ends by exit() or by returning from
// main() does this by itself; one that ends by _exit() must call it.
void Flush();

// Returns `text` as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

// Return the formatters, for tests.
std::unique_ptr<spdlog::formatter> TextFormatter();
std::unique_ptr<spdlog::formatter> JsonFormatter();

}  // namespace maxsim::log
