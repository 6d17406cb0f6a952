// A span: one piece of work of a trace, with its times, attributes and outcome. What is not sampled is a span too,
// which records nothing and only carries the ids that a further call passes on.
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
  kServer,  // a call that came
  kClient,  // a call that was made
};

// Texts of attributes and errors are cut to so many bytes.
inline constexpr size_t kMaxTextBytes = 512;

struct Attribute {
  std::string_view key;  // static
  std::variant<bool, int64_t, double, std::string> value;
};

class SpanSink;

// What a span has recorded. Times are those of MonotonicNow().
struct SpanData {
  SpanSink* sink = nullptr;  // takes it when it ends
  TraceContext context;
  uint64_t parent_span_id = 0;                    // 0: the trace begins with it
  std::shared_ptr<const std::string> tracestate;  // null: none
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

  // Takes the span or drops it, and counts that. Never blocks, allocates nothing, does not throw.
  virtual void Add(std::unique_ptr<SpanData> span) = 0;

  // Ends the sink's work: what it has must be where it belongs by `deadline`, of MonotonicNow(), and is dropped then.
  // Blocks until that is done. Spans that come later are dropped. Idempotent.
  virtual void Shutdown(absl::Time deadline) = 0;
};

class Span;

// A span as the parent of others: what its children need of it, and the headers that name it. It may be copied, which
// allocates nothing, be used by several threads, and outlive the span, but not the tracer.
class SpanParent {
 public:
  // No span: children record nothing and have no ids.
  SpanParent() = default;

  // Begins a span within it, now. Of one that was not recorded it is the same one again.
  Span StartChild(std::string_view name, SpanKind kind) const;

  // Return what Span::traceparent and Span::tracestate return. The second one stays valid as long as this.
  std::string traceparent() const { return context_.is_valid() ? FormatTraceparent(context_) : std::string(); }
  std::string_view tracestate() const {
    return tracestate_ == nullptr ? std::string_view() : std::string_view(*tracestate_);
  }

 private:
  friend class Span;
  Span StartChildAt(std::string_view name, SpanKind kind, absl::Time start) const;

  SpanSink* sink_ = nullptr;  // null: the span was not recorded
  TraceContext context_;
  std::shared_ptr<const std::string> tracestate_;
};

// A span is used by one thread at a time, and must not outlive the tracer that it comes from. It ends at the latest
// when it goes away. Where memory runs out, what would be recorded is left out; no function throws. Names and keys live
// as long as the program.
class Span {
 public:
  // No span: it records nothing and has no ids.
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

  // Begins a span that is recorded where `context` is sampled. `parent_span_id` is 0 for the first one of a trace.
  // Callers have it from Tracer::StartSpan or StartChild.
  Span(SpanSink* sink, const TraceContext& context, uint64_t parent_span_id,
       std::shared_ptr<const std::string> tracestate, std::string_view name, SpanKind kind, absl::Time start);

  // Whether what is set here is kept: attributes that cost something to find need not be looked for otherwise.
  bool is_recording() const { return data_ != nullptr; }

  // Returns the ids that a call made within this span names as its parent's. Not valid where there is no span.
  const TraceContext& context() const { return context_; }

  // Return the values of the headers `traceparent` and `tracestate` of such a call; "" where it is to have none. The
  // second one stays valid as long as this span or a child of it.
  std::string traceparent() const { return context_.is_valid() ? FormatTraceparent(context_) : std::string(); }
  std::string_view tracestate() const {
    return tracestate_ == nullptr ? std::string_view() : std::string_view(*tracestate_);
  }

  // Begin a span within this one, now or at `start`. Of one that is not recorded it is the same one again.
  Span StartChild(std::string_view name, SpanKind kind = SpanKind::kInternal) const {
    return StartChildAt(name, kind, is_recording() ? MonotonicNow() : absl::Time());
  }
  Span StartChildAt(std::string_view name, SpanKind kind, absl::Time start) const {
    return AsParent().StartChildAt(name, kind, start);
  }

  // Returns the span as the parent of others, which may begin on other threads.
  SpanParent AsParent() const;

  // Records a span within this one that has been, from `start` to `end`.
  void AddChild(std::string_view name, absl::Time start, absl::Time end) const;

  // Set an attribute, each key once. Texts are cut to kMaxTextBytes, and made printable. What is recorded lies behind
  // the span, which need not be changeable for it.
  void SetAttribute(std::string_view key, std::string_view value) const;
  void SetAttribute(std::string_view key, const char* value) const { SetAttribute(key, std::string_view(value)); }
  void SetAttribute(std::string_view key, bool value) const { AddAttribute(key, value); }
  void SetAttribute(std::string_view key, double value) const { AddAttribute(key, value); }
  void SetAttribute(std::string_view key, int64_t value) const { AddAttribute(key, value); }

  // Says how the work went. An error is kept as "CODE: message".
  void SetStatus(const absl::Status& status) const;

  // Ends the span, now or at `end`, and hands it over. Idempotent; what is set afterwards is lost.
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
  std::unique_ptr<SpanData> data_;  // null: nothing is recorded
};

}  // namespace maxsim::tracing
