#include "server/tracing/trace_context.h"

#include <sys/random.h>

#include <array>
#include <bit>
#include <chrono>

namespace maxsim::tracing {
namespace {

// Positions in `traceparent`: "00-<32 digits>-<16 digits>-<2 digits>".
constexpr size_t kTraceIdBegin = 3;
constexpr size_t kSpanIdBegin = 36;
constexpr size_t kFlagsBegin = 53;
constexpr size_t kTraceparentBytes = 55;
constexpr size_t kIdDigits = 16;  // of 64 bits
constexpr uint64_t kSampledBit = 1;
constexpr uint64_t kInvalidVersion = 0xff;

constexpr std::string_view kHexDigits = "0123456789abcdef";

// Reads up to 16 lower-case hexadecimal digits.
std::optional<uint64_t> ParseHex(std::string_view digits) {
  uint64_t value = 0;
  for (const char digit : digits) {
    const bool is_decimal = digit >= '0' && digit <= '9';
    if (!is_decimal && (digit < 'a' || digit > 'f')) return std::nullopt;
    value = value << 4 | static_cast<uint64_t>(is_decimal ? digit - '0' : digit - 'a' + 10);
  }
  return value;
}

void WriteHex(uint64_t value, char* digits) {
  for (size_t idx = kIdDigits; idx-- > 0; value >>= 4) digits[idx] = kHexDigits[value & 0xf];
}

bool MayStandInHeader(char letter) { return letter == '\t' || (letter >= ' ' && letter <= '~'); }

// The generator xoshiro256++ of Blackman and Vigna (https://prng.di.unimi.it). Its state has 256 bits, so that threads
// and servers with random seeds do not produce the same ids.
class IdGenerator {
 public:
  IdGenerator() {
    // The state must not be all zeros, because it would stay zero. If the system has no random bytes, seed with the
    // time and the address of this object, which differ between generators.
    if (getrandom(state_.data(), sizeof(state_), 0) == static_cast<ssize_t>(sizeof(state_))) state_[0] |= 1;
    if (state_[0] != 0) return;
    state_[0] = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) | 1;
    state_[1] = reinterpret_cast<uintptr_t>(this);
  }

  uint64_t Next() {
    const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

 private:
  std::array<uint64_t, 4> state_{};
};

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view value) {
  if (value.size() < kTraceparentBytes) return std::nullopt;
  const std::optional<uint64_t> version = ParseHex(value.substr(0, kTraceIdBegin - 1));
  if (!version.has_value() || *version == kInvalidVersion) return std::nullopt;
  if (value.size() > kTraceparentBytes && (*version == 0 || value[kTraceparentBytes] != '-')) return std::nullopt;
  for (const size_t begin : {kTraceIdBegin, kSpanIdBegin, kFlagsBegin}) {
    if (value[begin - 1] != '-') return std::nullopt;
  }
  const std::optional<uint64_t> high = ParseHex(value.substr(kTraceIdBegin, kIdDigits));
  const std::optional<uint64_t> low = ParseHex(value.substr(kTraceIdBegin + kIdDigits, kIdDigits));
  const std::optional<uint64_t> span = ParseHex(value.substr(kSpanIdBegin, kIdDigits));
  const std::optional<uint64_t> flags = ParseHex(value.substr(kFlagsBegin, kTraceparentBytes - kFlagsBegin));
  if (!high.has_value() || !low.has_value() || !span.has_value() || !flags.has_value()) return std::nullopt;
  const TraceContext context = {
      .trace_id_high = *high, .trace_id_low = *low, .span_id = *span, .is_sampled = (*flags & kSampledBit) != 0};
  if (!context.is_valid()) return std::nullopt;
  return context;
}

std::string FormatTraceparent(const TraceContext& context) {
  std::string value(kTraceparentBytes, '-');
  value.replace(0, 2, "00");
  WriteHex(context.trace_id_high, value.data() + kTraceIdBegin);
  WriteHex(context.trace_id_low, value.data() + kTraceIdBegin + kIdDigits);
  WriteHex(context.span_id, value.data() + kSpanIdBegin);
  value.replace(kFlagsBegin, 2, context.is_sampled ? "01" : "00");
  return value;
}

std::string_view BoundTracestate(std::string_view value) {
  for (const char letter : value) {
    if (!MayStandInHeader(letter)) return {};
  }
  if (value.size() <= kMaxTracestateBytes) return value;
  // A comma at position kMaxTracestateBytes ends an entry that just fits.
  const size_t comma = value.rfind(',', kMaxTracestateBytes);
  return comma == value.npos ? std::string_view() : value.substr(0, comma);
}

RemoteParent ReadParent(std::string_view traceparent, std::string_view tracestate) {
  RemoteParent parent;
  if (traceparent.empty()) return parent;
  const std::optional<TraceContext> context = ParseTraceparent(traceparent);
  if (!context.has_value()) return parent;
  parent.context = *context;
  const std::string_view kept = BoundTracestate(tracestate);
  if (!kept.empty()) parent.tracestate = std::make_shared<const std::string>(kept);
  return parent;
}

uint64_t RandomId() {
  thread_local IdGenerator generator;
  uint64_t id = 0;
  while (id == 0) id = generator.Next();
  return id;
}

}  // namespace maxsim::tracing
