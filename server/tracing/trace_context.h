// Which trace a call belongs to, and how that stands in the headers `traceparent` and `tracestate`: W3C Trace Context,
// level 1 (https://www.w3.org/TR/trace-context-1). Everything here is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace maxsim::tracing {

// The headers of HTTP, and the keys of gRPC's metadata.
inline constexpr char kTraceparentKey[] = "traceparent";
inline constexpr char kTracestateKey[] = "tracestate";

// The standard asks to pass on a tracestate of this size at least. More of it is not kept.
inline constexpr size_t kMaxTracestateBytes = 512;

// Names one span of a trace. The default one names none.
struct TraceContext {
  uint64_t trace_id_high = 0;  // the first 16 of the trace id's 32 digits
  uint64_t trace_id_low = 0;   // the last 16
  uint64_t span_id = 0;        // parent-id, where it comes in a header
  bool is_sampled = false;     // whether the spans of this trace are recorded

  // Ids that are all zero name nothing.
  bool is_valid() const { return (trace_id_high | trace_id_low) != 0 && span_id != 0; }

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// Reads a value of `traceparent`. Returns nullopt for one that the standard says is to be ignored: another length than
// 55, letters that are no lower-case hexadecimal digits, an id that is all zero, version ff. A version later than 00
// may go on behind a further '-'; what it has in common with 00 is read. Of the flags only `sampled` is looked at.
std::optional<TraceContext> ParseTraceparent(std::string_view value);

// Returns the value of `traceparent` that names a valid context: 55 characters of version 00.
std::string FormatTraceparent(const TraceContext& context);

// Returns what is passed on of a value of `tracestate`: all of it or, where it is longer than kMaxTracestateBytes, the
// whole entries at its front that fit. Returns "" for a value with bytes that no header may have.
std::string_view BoundTracestate(std::string_view value);

// The span of another process that a call was made in, as its headers say.
struct RemoteParent {
  TraceContext context;                           // not valid: the call came without a parent
  std::shared_ptr<const std::string> tracestate;  // null: none
};

// Returns what the two headers of a call say; "" is a header that is not there. A tracestate without a valid
// traceparent says nothing.
RemoteParent ReadParent(std::string_view traceparent, std::string_view tracestate);

// Returns a random number that is not 0, from a generator of the calling thread, which the system has seeded. It takes
// some nanoseconds, and is for ids, not for secrets.
uint64_t RandomId();

}  // namespace maxsim::tracing
