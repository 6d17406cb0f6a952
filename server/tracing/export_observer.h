// Through this interface an exporter reports to the metrics and the log.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace maxsim::tracing {

// Why a span was dropped.
enum class DropReason {
  kQueueFull,    // tracing.max_queued_spans waited
  kUnavailable,  // the collector could not be reached in several attempts
  kTimeout,      // the collector did not answer in time
  kRefused,      // the collector answered with an error
  kShutdown,     // the server ended first
  kMemory,       // there was no memory to send it
};

inline constexpr std::array kDropReasons = {DropReason::kQueueFull, DropReason::kUnavailable, DropReason::kTimeout,
                                            DropReason::kRefused,   DropReason::kShutdown,    DropReason::kMemory};

// Returns the value of the metrics' label: "queue_full" and so on.
constexpr std::string_view Name(DropReason reason) {
  switch (reason) {
    case DropReason::kQueueFull:
      return "queue_full";
    case DropReason::kUnavailable:
      return "unavailable";
    case DropReason::kTimeout:
      return "timeout";
    case DropReason::kRefused:
      return "refused";
    case DropReason::kShutdown:
      return "shutdown";
    case DropReason::kMemory:
      return "memory";
  }
  return "other";
}

// Implementations are thread-safe, and do not throw.
class ExportObserver {
 public:
  virtual ~ExportObserver() = default;

  // The collector has accepted this many spans.
  virtual void OnExported(uint64_t num_spans) = 0;

  // Reports that `num_spans` spans were dropped and will never be sent. Request threads call this too, so it must be
  // quick.
  virtual void OnDropped(DropReason reason, uint64_t num_spans) = 0;

  // Called when sending begins to fail (an error) or works again (OK).
  virtual void OnCollector(const absl::Status& status) = 0;
};

}  // namespace maxsim::tracing
