// Begins the spans of incoming calls, and decides which traces are recorded.
//
//   Span span = tracer.StartSpan("maxsim.v1.Reranker/Rerank", SpanKind::kServer, ReadParent(...), arrival);
//   Span child = span.StartChild("encode", SpanKind::kClient);
//   call.AddHeader(kTraceparentKey, child.traceparent());
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/time/time.h"
#include "server/tracing/span.h"

namespace maxsim::tracing {

// The class is thread-safe. Its spans must not outlive it.
class Tracer {
 public:
  // Makes a tracer that records a random share of the traces without a parent: `sample_ratio`, from 0 to 1. If `sink`
  // is null, the tracer is off.
  explicit Tracer(std::unique_ptr<SpanSink> sink, double sample_ratio = 1);
  ~Tracer();  // shuts down at once

  // If this is false, spans record nothing and have no ids, so a caller need not read its parent from the headers.
  bool is_on() const { return sink_ != nullptr; }

  // Begins a span. With a parent, records the span if the parent is sampled. Without a parent, the random trace id
  // decides, so that all servers with the same ratio make the same decision. A span that is not recorded allocates
  // nothing, has the parent's ids, and tells further calls that the trace is not sampled.
  Span StartSpan(std::string_view name, SpanKind kind, const RemoteParent& parent, absl::Time start) const {
    return is_on() ? Start(name, kind, parent, start) : Span();
  }

  // Delivers the spans that have ended, until `deadline` (a time of MonotonicNow()). Drops spans that end after this
  // call. Idempotent.
  void Shutdown(absl::Time deadline);

 private:
  Span Start(std::string_view name, SpanKind kind, const RemoteParent& parent, absl::Time start) const;
  bool IsChosen(uint64_t trace_id_low) const { return samples_all_ || trace_id_low < sample_below_; }

  const std::unique_ptr<SpanSink> sink_;
  const bool samples_all_;
  const uint64_t sample_below_;  // a trace is recorded if the lower half of its id is less than this
};

}  // namespace maxsim::tracing
