// Makes the bytes that an HTTP/2 client sends, frame by frame, for tests that send correct or incorrect frames.
#pragma once

#include <nghttp2/nghttp2.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/gate/http2_frames.h"

namespace maxsim::gate {

using Fields = std::vector<std::pair<std::string, std::string>>;

// Packs headers as a client does, with HPACK's dynamic table.
class Packer {
 public:
  Packer() { nghttp2_hd_deflate_new(&deflater_, 4096); }
  ~Packer() { nghttp2_hd_deflate_del(deflater_); }
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  std::string Pack(const Fields& fields) {
    std::vector<nghttp2_nv> list;
    for (const auto& [name, value] : fields) {
      list.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                      reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
                      NGHTTP2_NV_FLAG_NONE});
    }
    std::string block(nghttp2_hd_deflate_bound(deflater_, list.data(), list.size()), '\0');
    const ssize_t size = nghttp2_hd_deflate_hd(deflater_, reinterpret_cast<uint8_t*>(block.data()), block.size(),
                                               list.data(), list.size());
    block.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return block;
  }

 private:
  nghttp2_hd_deflater* deflater_ = nullptr;
};

// Returns the HTTP/2 headers of a gRPC call. If `authorization` is empty, there is no `authorization` header.
inline Fields CallHeaders(const std::string& path, const std::string& authorization) {
  Fields fields = {{":method", "POST"}, {":scheme", "http"}, {":path", path},
                   {":authority", "a"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
  if (!authorization.empty()) fields.emplace_back("authorization", authorization);
  return fields;
}

// Returns the HEADERS frame that opens a stream.
inline std::string Call(Packer& packer, uint32_t stream_id, const std::string& path, const std::string& authorization) {
  return Frame(FrameType::kHeaders, kFlagEndHeaders, stream_id, packer.Pack(CallHeaders(path, authorization)));
}

// Returns the DATA frame that holds a whole gRPC message and ends the stream.
inline std::string Message(uint32_t stream_id, std::string_view message) {
  std::string payload(5, '\0');
  for (int i = 0; i < 4; ++i) payload[1 + i] = static_cast<char>((message.size() >> (24 - 8 * i)) & 0xff);
  payload += message;
  return Frame(FrameType::kData, kFlagEndStream, stream_id, payload);
}

}  // namespace maxsim::gate
