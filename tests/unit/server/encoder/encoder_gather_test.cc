// Tests which texts share a call to the encoder, and how many may wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/server/encoder/encoder_fixture.h"

namespace maxsim::encoder {
namespace {

using std::chrono::milliseconds;
using test::FakeCall;
using test::FakeEncoder;
using test::FakeReply;
using ::testing::HasSubstr;

TEST(EncoderGatherTest, TextsOfOneWindowAndKindGoTogether) {
  FakeEncoder fake(Right);
  HttpEncoderOptions options = OptionsFor(fake);
  // Long enough that only full calls are sent.
  options.window = absl::Hours(1);
  options.max_batch_texts = 3;
  const auto encoder = MakeEncoder(options);
  PendingEncode one(*encoder, Queries({"one"}));
  PendingEncode documents(*encoder, Documents({"a document", "a second"}));
  PendingEncode two(*encoder, Queries({"two words", "and more"}));
  PendingEncode document(*encoder, Documents({"a third"}));
  ExpectMatrices(one.Wait(), {"one"});
  ExpectMatrices(two.Wait(), {"two words", "and more"});
  ExpectMatrices(documents.Wait(), {"a document", "a second"});
  ExpectMatrices(document.Wait(), {"a third"});
  EXPECT_EQ(fake.num_calls(), 2);
}

TEST(EncoderGatherTest, ACallIsInTheTraceOfTheFirstSampledRequest) {
  FakeEncoder fake(Right);
  HttpEncoderOptions options = OptionsFor(fake);
  // Long enough that only full calls are sent.
  options.window = absl::Hours(1);
  options.max_batch_texts = 4;
  const auto encoder = MakeEncoder(options);
  const auto traced = [](const std::string& text, const std::string& parent, size_t num_texts = 1) {
    EncodeRequest request = Queries(std::vector<std::string>(num_texts, text));
    request.trace = {.traceparent = parent, .tracestate = parent.empty() ? "" : "of=" + text};
    return request;
  };
  {
    PendingEncode none(*encoder, traced("none", ""));
    PendingEncode unsampled(*encoder, traced("unsampled", "00-a-b-00"));
    PendingEncode first(*encoder, traced("first", "00-c-d-01"));
    PendingEncode second(*encoder, traced("second", "00-e-f-01"));
    for (PendingEncode* one : {&none, &unsampled, &first, &second}) EXPECT_TRUE(one->Wait().ok());
  }
  EXPECT_TRUE(EncodeNow(*encoder, traced("alone", "00-a-b-00", 4)).ok());
  EXPECT_TRUE(EncodeNow(*encoder, traced("untraced", "", 4)).ok());
  const std::vector<FakeCall> calls = fake.calls();
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].traceparent, "00-c-d-01");
  EXPECT_EQ(calls[0].tracestate, "of=first");
  EXPECT_EQ(calls[1].traceparent, "00-a-b-00");
  EXPECT_EQ(calls[2].traceparent, "");
  EXPECT_EQ(calls[2].tracestate, "");
}

TEST(EncoderGatherTest, AFullCallDoesNotWaitForItsWindow) {
  FakeEncoder fake(Right);
  HttpEncoderOptions options = OptionsFor(fake);
  options.window = absl::Hours(1);
  options.max_batch_texts = 2;
  const auto encoder = MakeEncoder(options);
  PendingEncode one(*encoder, Queries({"one"}));
  PendingEncode two(*encoder, Queries({"two"}));
  ExpectMatrices(one.Wait(), {"one"});
  ExpectMatrices(two.Wait(), {"two"});
}

TEST(EncoderGatherTest, ALongRequestIsCutIntoCallsAndPutTogether) {
  FakeEncoder fake(Right);
  HttpEncoderOptions options = OptionsFor(fake);
  options.max_batch_texts = 7;
  const auto encoder = MakeEncoder(options);
  std::vector<std::string> texts;
  for (int idx = 0; idx < 50; ++idx) texts.push_back(absl::StrCat("text ", std::string(static_cast<size_t>(idx), 'x')));
  ExpectMatrices(EncodeNow(*encoder, Documents(texts)), texts);
  EXPECT_EQ(fake.num_calls(), 8);
  for (const FakeCall& call : fake.calls()) EXPECT_LE(test::TextsOf(call).size(), 7u);
}

TEST(EncoderGatherTest, AQueryDoesNotWaitForAllOfALongRequest) {
  // The encoder answers the first call only after the other requests have been queued.
  std::promise<void> open;
  FakeEncoder fake([opened = open.get_future().share()](const FakeCall& call) {
    opened.wait();
    return Right(call);
  });
  HttpEncoderOptions options = OptionsFor(fake);
  options.max_batch_texts = 1;
  options.connections = 1;
  const auto encoder = MakeEncoder(options);
  PendingEncode documents(*encoder, Documents(std::vector<std::string>(40, "a")));
  ASSERT_TRUE(fake.WaitForCalls(1));
  PendingEncode query(*encoder, Queries({"q"}));
  PendingEncode document(*encoder, Documents({"short"}));
  open.set_value();
  ExpectMatrices(query.Wait(), {"q"});
  ExpectMatrices(document.Wait(), {"short"});
  EXPECT_TRUE(documents.Wait().ok());
  const std::vector<FakeCall> calls = fake.calls();
  ASSERT_EQ(calls.size(), 42u);
  const auto sent = [&](const std::string& text) {
    const auto of_text = [&](const FakeCall& call) { return test::TextsOf(call) == std::vector<std::string>{text}; };
    return std::find_if(calls.begin(), calls.end(), of_text) - calls.begin();
  };
  EXPECT_LE(sent("q"), 3);
  EXPECT_LE(sent("short"), 3);
}

TEST(EncoderGatherTest, NoMoreCallsThanConnectionsRunAtATime) {
  FakeEncoder fake([](const FakeCall& call) {
    FakeReply reply = Right(call);
    reply.delay = milliseconds(5);
    return reply;
  });
  HttpEncoderOptions options = OptionsFor(fake);
  options.max_batch_texts = 1;
  options.connections = 3;
  const auto encoder = MakeEncoder(options);
  std::vector<PendingEncode> pending;
  for (int idx = 0; idx < 30; ++idx) pending.emplace_back(*encoder, Queries({absl::StrCat("q", idx)}));
  for (int idx = 0; idx < 30; ++idx) ExpectMatrices(pending[static_cast<size_t>(idx)].Wait(), {absl::StrCat("q", idx)});
  EXPECT_LE(fake.max_concurrent_calls(), 3);
  EXPECT_LE(fake.num_connections(), 3);
}

TEST(EncoderGatherTest, OnlyTheGuiltyRequestOfACallFails) {
  for (const int status : {400, 413, 422}) {
    FakeEncoder fake([status](const FakeCall& call) {
      for (const std::string& text : test::TextsOf(call)) {
        if (text == "bad") return FakeReply{.status = status, .body = "{\"error\":{\"message\":\"too\\u0007 long\"}}"};
      }
      return Right(call);
    });
    HttpEncoderOptions options = OptionsFor(fake);
    options.window = absl::Hours(1);
    options.max_batch_texts = 4;  // the number of texts in the three requests
    const auto encoder = MakeEncoder(options);
    PendingEncode good(*encoder, Queries({"one", "two"}));
    PendingEncode bad(*encoder, Queries({"bad"}));
    PendingEncode better(*encoder, Queries({"three"}));
    ExpectMatrices(good.Wait(), {"one", "two"});
    ExpectMatrices(better.Wait(), {"three"});
    const absl::Status refused = bad.Wait().status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat("refuses the text: status ", status)));
    EXPECT_EQ(fake.num_calls(), 4);
  }
}

TEST(EncoderGatherTest, TheQueueIsBoundedInTextsAndBytes) {
  FakeEncoder fake([](const FakeCall& call) { return FakeReply{.delay = std::chrono::hours(1)}; });
  HttpEncoderOptions options = OptionsFor(fake);
  options.connections = 1;
  options.max_batch_texts = 1;
  options.queue_texts = 3;
  options.queue_bytes = 100;
  const auto encoder = MakeEncoder(options);
  PendingEncode sent(*encoder, Queries({"one"}));
  ASSERT_TRUE(fake.WaitForCalls(1));
  PendingEncode queued(*encoder, Queries({"a", "b", "c"}));
  const absl::Status texts = EncodeNow(*encoder, Queries({"d"})).status();
  EXPECT_EQ(texts.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(texts.message(), HasSubstr("3 wait, the limit is 3 (encoder.queue_texts)"));
  queued.Cancel();
  EXPECT_EQ(queued.Wait().status().code(), absl::StatusCode::kCancelled);
  const absl::Status bytes = EncodeNow(*encoder, Queries({std::string(98, 'x')})).status();
  EXPECT_EQ(bytes.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(bytes.message(), HasSubstr("3 are there, the limit is 100 (encoder.queue_bytes)"));
  // Both bounds have room again.
  PendingEncode again(*encoder, Queries({std::string(97, 'x')}));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_FALSE(again.IsOver());
}

TEST(EncoderGatherTest, ManyThreadsEncodeAndCancelAtOnce) {
  FakeEncoder fake([](const FakeCall& call) {
    FakeReply reply = Right(call);
    reply.closes = call.number % 7 == 3;
    reply.closes_unanswered = call.number % 11 == 5;
    return reply;
  });
  HttpEncoderOptions options = OptionsFor(fake);
  options.window = absl::Milliseconds(1);
  options.max_batch_texts = 5;
  options.breaker_failures = 0;
  const auto encoder = MakeEncoder(options);
  std::vector<std::thread> threads;
  std::atomic<int> num_right{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int idx = 0; idx < 50; ++idx) {
        const std::vector<std::string> texts = {absl::StrCat("t", thread), absl::StrCat("number ", idx)};
        PendingEncode pending(*encoder, idx % 2 == 0 ? Queries(texts) : Documents(texts));
        if (idx % 5 == 0) pending.Cancel();
        const EncodeResult result = pending.Wait();
        if (result.ok()) {
          ExpectMatrices(result, texts);
          ++num_right;
        } else {
          EXPECT_TRUE(absl::IsCancelled(result.status()) || absl::IsUnavailable(result.status())) << result.status();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(num_right, 50);
}

}  // namespace
}  // namespace maxsim::encoder
