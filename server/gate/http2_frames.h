// The few HTTP/2 frames (RFC 9113) that the gate sends, and constants. No I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace maxsim::gate {

// The first bytes that a client sends (RFC 9113, section 3.4).
inline constexpr std::string_view kClientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

inline constexpr size_t kFrameHeaderBytes = 9;
// The size of the largest frame that a peer may send: the default of SETTINGS_MAX_FRAME_SIZE, which the gate leaves as
// it is.
inline constexpr uint32_t kMaxFrameBytes = 16384;

// A GOAWAY that names this as the last stream lets all calls continue that the client has already sent (RFC 9113,
// section 6.8).
inline constexpr uint32_t kMaxStreamId = 0x7fffffff;

enum class FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kResetStream = 3,
  kSettings = 4,
  kPushPromise = 5,
  kPing = 6,
  kGoaway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};

inline constexpr uint8_t kFlagAck = 0x1;         // of SETTINGS and PING
inline constexpr uint8_t kFlagEndStream = 0x1;   // of DATA and HEADERS
inline constexpr uint8_t kFlagEndHeaders = 0x4;  // of HEADERS and CONTINUATION
inline constexpr uint8_t kFlagPadded = 0x8;      // of DATA and HEADERS
inline constexpr uint8_t kFlagPriority = 0x20;   // of HEADERS

// The identifier of SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113, section 6.5.2).
inline constexpr uint16_t kSettingsMaxConcurrentStreams = 3;

enum class ErrorCode : uint32_t { kNoError = 0, kProtocolError = 1, kEnhanceYourCalm = 11 };

// Returns a whole frame; `payload` is at most kMaxFrameBytes long.
std::string Frame(FrameType type, uint8_t flags, uint32_t stream_id, std::string_view payload);

// Returns a server's first frame: a SETTINGS frame that limits the number of streams that a client may have open at a
// time, and leaves all other settings at their defaults.
std::string Settings(int max_concurrent_streams);

// Returns the answer to a PING of this 8-byte payload.
std::string PingAck(std::string_view payload);

std::string WindowUpdate(uint32_t stream_id, uint32_t bytes);

std::string Goaway(uint32_t last_stream_id, ErrorCode code);

// Returns the answer to a gRPC call that fails at once: one HEADERS frame with END_STREAM, and RST_STREAM(NO_ERROR),
// which asks the client to send no more of its request. The headers do not use HPACK's dynamic table, so an answer does
// not depend on earlier ones.
std::string RefusedCall(uint32_t stream_id, const absl::Status& status);

}  // namespace maxsim::gate
