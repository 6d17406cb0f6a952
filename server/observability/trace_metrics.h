// The metrics of traces: spans that were sent and spans that were dropped. They are part of Metrics (metrics.h), and
// documented in docs/reference/metrics.md.
#pragma once

#include <array>
#include <cstdint>

#include "server/tracing/export_observer.h"

namespace prometheus {
class Counter;
class Registry;
}  // namespace prometheus

namespace maxsim {

// The class is thread-safe, and cheap enough for the hot path. Its series exist from the start, at zero.
class TraceMetrics {
 public:
  // `registry` must outlive it.
  explicit TraceMetrics(prometheus::Registry& registry);

  void CountExported(uint64_t num_spans);
  void CountDropped(tracing::DropReason reason, uint64_t num_spans);

 private:
  prometheus::Counter* exported_ = nullptr;
  std::array<prometheus::Counter*, tracing::kDropReasons.size()> dropped_{};
};

}  // namespace maxsim
