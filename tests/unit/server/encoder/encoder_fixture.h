// Sends requests to an encoder and waits for the answers. Makes encoder options with short timeouts.
#pragma once

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/monotonic_clock.h"
#include "server/encoder/http_encoder.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"
#include "tests/support/connections/fake_encoder.h"
#include "tests/support/values/eventually.h"

namespace maxsim::encoder {

inline constexpr int kTestDim = 8;

using EncodeResult = absl::StatusOr<std::vector<EncodedText>>;

// While this object lives, the default logger writes to a string.
class LogText {
 public:
  LogText() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_)));
  }
  ~LogText() { spdlog::set_default_logger(before_); }
  std::string text() const { return stream_.str(); }

 private:
  std::ostringstream stream_;
  std::shared_ptr<spdlog::logger> before_;
};

// A request in progress.
class PendingEncode {
 public:
  PendingEncode(Encoder& encoder, EncodeRequest request) {
    auto promise = std::make_shared<std::promise<EncodeResult>>();
    result_ = promise->get_future();
    // A second call of `done` would throw.
    cancellation_ =
        encoder.Encode(std::move(request), [promise](EncodeResult result) { promise->set_value(std::move(result)); });
  }

  EncodeResult Wait() {
    if (result_.wait_for(test::kTestLimit) != std::future_status::ready) {
      return absl::UnknownError("the test waited for kTestLimit");
    }
    return result_.get();
  }
  bool IsOver() { return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  void Cancel() { cancellation_->Cancel(); }

 private:
  std::future<EncodeResult> result_;
  std::shared_ptr<Cancellation> cancellation_;
};

inline EncodeRequest Queries(std::vector<std::string> texts) { return {.texts = std::move(texts)}; }
inline EncodeRequest Documents(std::vector<std::string> texts) {
  return {.kind = TextKind::kDocument, .texts = std::move(texts)};
}
inline EncodeRequest Within(absl::Duration time, EncodeRequest request) {
  request.deadline = MonotonicNow() + time;
  return request;
}

inline EncodeResult EncodeNow(Encoder& encoder, EncodeRequest request) {
  return PendingEncode(encoder, std::move(request)).Wait();
}

inline HttpEncoderOptions OptionsFor(const test::FakeEncoder& fake) {
  HttpEncoderOptions options;
  options.url = fake.url();
  options.dialect = Dialect::kVllm;
  options.identity.model = "model";
  options.identity.dim = kTestDim;
  options.window = absl::ZeroDuration();
  options.timeout = absl::Hours(1);
  return options;
}

inline std::unique_ptr<HttpEncoder> MakeEncoder(HttpEncoderOptions options, Metrics* metrics = nullptr) {
  auto encoder = HttpEncoder::Create(std::move(options), metrics);
  EXPECT_TRUE(encoder.ok()) << encoder.status();
  return encoder.ok() ? *std::move(encoder) : nullptr;
}

inline test::FakeReply Right(const test::FakeCall& call) {
  return {.body = test::AnswerObjects(test::TextsOf(call), kTestDim, "data")};
}

inline void ExpectMatrices(const EncodeResult& result, const std::vector<std::string>& texts) {
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->size(), texts.size());
  for (size_t idx = 0; idx < texts.size(); ++idx) {
    EXPECT_EQ((*result)[idx].values, test::MatrixOf(texts[idx], kTestDim)) << texts[idx];
  }
}

}  // namespace maxsim::encoder
