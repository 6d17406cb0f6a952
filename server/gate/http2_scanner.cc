#include "server/gate/http2_scanner.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace maxsim::gate {
namespace {

// HTTP/2 adds this to the size of each header field (RFC 9113, 6.5.2).
constexpr size_t kFieldOverheadBytes = 32;

struct FrameHeader {
  uint32_t length = 0;
  FrameType type = FrameType::kData;
  uint8_t flags = 0;
  uint32_t stream_id = 0;
};

// `bytes` must hold at least kFrameHeaderBytes.
FrameHeader ReadFrameHeader(std::string_view bytes) {
  const auto at = [&bytes](size_t idx) { return static_cast<uint32_t>(static_cast<unsigned char>(bytes[idx])); };
  return {.length = at(0) << 16 | at(1) << 8 | at(2),
          .type = static_cast<FrameType>(at(3)),
          .flags = static_cast<uint8_t>(at(4)),
          .stream_id = (at(5) & 0x7f) << 24 | at(6) << 16 | at(7) << 8 | at(8)};
}

absl::Status Malformed(const std::string& what) { return absl::InvalidArgumentError(what); }

// Returns the payload of a HEADERS frame without its padding and its priority.
absl::StatusOr<std::string_view> FragmentOf(const FrameHeader& header, std::string_view payload) {
  size_t padding = 0;
  if ((header.flags & kFlagPadded) != 0) {
    if (payload.empty()) return Malformed("a padded HEADERS frame without its length of padding");
    padding = static_cast<unsigned char>(payload.front());
    payload.remove_prefix(1);
  }
  if ((header.flags & kFlagPriority) != 0) {
    constexpr size_t kPriorityBytes = 5;
    if (payload.size() < kPriorityBytes) return Malformed("a HEADERS frame shorter than its priority");
    payload.remove_prefix(kPriorityBytes);
  }
  if (padding > payload.size()) return Malformed("a HEADERS frame shorter than its padding");
  payload.remove_suffix(padding);
  return payload;
}

}  // namespace

void Http2Scanner::InflaterDeleter::operator()(nghttp2_hd_inflater* inflater) const {
  nghttp2_hd_inflate_del(inflater);
}

Http2Scanner::~Http2Scanner() = default;

absl::StatusOr<std::optional<Http2Unit>> Http2Scanner::Next() {
  if (has_preface_) return NextFrame();
  const size_t seen = std::min(waiting().size(), kClientPreface.size());
  if (waiting().substr(0, seen) != kClientPreface.substr(0, seen)) {
    return Malformed("the connection does not begin with the preface of HTTP/2");
  }
  if (seen < kClientPreface.size()) return std::optional<Http2Unit>();
  has_preface_ = true;
  Http2Unit unit;
  unit.kind = Http2Unit::Kind::kPreface;
  unit.bytes = Take(kClientPreface.size());
  return unit;
}

absl::StatusOr<std::optional<Http2Unit>> Http2Scanner::NextFrame() {
  if (waiting().size() < kFrameHeaderBytes) return std::optional<Http2Unit>();
  const FrameHeader header = ReadFrameHeader(waiting());
  if (header.length > kMaxFrameBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a frame of ", header.length, " bytes; the limit is ", kMaxFrameBytes));
  }
  if (header.type == FrameType::kContinuation) return Malformed("a CONTINUATION frame without its HEADERS");
  if (header.type == FrameType::kPushPromise) return Malformed("a client may not send PUSH_PROMISE");
  Http2Unit unit;
  unit.type = header.type;
  unit.flags = header.flags;
  unit.stream_id = header.stream_id;
  if (header.type == FrameType::kHeaders) {
    absl::StatusOr<bool> taken = TakeHeaders(unit);
    if (!taken.ok()) return taken.status();
    if (!*taken) return std::optional<Http2Unit>();
    return unit;
  }
  const size_t size = kFrameHeaderBytes + header.length;
  if (waiting().size() < size) return std::optional<Http2Unit>();
  if (header.type == FrameType::kPing && header.length != 8)
    return Malformed("a PING frame whose payload is not 8 bytes");
  unit.bytes = Take(size);
  return unit;
}

absl::StatusOr<bool> Http2Scanner::TakeHeaders(Http2Unit& unit) {
  std::string block;
  size_t end = 0;
  for (int num_frames = 0;; ++num_frames) {
    const std::string_view rest = waiting().substr(end);
    if (rest.size() < kFrameHeaderBytes) return false;
    const FrameHeader header = ReadFrameHeader(rest);
    if (num_frames > 0 && (header.type != FrameType::kContinuation || header.stream_id != unit.stream_id)) {
      return Malformed("a block of headers that another frame interrupts");
    }
    if (num_frames > kMaxContinuations || block.size() + header.length > kMaxHeaderBlockBytes) {
      return absl::ResourceExhaustedError(absl::StrCat("the headers of a call are more than ", kMaxHeaderBlockBytes,
                                                       " bytes or ", kMaxContinuations, " CONTINUATION frames"));
    }
    if (rest.size() < kFrameHeaderBytes + header.length) return false;
    std::string_view fragment = rest.substr(kFrameHeaderBytes, header.length);
    if (num_frames == 0) {
      absl::StatusOr<std::string_view> without_padding = FragmentOf(header, fragment);
      if (!without_padding.ok()) return without_padding.status();
      fragment = *without_padding;
    }
    block += fragment;
    end += kFrameHeaderBytes + header.length;
    if ((header.flags & kFlagEndHeaders) != 0) break;
  }
  if (unit.stream_id % 2 == 0) return Malformed("a call on a stream whose number is even");
  if (absl::Status status = Inflate(block, unit); !status.ok()) return status;
  // HEADERS on a stream that is already open are a call's trailers, not a new call.
  if (unit.stream_id > last_stream_id_) {
    unit.kind = Http2Unit::Kind::kCall;
    last_stream_id_ = unit.stream_id;
  }
  unit.bytes = Take(end);
  return true;
}

absl::Status Http2Scanner::Inflate(std::string_view block, Http2Unit& unit) {
  if (inflater_ == nullptr) {
    nghttp2_hd_inflater* inflater = nullptr;
    if (nghttp2_hd_inflate_new(&inflater) != 0) throw std::bad_alloc();
    inflater_.reset(inflater);
  }
  size_t list_bytes = 0;
  bool has_path = false;
  bool has_authorization = false;
  while (true) {
    nghttp2_nv field;
    int flags = 0;
    const auto* const next = reinterpret_cast<const uint8_t*>(block.data());
    const ssize_t used = nghttp2_hd_inflate_hd2(inflater_.get(), &field, &flags, next, block.size(), /*in_final=*/1);
    if (used < 0)
      return Malformed(absl::StrCat("headers that HPACK cannot unpack: ", nghttp2_strerror(static_cast<int>(used))));
    block.remove_prefix(static_cast<size_t>(used));
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
      list_bytes += field.namelen + field.valuelen + kFieldOverheadBytes;
      if (list_bytes > kMaxHeaderListBytes) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the headers of a call are more than ", kMaxHeaderListBytes, " bytes once unpacked"));
      }
      const std::string_view name(reinterpret_cast<const char*>(field.name), field.namelen);
      const std::string_view value(reinterpret_cast<const char*>(field.value), field.valuelen);
      if (name == ":path" && !std::exchange(has_path, true)) unit.path = std::string(value);
      if (name == "authorization" && !std::exchange(has_authorization, true)) unit.authorization = std::string(value);
    }
    if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) {
      nghttp2_hd_inflate_end_headers(inflater_.get());
      return absl::OkStatus();
    }
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0 && block.empty()) return Malformed("headers that end within a field");
  }
}

void Http2Scanner::Append(std::string_view bytes) {
  buffer_.erase(0, std::exchange(begin_, 0));
  buffer_ += bytes;
}

std::string Http2Scanner::Take(size_t num_bytes) {
  std::string taken(waiting().substr(0, num_bytes));
  begin_ += num_bytes;
  return taken;
}

std::string Http2Scanner::TakeRest() { return Take(waiting().size()); }

}  // namespace maxsim::gate
