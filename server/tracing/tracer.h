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
  // Traces without a parent are recorded by chance, `sample_ratio` of them (0 to 1). Without a sink the tracer is off.
  explicit Tracer(std::unique_ptr<SpanSink> sink, double sample_ratio = 1);
  ~Tracer();  // shuts down at once

  // If this is false, spans record nothing and have no ids, so callers need not look for a parent.
  bool is_on() const { return sink_ != nullptr; }

  // Begins a span. A trace with a sampled parent is recorded, one with another parent is not, and one without a parent
  // by chance: by its id, so that all servers of one ratio decide alike. What is not recorded allocates nothing; its
  // ids say that the trace is not to be sampled, and are those of the parent.
  Span StartSpan(std::string_view name, SpanKind kind, const RemoteParent& parent, absl::Time start) const {
    return is_on() ? Start(name, kind, parent, start) : Span();
  }

  // Hands over what has ended, until `deadline`, of MonotonicNow(). Spans that end later are dropped. Idempotent.
  void Shutdown(absl::Time deadline);

 private:
  Span Start(std::string_view name, SpanKind kind, const RemoteParent& parent, absl::Time start) const;
  bool IsChosen(uint64_t trace_id_low) const { return samples_all_ || trace_id_low < sample_below_; }

  const std::unique_ptr<SpanSink> sink_;
  const bool samples_all_;
  const uint64_t sample_below_;  // the lower half of the ids of traces that are chosen
};

}  // namespace maxsim::tracing
