// Splits the bytes that an HTTP/2 client sends into frames, and reads only what the gate must know: which calls the
// client makes, and with which token. The scanner itself does no I/O and reads no clock.
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

// Limits on the headers of a call while the client has shown no known token. Honest clients stay far below them: gRPC
// accepts 8 KiB of metadata.
inline constexpr size_t kMaxHeaderBlockBytes = 16 * 1024;  // one call's HEADERS and CONTINUATION frames, as sent
inline constexpr size_t kMaxHeaderListBytes = 16 * 1024;   // these unpacked, plus 32 bytes per field (RFC 9113, 6.5.2)
inline constexpr int kMaxContinuations = 16;               // CONTINUATION frames of one call

// The preface, a frame, or a HEADERS frame with its CONTINUATION frames.
struct Http2Unit {
  enum class Kind { kPreface, kFrame, kCall };

  Kind kind = Kind::kFrame;
  FrameType type = FrameType::kData;
  uint8_t flags = 0;  // of the first frame
  uint32_t stream_id = 0;
  std::string bytes;  // as received
  // Set for a kCall (HEADERS that open a stream). An absent header is "".
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

  // Returns the next unit, or nullopt if more bytes are needed. Returns INVALID_ARGUMENT if the bytes are not HTTP/2,
  // RESOURCE_EXHAUSTED if they exceed the limits above. After an error the connection cannot be used. Buffers at most
  // kMaxHeaderBlockBytes + kMaxFrameBytes for a unit, whatever length the client announces.
  absl::StatusOr<std::optional<Http2Unit>> Next();

  // Takes the bytes that Next has not returned as units out of the scanner.
  std::string TakeRest();

 private:
  // Returns the bytes that Next has not yet returned as units.
  std::string_view waiting() const { return std::string_view(buffer_).substr(begin_); }
  std::string Take(size_t num_bytes);
  absl::StatusOr<std::optional<Http2Unit>> NextFrame();
  // Takes HEADERS and their CONTINUATION frames from the buffer into `unit`.
  absl::StatusOr<bool> TakeHeaders(Http2Unit& unit);
  absl::Status Inflate(std::string_view block, Http2Unit& unit);

  struct InflaterDeleter {
    void operator()(nghttp2_hd_inflater* inflater) const;
  };

  std::string buffer_;
  size_t begin_ = 0;  // where waiting() begins in buffer_
  bool has_preface_ = false;
  uint32_t last_stream_id_ = 0;
  std::unique_ptr<nghttp2_hd_inflater, InflaterDeleter> inflater_;  // made when the first headers come
};

}  // namespace maxsim::gate
