// Converts spans to messages of the OpenTelemetry protocol.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "server/tracing/span.h"

namespace maxsim::tracing {

// The identity of the process that sends spans.
struct ServiceIdentity {
  std::string name;     // tracing.service_name
  std::string version;  // of maxsimd
  std::string host;     // name of the machine; "" if not known
  int64_t process_id = 0;
};

// Returns the message that sends these spans to a collector. `to_wall_clock` is the wall clock's time minus
// MonotonicNow(). It is added to all times, so that they can be compared with those of other machines.
opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest ToOtlp(
    const ServiceIdentity& service, const std::vector<std::unique_ptr<SpanData>>& spans, absl::Duration to_wall_clock);

}  // namespace maxsim::tracing
