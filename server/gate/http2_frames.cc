#include "server/gate/http2_frames.h"

#include "absl/strings/str_cat.h"

namespace maxsim::gate {
namespace {

void AppendBigEndian(uint32_t value, int num_bytes, std::string& out) {
  for (int shift = 8 * (num_bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>((value >> shift) & 0xff);
}

// Appends a string literal of HPACK (RFC 7541, 5.2), without Huffman coding.
void AppendLiteral(std::string_view text, std::string& out) {
  constexpr size_t kPrefixMax = 127;
  if (text.size() < kPrefixMax) {
    out += static_cast<char>(text.size());
  } else {
    out += static_cast<char>(kPrefixMax);
    size_t rest = text.size() - kPrefixMax;
    for (; rest >= 128; rest >>= 7) out += static_cast<char>((rest & 0x7f) | 0x80);
    out += static_cast<char>(rest);
  }
  out += text;
}

// Appends a header field that HPACK does not index (RFC 7541, 6.2.2).
void AppendField(std::string_view name, std::string_view value, std::string& out) {
  out += '\0';
  AppendLiteral(name, out);
  AppendLiteral(value, out);
}

// Returns the percent-encoding of gRPC's Status-Message.
std::string PercentEncoded(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x20 && byte <= 0x7e && letter != '%') {
      out += letter;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

}  // namespace

std::string Frame(FrameType type, uint8_t flags, uint32_t stream_id, std::string_view payload) {
  std::string out;
  out.reserve(kFrameHeaderBytes + payload.size());
  AppendBigEndian(static_cast<uint32_t>(payload.size()), 3, out);
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  AppendBigEndian(stream_id, 4, out);
  out += payload;
  return out;
}

std::string Settings(int max_concurrent_streams) {
  std::string payload;
  AppendBigEndian(kSettingsMaxConcurrentStreams, 2, payload);
  AppendBigEndian(static_cast<uint32_t>(max_concurrent_streams), 4, payload);
  return Frame(FrameType::kSettings, 0, 0, payload);
}

std::string PingAck(std::string_view payload) { return Frame(FrameType::kPing, kFlagAck, 0, payload); }

std::string WindowUpdate(uint32_t stream_id, uint32_t bytes) {
  std::string payload;
  AppendBigEndian(bytes, 4, payload);
  return Frame(FrameType::kWindowUpdate, 0, stream_id, payload);
}

std::string Goaway(uint32_t last_stream_id, ErrorCode code) {
  std::string payload;
  AppendBigEndian(last_stream_id, 4, payload);
  AppendBigEndian(static_cast<uint32_t>(code), 4, payload);
  return Frame(FrameType::kGoaway, 0, 0, payload);
}

std::string RefusedCall(uint32_t stream_id, const absl::Status& status) {
  constexpr char kStatus200 = '\x88';          // `:status: 200`, entry 8 of the static table
  constexpr char kContentType[] = "\x0f\x10";  // the name of entry 31, without indexing
  constexpr size_t kLongestMessage = 1024;     // so that all of it fits into one frame
  std::string block(1, kStatus200);
  block += kContentType;
  AppendLiteral("application/grpc", block);
  AppendField("grpc-status", absl::StrCat(static_cast<int>(status.code())), block);
  AppendField("grpc-message", PercentEncoded(std::string(status.message().substr(0, kLongestMessage))), block);
  std::string code;
  AppendBigEndian(static_cast<uint32_t>(ErrorCode::kNoError), 4, code);
  return absl::StrCat(Frame(FrameType::kHeaders, kFlagEndHeaders | kFlagEndStream, stream_id, block),
                      Frame(FrameType::kResetStream, 0, stream_id, code));
}

}  // namespace maxsim::gate
