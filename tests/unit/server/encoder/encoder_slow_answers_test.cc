// Tests that a call fails if encoder.timeout passes while its answer is arriving, and that later calls work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>

#include "tests/unit/server/encoder/encoder_fixture.h"

namespace maxsim::encoder {
namespace {

using std::chrono::milliseconds;
using test::FakeCall;
using test::FakeEncoder;
using test::FakeReply;
using ::testing::HasSubstr;

struct SlowAnswer {
  const char* name;
  FakeReply reply;
};

std::vector<SlowAnswer> SlowAnswers() {
  const std::string long_header = "HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n";
  const std::string chunk = "400\r\n" + std::string(1024, 'x') + "\r\n";
  return {
      {"fast, up to the end of the connection",
       {.body = "HTTP/1.1 200 OK\r\n\r\n", .endless_piece = std::string(65536, 'x')}},
      {"fast, of a known length", {.body = long_header, .endless_piece = std::string(65536, 'x')}},
      {"slow", {.body = long_header, .endless_piece = std::string(1000, 'x'), .piece_delay = milliseconds(1)}},
      {"in chunks", {.body = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", .endless_piece = chunk}},
      {"within the header", {.body = "HTTP/1.1 200 OK\r\nA: ", .endless_piece = "a", .piece_delay = milliseconds(1)}},
      {"interim answers without an end",
       {.body = "HTTP/1.1 100 Continue\r\n\r\n", .endless_piece = "HTTP/1.1 103 Early Hints\r\n\r\n"}},
  };
}

void ExpectTimeoutsAndThenAnswers(const test::FakeCertificate* certificate) {
  for (const SlowAnswer& slow : SlowAnswers()) {
    SCOPED_TRACE(slow.name);
    std::atomic<bool> is_slow{true};
    FakeEncoder fake([&](const FakeCall& call) { return is_slow ? slow.reply : Right(call); }, certificate);
    HttpEncoderOptions options = OptionsFor(fake);
    options.timeout = absl::Milliseconds(40);
    options.breaker_failures = 0;
    options.max_answer_bytes = uint64_t{64} << 30;
    if (certificate != nullptr) {
      options.tls_ca_file = testing::TempDir() + "encoder_slow_ca.pem";
      std::ofstream(options.tls_ca_file) << certificate->certificate;
      options.tls_server_name = "encoder.test";
    }
    const auto encoder = MakeEncoder(options);
    for (int idx = 0; idx < 5; ++idx) {
      const absl::Status status = EncodeNow(*encoder, Queries({"one"})).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(status.message(), HasSubstr("no answer within 40ms"));
    }
    is_slow = false;
    options.timeout = absl::Seconds(20);
    ExpectMatrices(EncodeNow(*MakeEncoder(options), Queries({"one"})), {"one"});
  }
}

TEST(EncoderSlowAnswersTest, ATimeoutWhileAnAnswerArrivesFailsTheCallAlone) { ExpectTimeoutsAndThenAnswers(nullptr); }

TEST(EncoderSlowAnswersTest, ATimeoutWhileAnAnswerArrivesThroughTlsFailsTheCallAlone) {
  const test::FakeCertificate certificate = test::MakeCertificate();
  ExpectTimeoutsAndThenAnswers(&certificate);
}

TEST(EncoderSlowAnswersTest, AnEncoderThatIsDestroyedWhileAnAnswerArrivesEndsItsRequests) {
  for (const SlowAnswer& slow : SlowAnswers()) {
    SCOPED_TRACE(slow.name);
    FakeEncoder fake([&](const FakeCall&) { return slow.reply; });
    HttpEncoderOptions options = OptionsFor(fake);
    options.max_answer_bytes = uint64_t{64} << 30;
    auto encoder = MakeEncoder(options);
    PendingEncode pending(*encoder, Queries({"one"}));
    ASSERT_TRUE(fake.WaitForCalls(1));
    encoder.reset();
    EXPECT_EQ(pending.Wait().status().code(), absl::StatusCode::kUnavailable);
  }
}

}  // namespace
}  // namespace maxsim::encoder
