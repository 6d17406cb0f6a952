#include "server/tracing/otlp_message.h"

#include <type_traits>
#include <variant>

namespace maxsim::tracing {
namespace {

namespace otlp = opentelemetry::proto::trace::v1;
using opentelemetry::proto::common::v1::AnyValue;
using opentelemetry::proto::common::v1::KeyValue;

constexpr uint32_t kSampledFlag = 1;

void AppendBigEndian(uint64_t id, std::string* bytes) {
  for (int shift = 56; shift >= 0; shift -= 8) *bytes += static_cast<char>(id >> shift & 0xff);
}

otlp::Span::SpanKind KindOf(SpanKind kind) {
  switch (kind) {
    case SpanKind::kServer:
      return otlp::Span::SPAN_KIND_SERVER;
    case SpanKind::kClient:
      return otlp::Span::SPAN_KIND_CLIENT;
    case SpanKind::kInternal:
      break;
  }
  return otlp::Span::SPAN_KIND_INTERNAL;
}

template <typename Value>
void SetValue(const Value& value, AnyValue* to) {
  if constexpr (std::is_same_v<Value, bool>) {
    to->set_bool_value(value);
  } else if constexpr (std::is_same_v<Value, int64_t>) {
    to->set_int_value(value);
  } else if constexpr (std::is_same_v<Value, double>) {
    to->set_double_value(value);
  } else {
    to->set_string_value(value);
  }
}

template <typename Value>
void Set(std::string_view key, const Value& value, KeyValue* to) {
  to->set_key(std::string(key));
  SetValue(value, to->mutable_value());
}

uint64_t UnixNanos(absl::Time time, absl::Duration to_wall_clock) {
  return static_cast<uint64_t>(absl::ToUnixNanos(time + to_wall_clock));
}

void Fill(const SpanData& span, absl::Duration to_wall_clock, otlp::Span* to) {
  AppendBigEndian(span.context.trace_id_high, to->mutable_trace_id());
  AppendBigEndian(span.context.trace_id_low, to->mutable_trace_id());
  AppendBigEndian(span.context.span_id, to->mutable_span_id());
  if (span.parent_span_id != 0) AppendBigEndian(span.parent_span_id, to->mutable_parent_span_id());
  if (span.tracestate != nullptr) to->set_trace_state(*span.tracestate);
  to->set_flags(kSampledFlag);
  to->set_name(std::string(span.name));
  to->set_kind(KindOf(span.kind));
  to->set_start_time_unix_nano(UnixNanos(span.start, to_wall_clock));
  to->set_end_time_unix_nano(UnixNanos(span.end, to_wall_clock));
  for (const Attribute& attribute : span.attributes) {
    std::visit([&](const auto& value) { Set(attribute.key, value, to->add_attributes()); }, attribute.value);
  }
  if (!span.has_error) return;
  to->mutable_status()->set_code(otlp::Status::STATUS_CODE_ERROR);
  to->mutable_status()->set_message(span.error);
}

}  // namespace

opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest ToOtlp(
    const ServiceIdentity& service, const std::vector<std::unique_ptr<SpanData>>& spans, absl::Duration to_wall_clock) {
  opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest request;
  otlp::ResourceSpans& of_service = *request.add_resource_spans();
  auto& attributes = *of_service.mutable_resource()->mutable_attributes();
  Set("service.name", service.name, attributes.Add());
  Set("service.version", service.version, attributes.Add());
  if (!service.host.empty()) Set("host.name", service.host, attributes.Add());
  Set("process.pid", service.process_id, attributes.Add());
  otlp::ScopeSpans& of_scope = *of_service.add_scope_spans();
  of_scope.mutable_scope()->set_name("maxsimd");
  of_scope.mutable_scope()->set_version(service.version);
  for (const std::unique_ptr<SpanData>& span : spans) Fill(*span, to_wall_clock, of_scope.add_spans());
  return request;
}

}  // namespace maxsim::tracing
