// A span is one piece of work of a trace, with its times, attributes and outcome. If the trace is not sampled
// (recorded), its spans store nothing, and only carry the ids that go with further calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "server/tracing/trace_context.h"

namespace maxsim::tracing {

enum class SpanKind {
  kInternal,
  kServer,  // handles a call
  kClient,  // makes a call
};

// Texts of attributes and errors are cut to this many bytes.
inline constexpr size_t kMaxTextBytes = 512;

struct Attribute {
  std::string_view key;  // static
  std::variant<bool, int64_t, double, std::string> value;
};

class SpanSink;

// The data that a span records. Times are those of MonotonicNow().
struct SpanData {
  SpanSink* sink = nullptr;  // receives the data when the span ends
  TraceContext context;
  uint64_t parent_span_id = 0;                    // 0 if the trace begins with this span
  std::shared_ptr<const std::string> tracestate;  // null if there is none
  std::string_view name;                          // static
  SpanKind kind = SpanKind::kInternal;
  absl::Time start;
  absl::Time end;
  std::vector<Attribute> attributes;  // texts are UTF-8
  bool has_error = false;
  std::string error;  // UTF-8
};

// Takes spans that have ended. Thread-safe.
class SpanSink {
 public:
  virtual ~SpanSink() = default;

  // Takes or drops (and counts) the span. Never blocks, allocates or throws.
  virtual void Add(std::unique_ptr<SpanData> span) = 0;

  // Delivers the spans that it has taken, until `deadline` (a time of MonotonicNow()). Drops the others, and any that
  // come later. Idempotent.
  virtual void Shutdown(absl::Time deadline) = 0;
};

class Span;

// A span as a parent: its ids and headers. Copying it does not allocate. Several threads may use it. It may outlive the
// span, but not the tracer.
class SpanParent {
 public:
  // Makes a parent without a span: children record nothing and have no ids.
  SpanParent() = default;

  // Begins a child span. Without recording it has the parent's ids.
  Span StartChild(std::string_view name, SpanKind kind) const;

  // As in Span. `tracestate` stays valid as long as this object.
  std::string traceparent() const { return context_.is_valid() ? FormatTraceparent(context_) : std::string(); }
  std::string_view tracestate() const {
    return tracestate_ == nullptr ? std::string_view() : std::string_view(*tracestate_);
  }

 private:
  friend class Span;
  Span StartChildAt(std::string_view name, SpanKind kind, absl::Time start) const;

  SpanSink* sink_ = nullptr;  // null if the span is not recorded
  TraceContext context_;
  std::shared_ptr<const std::string> tracestate_;
};

// Only one thread at a time may use a span. A span must not outlive its tracer. Its destructor ends it, if End was not
// called. No function throws: if memory runs out, the data is not recorded. Names and keys must live as long as the
// program.
class Span {
 public:
  // Makes an empty span, which records nothing and has no ids.
  Span() = default;
  Span(Span&& other) noexcept = default;
  Span& operator=(Span&& other) noexcept {
    if (this == &other) return *this;
    End();
    context_ = other.context_;
    tracestate_ = std::move(other.tracestate_);
    data_ = std::move(other.data_);
    return *this;
  }
  ~Span() { End(); }

  // Begins a span, which is recorded if `context` is sampled. `parent_span_id` is 0 for the first span of a trace.
  // Other code calls Tracer::StartSpan or StartChild instead.
  Span(SpanSink* sink, const TraceContext& context, uint64_t parent_span_id,
       std::shared_ptr<const std::string> tracestate, std::string_view name, SpanKind kind, absl::Time start);

  // Returns whether attributes are kept. If not, skip expensive ones.
  bool is_recording() const { return data_ != nullptr; }

  // Returns the ids that calls made within this span send as their parent's. If the span is empty, they are not valid.
  const TraceContext& context() const { return context_; }

  // Return the values of the headers `traceparent` and `tracestate` for a call made within this span; "" if the header
  // must not be sent. `tracestate` stays valid as long as this span or a child of it.
  std::string traceparent() const { return context_.is_valid() ? FormatTraceparent(context_) : std::string(); }
  std::string_view tracestate() const {
    return tracestate_ == nullptr ? std::string_view() : std::string_view(*tracestate_);
  }

  // Begin a child span, now or at the time `start`. If this span is not recorded, they return a span with the same ids.
  Span StartChild(std::string_view name, SpanKind kind = SpanKind::kInternal) const {
    return StartChildAt(name, kind, is_recording() ? MonotonicNow() : absl::Time());
  }
  Span StartChildAt(std::string_view name, SpanKind kind, absl::Time start) const {
    return AsParent().StartChildAt(name, kind, start);
  }

  // Returns this span as a parent, whose children may begin on other threads.
  SpanParent AsParent() const;

  // Records a child span that has already ended, from `start` to `end`.
  void AddChild(std::string_view name, absl::Time start, absl::Time end) const;

  // Set an attribute. Set each key only once. Texts are cut to kMaxTextBytes and made printable. These functions are
  // const because the Span object only points to its attributes.
  void SetAttribute(std::string_view key, std::string_view value) const;
  void SetAttribute(std::string_view key, const char* value) const { SetAttribute(key, std::string_view(value)); }
  void SetAttribute(std::string_view key, bool value) const { AddAttribute(key, value); }
  void SetAttribute(std::string_view key, double value) const { AddAttribute(key, value); }
  void SetAttribute(std::string_view key, int64_t value) const { AddAttribute(key, value); }

  // Sets the outcome of the work. An error is recorded as "CODE: message".
  void SetStatus(const absl::Status& status) const;

  // Ends the span, now or at the time `end`, and gives its data to the sink. Idempotent. Attributes set afterwards are
  // lost.
  void End() {
    if (data_ != nullptr) EndAt(MonotonicNow());
  }
  void EndAt(absl::Time end);

 private:
  friend class SpanParent;
  template <typename Value>
  void AddAttribute(std::string_view key, Value value) const;

  TraceContext context_;
  std::shared_ptr<const std::string> tracestate_;
  std::unique_ptr<SpanData> data_;  // null if nothing is recorded
};

}  // namespace maxsim::tracing
