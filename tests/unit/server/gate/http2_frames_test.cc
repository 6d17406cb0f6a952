// Tests the HTTP/2 frames that the gate writes: nghttp2 must be able to read them.
#include "server/gate/http2_frames.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/support/connections/http2_client.h"

namespace maxsim::gate {
namespace {

// Holds what an nghttp2 client has read from the server on the stream of its first call.
struct Seen {
  std::map<std::string, std::string> headers;
  bool ended = false;
  int goaway_code = -1;
  ssize_t read = 0;
};

Seen ReadAsClient(const std::string& bytes) {
  Seen seen;
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_send_callback(
      callbacks, [](nghttp2_session*, const uint8_t*, size_t size, int, void*) { return static_cast<ssize_t>(size); });
  nghttp2_session_callbacks_set_on_header_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame*, const uint8_t* name, size_t name_size, const uint8_t* value,
                    size_t value_size, uint8_t, void* user) {
        static_cast<Seen*>(user)->headers[std::string(reinterpret_cast<const char*>(name), name_size)] =
            std::string(reinterpret_cast<const char*>(value), value_size);
        return 0;
      });
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks,
                                                       [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
                                                         auto* const of = static_cast<Seen*>(user);
                                                         if (frame->hd.type == NGHTTP2_HEADERS)
                                                           of->ended = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
                                                         if (frame->hd.type == NGHTTP2_GOAWAY)
                                                           of->goaway_code = static_cast<int>(frame->goaway.error_code);
                                                         return 0;
                                                       });
  nghttp2_session* session = nullptr;
  nghttp2_session_client_new(&session, callbacks, &seen);
  nghttp2_session_callbacks_del(callbacks);
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
  const Fields fields = CallHeaders("/a/b", "");
  std::vector<nghttp2_nv> list;
  for (const auto& [name, value] : fields) {
    list.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                    reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(), 0});
  }
  nghttp2_submit_request(session, nullptr, list.data(), list.size(), nullptr, nullptr);
  nghttp2_session_send(session);
  seen.read = nghttp2_session_mem_recv(session, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  nghttp2_session_del(session);
  return seen;
}

TEST(Http2FramesTest, ARefusedCallEndsWithItsStatus) {
  const absl::Status why = absl::UnauthenticatedError("no token: 100 % wrong\n");
  const std::string bytes = absl::StrCat(Settings(100), RefusedCall(1, why), Goaway(1, ErrorCode::kNoError));
  const Seen seen = ReadAsClient(bytes);
  EXPECT_EQ(seen.read, static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(seen.headers, (std::map<std::string, std::string>{{":status", "200"},
                                                              {"content-type", "application/grpc"},
                                                              {"grpc-status", "16"},
                                                              {"grpc-message", "no token: 100 %25 wrong%0A"}}));
  EXPECT_TRUE(seen.ended);
  EXPECT_EQ(seen.goaway_code, 0);
}

TEST(Http2FramesTest, ALongMessageIsCutToOneFrame) {
  const Seen seen = ReadAsClient(Settings(100) + RefusedCall(1, absl::UnauthenticatedError(std::string(5000, '\n'))));
  EXPECT_EQ(seen.headers.at("grpc-message").size(), 3u * 1024);
}

TEST(Http2FramesTest, SettingsAnnounceTheBoundOnStreams) {
  EXPECT_EQ(Settings(4096), Frame(FrameType::kSettings, 0, 0, std::string("\x00\x03\x00\x00\x10\x00", 6)));
}

TEST(Http2FramesTest, AcknowledgementsAndWindowsAreTaken) {
  const std::string bytes = absl::StrCat(Settings(100), PingAck("12345678"), WindowUpdate(0, 65535));
  EXPECT_EQ(ReadAsClient(bytes).read, static_cast<ssize_t>(bytes.size()));
}

}  // namespace
}  // namespace maxsim::gate
