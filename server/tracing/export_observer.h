// What an exporter of spans tells of its work, for metrics and the log.
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
  kUnavailable,  // the collector was not there, at several attempts
  kTimeout,      // it did not answer in time
  kRefused,      // it answered with an error
  kShutdown,     // the server ended first
  kMemory,       // there was none to send it
};

inline constexpr std::array kDropReasons = {DropReason::kQueueFull, DropReason::kUnavailable, DropReason::kTimeout,
                                            DropReason::kRefused,   DropReason::kShutdown,    DropReason::kMemory};

// Returns "queue_full" and so on, as the metrics' label has it.
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

  // So many spans have been taken by the collector.
  virtual void OnExported(uint64_t num_spans) = 0;

  // So many spans will never be. Requests' threads call it as well, so that it must be quick.
  virtual void OnDropped(DropReason reason, uint64_t num_spans) = 0;

  // The collector has begun to fail, with this error, or to work again (OK). Called when that changes.
  virtual void OnCollector(const absl::Status& status) = 0;
};

}  // namespace maxsim::tracing
