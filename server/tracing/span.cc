#include "server/tracing/span.h"

#include <algorithm>

#include "base/guard.h"
#include "base/text.h"

namespace maxsim::tracing {

Span::Span(SpanSink* sink, const TraceContext& context, uint64_t parent_span_id,
           std::shared_ptr<const std::string> tracestate, std::string_view name, SpanKind kind, absl::Time start)
    : context_(context), tracestate_(std::move(tracestate)) {
  if (!context.is_sampled) return;
  Guarded([&] {
    data_ = std::make_unique<SpanData>();
    return absl::OkStatus();
  }).IgnoreError();
  if (data_ == nullptr) return;
  data_->sink = sink;
  data_->context = context;
  data_->parent_span_id = parent_span_id;
  data_->tracestate = tracestate_;
  data_->name = name;
  data_->kind = kind;
  data_->start = start;
}

Span SpanParent::StartChild(std::string_view name, SpanKind kind) const {
  return StartChildAt(name, kind, sink_ == nullptr ? absl::Time() : MonotonicNow());
}

Span SpanParent::StartChildAt(std::string_view name, SpanKind kind, absl::Time start) const {
  if (sink_ == nullptr) {
    Span same;
    same.context_ = context_;
    same.tracestate_ = tracestate_;
    return same;
  }
  TraceContext context = context_;
  context.span_id = RandomId();
  return Span(sink_, context, context_.span_id, tracestate_, name, kind, start);
}

SpanParent Span::AsParent() const {
  SpanParent parent;
  parent.sink_ = is_recording() ? data_->sink : nullptr;
  parent.context_ = context_;
  parent.tracestate_ = tracestate_;
  return parent;
}

void Span::AddChild(std::string_view name, absl::Time start, absl::Time end) const {
  if (is_recording()) StartChildAt(name, SpanKind::kInternal, start).EndAt(end);
}

template <typename Value>
void Span::AddAttribute(std::string_view key, Value value) const {
  if (!is_recording()) return;
  Guarded([&] {
    data_->attributes.push_back({key, std::move(value)});
    return absl::OkStatus();
  }).IgnoreError();
}

template void Span::AddAttribute(std::string_view, bool) const;
template void Span::AddAttribute(std::string_view, double) const;
template void Span::AddAttribute(std::string_view, int64_t) const;

void Span::SetAttribute(std::string_view key, std::string_view value) const {
  if (!is_recording()) return;
  Guarded([&] {
    AddAttribute(key, Printable(value, kMaxTextBytes));
    return absl::OkStatus();
  }).IgnoreError();
}

void Span::SetStatus(const absl::Status& status) const {
  if (!is_recording() || status.ok()) return;
  data_->has_error = true;
  Guarded([&] {
    data_->error = Printable(status.ToString(absl::StatusToStringMode::kWithNoExtraData), kMaxTextBytes);
    return absl::OkStatus();
  }).IgnoreError();
}

void Span::EndAt(absl::Time end) {
  if (!is_recording()) return;
  data_->end = std::max(end, data_->start);
  SpanSink* const sink = data_->sink;
  sink->Add(std::move(data_));
}

}  // namespace maxsim::tracing
