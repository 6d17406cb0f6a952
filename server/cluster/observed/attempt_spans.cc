#include "server/cluster/observed/attempt_spans.h"

#include <string>
#include <string_view>

#include "base/guard.h"
#include "server/service/call/call_spans.h"
#include "server/tracing/trace_context.h"

namespace maxsim::cluster {

void AddTrace(const tracing::SpanParent& span, grpc::ClientContext& context) {
  Guarded([&] {
    const std::string traceparent = span.traceparent();
    if (traceparent.empty()) return absl::OkStatus();
    context.AddMetadata(tracing::kTraceparentKey, traceparent);
    const std::string_view state = span.tracestate();
    if (!state.empty()) context.AddMetadata(tracing::kTracestateKey, std::string(state));
    return absl::OkStatus();
  }).IgnoreError();  // If memory runs out, the call goes on without its trace.
}

void EndWithCall(const absl::Status& status, tracing::Span& span) {
  if (!span.is_recording()) return;
  const char* const why = status.ok() ? "another replica answered first" : "the call ended before the answer";
  service::EndCall(absl::CancelledError(why), span);
}

}  // namespace maxsim::cluster
