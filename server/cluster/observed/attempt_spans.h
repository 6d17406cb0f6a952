// The spans of a router's calls to replicas: their ids in a call's metadata, and their end.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/client_context.h"
#include "server/tracing/span.h"

namespace maxsim::cluster {

// Adds the trace headers of the span to a call's metadata. Adds nothing if there is no span.
void AddTrace(const tracing::SpanParent& span, grpc::ClientContext& context);

// Ends the span of an attempt that was still in progress when its call ended with `status`.
void EndWithCall(const absl::Status& status, tracing::Span& span);

}  // namespace maxsim::cluster
