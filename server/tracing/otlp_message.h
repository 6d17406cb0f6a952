// Spans as messages of the OpenTelemetry protocol.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "server/tracing/span.h"

namespace maxsim::tracing {

// Who sends spans.
struct ServiceIdentity {
  std::string name;     // tracing.service_name
  std::string version;  // of maxsimd
  std::string host;     // of the machine; "": not known
  int64_t process_id = 0;
};

// Returns a request for these spans. `to_wall_clock` is the wall clock's time less that of MonotonicNow(): what is sent
// is for people, and for comparing with what other machines say.
opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest ToOtlp(
    const ServiceIdentity& service, const std::vector<std::unique_ptr<SpanData>>& spans, absl::Duration to_wall_clock);

}  // namespace maxsim::tracing
