#include "client/error_details.h"

#include <cstdint>
#include <string>

#include "client/status.h"
#include "gtest/gtest.h"

namespace maxsim::client {
namespace {

TEST(ErrorDetailsTest, AFieldErrorHasFieldAndProblemInItsMessage) {
  const absl::Status status = InvalidField("queries[3].text", "is empty");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "queries[3].text: is empty");
  EXPECT_EQ(FieldOf(status), "queries[3].text");
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
  EXPECT_EQ(LimitOf(status), std::nullopt);
  EXPECT_EQ(LimitKeyOf(status), "");
}

TEST(ErrorDetailsTest, ALimitIsANumberWithTheKeyThatSetsIt) {
  const absl::Status set = InvalidField("top_k", "is 65", {64, 65, "limits.max_top_k"});
  EXPECT_EQ(ReasonOf(set), "LIMIT_EXCEEDED");
  EXPECT_EQ(LimitOf(set), 64u);
  EXPECT_EQ(LimitKeyOf(set), "limits.max_top_k");
  const absl::Status constant = InvalidField("ids", "has too many", {UINT64_MAX, size_t{1}});
  EXPECT_EQ(LimitOf(constant), UINT64_MAX);
  EXPECT_EQ(LimitKeyOf(constant), "");
}

TEST(ErrorDetailsTest, AFailedDeleteHasTheNumberOfItsDeletedDocuments) {
  absl::Status status = absl::UnavailableError("gone");
  SetNothingWritten(status);
  EXPECT_EQ(NumDeletedOf(status), std::nullopt);
  SetPartlyDeleted(100'000'000'000, status);
  EXPECT_EQ(ReasonOf(status), "PARTLY_DELETED");
  EXPECT_EQ(NumDeletedOf(status), 100'000'000'000u);
  EXPECT_EQ(LimitOf(status), std::nullopt);
  EXPECT_EQ(NumDeletedOf(FromGrpcStatus(ToGrpcStatus(status))), 100'000'000'000u);
  SetReason(kReasonNothingWritten, status);
  EXPECT_EQ(NumDeletedOf(status), std::nullopt);
}

TEST(ErrorDetailsTest, AStatusWithoutDetailsHasNone) {
  for (const absl::Status& status : {absl::OkStatus(), absl::InvalidArgumentError("top_k: is 0")}) {
    EXPECT_EQ(FieldOf(status), "");
    EXPECT_EQ(ReasonOf(status), "");
    EXPECT_EQ(LimitOf(status), std::nullopt);
  }
}

TEST(ErrorDetailsTest, MalformedDetailsAndThoseOfOthersAreNone) {
  absl::Status status = InvalidField("top_k", "is 65", {64, 65});
  status.SetPayload(kBadRequestTypeUrl, absl::Cord("\xff"));
  EXPECT_EQ(FieldOf(status), "");
  status.SetPayload(kBadRequestTypeUrl, absl::Cord(""));
  EXPECT_EQ(FieldOf(status), "");
  status.SetPayload(kErrorInfoTypeUrl, absl::Cord("\xff"));
  EXPECT_EQ(ReasonOf(status), "");
  EXPECT_EQ(LimitOf(status), std::nullopt);
  status.SetPayload(kErrorInfoTypeUrl, absl::Cord("\x0a\x01R\x12\x01x"));  // the reason R in the domain x
  EXPECT_EQ(ReasonOf(status), "");
  status.SetPayload(kErrorInfoTypeUrl, absl::Cord("\x0a\x01R\x12\x06maxsim"));
  EXPECT_EQ(ReasonOf(status), "R");
  EXPECT_EQ(LimitOf(status), std::nullopt);
}

TEST(ErrorDetailsTest, ALimitThatIsNoNumberIsNone) {
  for (const std::string limit : {"", "-1", "1e3", "18446744073709551616", " 1"}) {
    absl::Status status = absl::InvalidArgumentError("x");
    const std::string entry = std::string("\x0a\x05limit\x12") + static_cast<char>(limit.size()) + limit;
    status.SetPayload(kErrorInfoTypeUrl,
                      absl::Cord(std::string("\x12\x06maxsim\x1a") + static_cast<char>(entry.size()) + entry));
    EXPECT_EQ(LimitOf(status), std::nullopt) << limit;
  }
}

TEST(ErrorDetailsTest, AnotherFieldChangesTheMessageAndNothingElse) {
  absl::Status status = InvalidField("queries[0].tokens.dim", "is queries[0].tokens.dim: 3", {2, 3, "k"});
  SetRetryAfter(absl::Seconds(2), status);
  const absl::Status renamed = WithField(status, "query.shape[1]");
  EXPECT_EQ(renamed.code(), status.code());
  EXPECT_EQ(renamed.message(), "query.shape[1]: is queries[0].tokens.dim: 3");
  EXPECT_EQ(FieldOf(renamed), "query.shape[1]");
  EXPECT_EQ(LimitOf(renamed), 2u);
  EXPECT_EQ(RetryAfter(renamed), absl::Seconds(2));
  EXPECT_EQ(WithField(renamed, "queries[0].tokens.dim"), status);
}

TEST(ErrorDetailsTest, AnErrorWithoutAFieldGetsOneBeforeItsMessage) {
  const absl::Status status = WithField(absl::ResourceExhaustedError("the engine's max_dim is 3"), "queries[2]");
  EXPECT_EQ(status.message(), "queries[2]: the engine's max_dim is 3");
  EXPECT_EQ(FieldOf(status), "queries[2]");
  EXPECT_EQ(WithField(status, "queries[5]").message(), "queries[5]: the engine's max_dim is 3");
}

TEST(ErrorDetailsTest, MoreTextOutlivesAnotherField) {
  const absl::Status added = WithAddition(InvalidField("documents[0]", "is empty"), " (group g1)");
  EXPECT_EQ(added.message(), "documents[0]: is empty (group g1)");
  EXPECT_EQ(WithField(added, "documents[3]").message(), "documents[3]: is empty (group g1)");
  EXPECT_EQ(WithAddition(absl::InternalError("a fault"), "!"), absl::InternalError("a fault!"));
}

TEST(ErrorDetailsTest, DetailsTravelOverGrpc) {
  const absl::Status sent = InvalidField("top_k", "is 65", {64, 65, "limits.max_top_k"});
  EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(sent)), sent);
}

// These are the bytes of google.rpc.BadRequest{field_violations: [{field: "f", description: "p"}]} and of
// google.rpc.ErrorInfo{reason: "R", domain: "maxsim"}. They are written by hand: with bytes from the product's own
// writer, the test would miss a mistake that its reader and writer share.
TEST(ErrorDetailsTest, TheBytesAreThoseOfGoogleRpc) {
  const absl::Status status = FieldError(absl::StatusCode::kNotFound, "R", "f", "p");
  EXPECT_EQ(status.GetPayload(kBadRequestTypeUrl), absl::Cord("\x0a\x06\x0a\x01"
                                                              "f\x12\x01p"));
  EXPECT_EQ(status.GetPayload(kErrorInfoTypeUrl), absl::Cord("\x0a\x01R\x12\x06maxsim"));
}

}  // namespace
}  // namespace maxsim::client
