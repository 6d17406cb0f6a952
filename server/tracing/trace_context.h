// The trace that a call belongs to, and the headers `traceparent` and `tracestate` that carry it: W3C Trace Context,
// level 1 (https://www.w3.org/TR/trace-context-1). Everything here is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace maxsim::tracing {

// Names of the HTTP headers, and of the keys in gRPC's metadata.
inline constexpr char kTraceparentKey[] = "traceparent";
inline constexpr char kTracestateKey[] = "tracestate";

// The least that the standard requires to pass on. The rest is dropped.
inline constexpr size_t kMaxTracestateBytes = 512;

// Identifies one span of a trace. A default-constructed one identifies none.
struct TraceContext {
  uint64_t trace_id_high = 0;  // the first 16 of the trace id's 32 digits
  uint64_t trace_id_low = 0;   // the last 16
  uint64_t span_id = 0;        // the parent-id, if read from a header
  bool is_sampled = false;     // whether the spans of this trace are recorded

  // An id that is zero is not valid.
  bool is_valid() const { return (trace_id_high | trace_id_low) != 0 && span_id != 0; }

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// Parses the header `traceparent`. Returns nullopt if the standard says that the header must be ignored: fewer than 55
// characters (or more, in version 00), characters that are not lower-case hexadecimal digits, an id of zeros, or
// version ff. A later version may have more fields after another '-'; they are not read. Of the flags only `sampled` is
// used.
std::optional<TraceContext> ParseTraceparent(std::string_view value);

// Returns the `traceparent` of a valid context: 55 characters, version 00.
std::string FormatTraceparent(const TraceContext& context);

// Returns the part of a `tracestate` that is passed on. If it is longer than kMaxTracestateBytes, these are the first
// entries that fit completely; else it is all of it. Returns "" if it has bytes that are not allowed in a header.
std::string_view BoundTracestate(std::string_view value);

// The span of the caller, in another process, as read from the headers of a call.
struct RemoteParent {
  TraceContext context;                           // not valid if the call has no parent
  std::shared_ptr<const std::string> tracestate;  // null if there is none
};

// Reads the two headers of a call; "" stands for an absent header. A tracestate is ignored if the traceparent is absent
// or not valid.
RemoteParent ReadParent(std::string_view traceparent, std::string_view tracestate);

// Returns a random number other than 0, from a generator of the calling thread that was seeded by the system. Takes a
// few nanoseconds. For ids, not for secrets.
uint64_t RandomId();

}  // namespace maxsim::tracing
