// Reads what a client of HTTP/2 sends, frame by frame, as far as the gate needs it to know which calls are made and
// with which token. Pure: bytes in, units out; no socket, no clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/gate/http2_frames.h"

struct nghttp2_hd_inflater;

namespace maxsim::gate {

// What a client may send before it has authenticated itself. Honest clients stay far below: gRPC takes 8 KiB of
// metadata.
inline constexpr size_t kMaxHeaderBlockBytes = 16 * 1024;  // one call's HEADERS and CONTINUATION frames, as sent
inline constexpr size_t kMaxHeaderListBytes = 16 * 1024;   // the same unpacked, 32 bytes more a field (RFC 9113, 6.5.2)
inline constexpr int kMaxContinuations = 16;               // of one block

// A unit is the preface, a frame, or a HEADERS frame with the CONTINUATION frames that belong to it.
struct Http2Unit {
  enum class Kind { kPreface, kFrame, kCall };

  Kind kind = Kind::kFrame;
  FrameType type = FrameType::kData;
  uint8_t flags = 0;  // of the first frame
  uint32_t stream_id = 0;
  std::string bytes;  // as they came
  // A kCall, a HEADERS frame that opens a stream, has these; "" is a field that is absent.
  std::string path;
  std::string authorization;  // the first one's value

  std::string_view payload() const { return std::string_view(bytes).substr(kFrameHeaderBytes); }
};

class Http2Scanner {
 public:
  Http2Scanner() = default;
  ~Http2Scanner();
  Http2Scanner(const Http2Scanner&) = delete;
  Http2Scanner& operator=(const Http2Scanner&) = delete;

  void Append(std::string_view bytes);

  // Returns the next unit, or nullopt where more bytes are needed. INVALID_ARGUMENT for what is not HTTP/2,
  // RESOURCE_EXHAUSTED for what is beyond the limits above; after an error the connection is of no further use. A unit
  // takes at most kMaxHeaderBlockBytes + kMaxFrameBytes of bytes that wait, whatever the client announces.
  absl::StatusOr<std::optional<Http2Unit>> Next();

  // Gives away the bytes that have not come out as units.
  std::string TakeRest();

 private:
  // Returns the bytes that have not come out as units.
  std::string_view waiting() const { return std::string_view(buffer_).substr(begin_); }
  std::string Take(size_t num_bytes);
  absl::StatusOr<std::optional<Http2Unit>> NextFrame();
  // Takes the frames at the front of the buffer that make up a block of headers into `unit`.
  absl::StatusOr<bool> TakeHeaders(Http2Unit& unit);
  absl::Status Inflate(std::string_view block, Http2Unit& unit);

  struct InflaterDeleter {
    void operator()(nghttp2_hd_inflater* inflater) const;
  };

  std::string buffer_;
  size_t begin_ = 0;  // of what waits in buffer_
  bool has_preface_ = false;
  uint32_t last_stream_id_ = 0;
  std::unique_ptr<nghttp2_hd_inflater, InflaterDeleter> inflater_;  // made for the first headers
};

}  // namespace maxsim::gate
