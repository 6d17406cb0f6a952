// Fuzzes the two headers of a trace. An accepted traceparent must not change when it is written again, except for its
// version and flags. The server must pass on the beginning of the tracestate or all of it. The input is the
// traceparent, a NUL byte, and the tracestate.
#include <algorithm>
#include <optional>
#include <string>

#include "server/tracing/trace_context.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

void CheckTraceparent(std::string_view value) {
  const std::optional<tracing::TraceContext> context = tracing::ParseTraceparent(value);
  if (!context.has_value()) return;
  Require(context->is_valid(), "what is read has ids");
  const std::string written = tracing::FormatTraceparent(*context);
  Require(tracing::ParseTraceparent(written) == context, "what is written is read as it was");
  // The server writes its own version, and passes on only one of the flags.
  constexpr size_t kVersionEnd = 3;
  constexpr size_t kFlagsBegin = 53;
  constexpr size_t kSize = 55;
  Require(value.size() >= kSize && written.size() == kSize, "a traceparent has 55 characters at least");
  Require(value.substr(kVersionEnd, kFlagsBegin - kVersionEnd) ==
              std::string_view(written).substr(kVersionEnd, kFlagsBegin - kVersionEnd),
          "ids are passed on as they came");
  Require(!value.starts_with("ff"), "version ff is none");
  Require(!value.starts_with("00") || value.size() == kSize, "version 00 has nothing behind its flags");
}

void CheckTracestate(std::string_view value) {
  const std::string_view kept = tracing::BoundTracestate(value);
  Require(kept.size() <= tracing::kMaxTracestateBytes, "no more than the bound is passed on");
  Require(value.starts_with(kept), "what is passed on is the front");
  for (const char letter : kept) Require(letter == '\t' || (letter >= ' ' && letter <= '~'), "a header may hold it");
  if (kept.empty() || kept.size() == value.size()) return;
  Require(value[kept.size()] == ',', "entries are passed on whole");
}

void FuzzTraceparent(std::string_view input) {
  const std::string_view traceparent = input.substr(0, input.find('\0'));
  const std::string_view tracestate = input.substr(std::min(traceparent.size() + 1, input.size()));
  CheckTraceparent(traceparent);
  CheckTracestate(tracestate);
  const tracing::RemoteParent parent = tracing::ReadParent(traceparent, tracestate);
  Require(parent.context == tracing::ParseTraceparent(traceparent).value_or(tracing::TraceContext()),
          "both readers agree");
  Require(parent.tracestate == nullptr || parent.context.is_valid(), "a tracestate needs a traceparent");
  Require(parent.tracestate == nullptr || !parent.tracestate->empty(), "an empty tracestate is none");
}

const Registration kTraceparentTarget("traceparent", &FuzzTraceparent);

}  // namespace
}  // namespace maxsim::fuzz
