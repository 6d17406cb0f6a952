// Reads a collector's answers to exported spans. Pure: no network, no clock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"

namespace maxsim::tracing {

inline constexpr size_t kMaxCollectorErrorBytes = 300;

// Returns the collector's status as one that is safe to log: its message is printable UTF-8 of at most
// kMaxCollectorErrorBytes bytes, and a code that gRPC does not define becomes UNKNOWN.
absl::Status CollectorStatus(const grpc::Status& status);

// Returns how many of the spans the collector refused: 0 .. num_spans.
uint64_t NumRefused(const opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse& response,
                    uint64_t num_spans);

}  // namespace maxsim::tracing
