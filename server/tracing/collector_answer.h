// Reads what a collector answers to spans. Pure: no network, no clock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.pb.h"

namespace maxsim::tracing {

inline constexpr size_t kMaxCollectorErrorBytes = 300;

// Returns the status of a call, with a message that can be logged: printable UTF-8 of at most kMaxCollectorErrorBytes
// bytes. A code that gRPC does not have becomes UNKNOWN.
absl::Status CollectorStatus(const grpc::Status& status);

// Returns how many of `num_spans` spans a collector has refused of those that it took, whatever number it says.
uint64_t NumRefused(const opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse& response,
                    uint64_t num_spans);

}  // namespace maxsim::tracing
