#include "server/tracing/tracer.h"

#include <cmath>
#include <utility>

namespace maxsim::tracing {
namespace {

uint64_t ShareOfIds(double ratio) {
  constexpr int kIdBits = 64;
  if (!(ratio > 0)) return 0;
  return ratio < 1 ? static_cast<uint64_t>(std::ldexp(ratio, kIdBits)) : ~uint64_t{0};
}

}  // namespace

Tracer::Tracer(std::unique_ptr<SpanSink> sink, double sample_ratio)
    : sink_(std::move(sink)), samples_all_(sample_ratio >= 1), sample_below_(ShareOfIds(sample_ratio)) {}

Tracer::~Tracer() { Shutdown(absl::InfinitePast()); }

Span Tracer::Start(std::string_view name, SpanKind kind, const RemoteParent& parent, absl::Time start) const {
  TraceContext context = parent.context;
  if (!context.is_valid()) {
    context.trace_id_high = RandomId();
    context.trace_id_low = RandomId();
    context.span_id = RandomId();
    context.is_sampled = IsChosen(context.trace_id_low);
    return Span(sink_.get(), context, 0, nullptr, name, kind, start);
  }
  if (context.is_sampled) context.span_id = RandomId();
  return Span(sink_.get(), context, parent.context.span_id, parent.tracestate, name, kind, start);
}

void Tracer::Shutdown(absl::Time deadline) {
  if (is_on()) sink_->Shutdown(deadline);
}

}  // namespace maxsim::tracing
