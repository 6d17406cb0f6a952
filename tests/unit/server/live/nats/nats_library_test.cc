#include "server/live/stream/nats_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace maxsim::live::nats {
namespace {

using ::testing::HasSubstr;

TEST(NatsDelivery, IsReadFromTheSubjectsOfBothForms) {
  const auto plain = ParseDelivery("$JS.ACK.maxsim-docs.consumer.1.70.7.1700000000000000000.3");
  ASSERT_TRUE(plain.has_value());
  EXPECT_EQ(plain->sequence, 70u);
  EXPECT_EQ(plain->consumer_sequence, 7u);
  EXPECT_EQ(plain->stored_ns, 1'700'000'000'000'000'000u);
  EXPECT_EQ(plain->num_pending, 3u);
  const auto of_domain = ParseDelivery("$JS.ACK.hub.account.maxsim-docs.consumer.1.71.8.1700000000000000000.2.random");
  ASSERT_TRUE(of_domain.has_value());
  EXPECT_EQ(of_domain->sequence, 71u);
  EXPECT_EQ(of_domain->consumer_sequence, 8u);
  EXPECT_EQ(of_domain->num_pending, 2u);
}

TEST(NatsDelivery, IsNotReadFromAnythingElse) {
  for (const char* const subject : {"", "$JS", "$JS.ACK.s.c.1.70.7.17", "$JS.FC.s.c.1.70.7.17.3",
                                    "$JS.ACK.s.c.1.x.7.17.3", "$JS.ACK.s.c.1.70.-7.17.3", "$JS.ACK.s.c.1.70.7.x.3",
                                    "$JS.ACK.s.c.1.70.7.17.", "$JS.ACK.s.c.1.70.7.17.3.4", "a.b.c.d.e.f.g.h.i"}) {
    EXPECT_FALSE(ParseDelivery(subject).has_value()) << subject;
  }
}

TEST(NatsAcknowledgement, HasTheSequenceOfANewMessageAndOfOneThatWasThere) {
  EXPECT_EQ(ParseAcknowledgement(R"({"stream":"s","seq":12})", "NATS").value_or(0), 12u);
  EXPECT_EQ(ParseAcknowledgement(R"({"stream":"s","seq":12,"duplicate":true})", "NATS").value_or(0), 12u);
}

TEST(NatsAcknowledgement, SaysWhetherAMessageMayBeSentAgain) {
  const auto code = [](const std::string& error) {
    return ParseAcknowledgement("{\"error\":" + error + "}", "NATS").status().code();
  };
  EXPECT_EQ(code(R"({"code":503,"err_code":10077,"description":"maximum bytes exceeded"})"),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(R"({"code":503,"err_code":10008,"description":"system temporarily unavailable"})"),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(R"({"code":400,"err_code":10060,"description":"expected stream does not match"})"),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(R"({"code":"503","description":7})"), absl::StatusCode::kFailedPrecondition);
  const absl::Status status =
      ParseAcknowledgement(R"({"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}})", "NATS")
          .status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("maximum bytes exceeded"));
}

TEST(NatsAcknowledgement, OfAnyOtherBytesSaysNothingOfTheMessage) {
  for (const char* const data :
       {"", "{", "[]", "7", "{}", R"({"seq":0})", R"({"seq":-1})", R"({"seq":"7"})", R"({"error":"no"})", "\xff"}) {
    EXPECT_TRUE(absl::IsUnavailable(ParseAcknowledgement(data, "NATS").status())) << data;
  }
}

}  // namespace
}  // namespace maxsim::live::nats
