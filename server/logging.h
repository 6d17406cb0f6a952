// Structured log lines (log_event.h), as text for people or as one JSON object per line. Plain spdlog::info() and its
// kin go the same way.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/log_event.h"
#include "spdlog/spdlog.h"

namespace maxsim::log {

inline bool DebugEnabled() { return spdlog::should_log(spdlog::level::debug); }

// Sends spdlog's default logger to stderr in `format` ("text" or "json") at `level` (spdlog's names), and gRPC's own
// messages with it: errors as warnings, the rest at debug; and protobuf's, of releases that let themselves be listened
// to (newer ones log through Abseil): fatal ones as critical, the rest at debug.
// Call once, before threads start.
void Initialize(const std::string& level, const std::string& format);

// `text` as a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

// Formatters, exposed for tests.
std::unique_ptr<spdlog::formatter> TextFormatter();
std::unique_ptr<spdlog::formatter> JsonFormatter();

}  // namespace maxsim::log
