#include "server/service/call/call_spans.h"

#include <algorithm>
#include <string>

#include "base/guard.h"

namespace maxsim::service {
namespace {

std::string_view KindOf(const v1::Candidates& candidates) {
  switch (candidates.kind_case()) {
    case v1::Candidates::kStringIds:
      return "string_ids";
    case v1::Candidates::kIntIds:
      return "int_ids";
    case v1::Candidates::kWholeCollection:
      return "whole_collection";
    case v1::Candidates::kInlineDocuments:
      return "inline_documents";
    case v1::Candidates::KIND_NOT_SET:
      break;
  }
  return "none";
}

// Returns the kind of the request's candidates. If each query has its own candidates, returns the kind of the first
// query's.
std::string_view KindOf(const v1::RerankRequest& request) {
  if (request.has_candidates() || request.queries().empty()) return KindOf(request.candidates());
  return KindOf(request.queries(0).candidates());
}

}  // namespace

void DescribeRerank(const v1::RerankRequest& request, std::string_view method, const tracing::Span& span) {
  if (!span.is_recording()) return;
  span.SetAttribute("maxsim.method", method);
  if (!request.request_id().empty()) span.SetAttribute("maxsim.request_id", request.request_id());
  span.SetAttribute("maxsim.collection", request.collection());
  span.SetAttribute("maxsim.queries", int64_t{request.queries_size()});
  span.SetAttribute("maxsim.candidates", KindOf(request));
  span.SetAttribute("maxsim.top_k", int64_t{request.top_k()});
}

void DescribeDocuments(std::string_view collection, std::string_view method, int num_documents,
                       const tracing::Span& span) {
  if (!span.is_recording()) return;
  span.SetAttribute("maxsim.method", method);
  span.SetAttribute("maxsim.collection", collection);
  span.SetAttribute("maxsim.documents", int64_t{num_documents});
}

void DescribeCount(std::string_view collection, std::string_view method, const tracing::Span& span) {
  if (!span.is_recording()) return;
  span.SetAttribute("maxsim.method", method);
  span.SetAttribute("maxsim.collection", collection);
}

void EndRerank(const absl::Status& status, const CallTimings& timings, absl::Time queued, absl::Time now,
               tracing::Span& span) {
  if (!span.is_recording()) return;
  // A call that was scored may still end with an error, if its answer cannot be written. So `status` does not tell.
  if (timings.total_us > 0) {
    span.SetAttribute("maxsim.encode_us", timings.encode_us);
    span.SetAttribute("maxsim.queue_us", timings.queue_us);
    span.SetAttribute("maxsim.copy_us", timings.copy_us);
    span.SetAttribute("maxsim.kernel_us", timings.kernel_us);
  }
  if (timings.total_us > 0 && queued != absl::InfinitePast()) {
    // The device's clock may round its times up, so limit both times to `now`.
    const absl::Time started = std::min(queued + absl::Microseconds(timings.queue_us), now);
    const absl::Time scored = std::min(started + absl::Microseconds(timings.copy_us + timings.kernel_us), now);
    span.AddChild("queue", queued, started);
    span.AddChild("score", started, scored);
  }
  span.SetStatus(status);
  span.EndAt(now);
}

void EndCall(const absl::Status& status, tracing::Span& span) {
  span.SetStatus(status);
  span.End();
}

tracing::Span StartEncode(const tracing::Span& call) { return call.StartChild("encode", tracing::SpanKind::kClient); }

tracing::Span StartGroupAttempt(const tracing::SpanParent& call, std::string_view group, std::string_view replica,
                                int attempt, bool is_hedge) {
  tracing::Span span = call.StartChild("group_call", tracing::SpanKind::kClient);
  if (!span.is_recording()) return span;
  span.SetAttribute("maxsim.group", group);
  span.SetAttribute("maxsim.replica", replica);
  span.SetAttribute("maxsim.attempt", int64_t{attempt});
  span.SetAttribute("maxsim.hedge", is_hedge);
  return span;
}

encoder::TraceHeaders HeadersOf(const tracing::Span& encode) {
  encoder::TraceHeaders headers;
  Guarded([&] {
    headers.traceparent = encode.traceparent();
    headers.tracestate = std::string(encode.tracestate());
    return absl::OkStatus();
  }).IgnoreError();  // If memory for the headers runs out, the encoder is called without them.
  return headers;
}

}  // namespace maxsim::service
