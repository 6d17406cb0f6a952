// Tests that whatever a collector answers is handled.
#include "server/tracing/collector_answer.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace maxsim::tracing {
namespace {

TEST(CollectorAnswerTest, AMessageIsPrintableAndShort) {
  const absl::Status status = CollectorStatus({grpc::StatusCode::INTERNAL, "a\x1b[2J\n" + std::string(1000, 'x')});
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_LE(status.message().size(), kMaxCollectorErrorBytes);
  EXPECT_EQ(std::string(status.message()).find('\x1b'), std::string::npos);
}

TEST(CollectorAnswerTest, AnUnknownCodeIsAnError) {
  EXPECT_TRUE(absl::IsUnknown(CollectorStatus({static_cast<grpc::StatusCode>(31), "odd"})));
  EXPECT_TRUE(absl::IsUnknown(CollectorStatus({static_cast<grpc::StatusCode>(-5), "odd"})));
}

TEST(CollectorAnswerTest, NoMoreSpansAreRefusedThanWereSent) {
  opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse response;
  EXPECT_EQ(NumRefused(response, 10), 0);
  response.mutable_partial_success()->set_rejected_spans(3);
  EXPECT_EQ(NumRefused(response, 10), 3);
  response.mutable_partial_success()->set_rejected_spans(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(NumRefused(response, 10), 10);
  response.mutable_partial_success()->set_rejected_spans(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(NumRefused(response, 10), 0);
}

}  // namespace
}  // namespace maxsim::tracing
