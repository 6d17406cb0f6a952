#include "collection/encoder_identity.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(std::string_view json) {
  EncoderIdentity identity;
  return std::string(ParseEncoderIdentity(json, "e.json", &identity).message());
}

TEST(EncoderIdentityTest, EveryMemberIsRead) {
  EncoderIdentity identity;
  const absl::Status status = ParseEncoderIdentity(
      R"({"model":"m","fingerprint":"f","dim":96,"query_prefix":"q","document_prefix":"d","query_length":32,
          "document_length":180,"query_expansion":true})",
      "e.json", &identity);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(identity, (EncoderIdentity{.model = "m",
                                       .fingerprint = "f",
                                       .dim = 96,
                                       .query_prefix = "q",
                                       .document_prefix = "d",
                                       .query_length = 32,
                                       .document_length = 180,
                                       .query_expansion = true}));
}

TEST(EncoderIdentityTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("e.json: an object expected"));
  EXPECT_THAT(ErrorOf("3"), HasSubstr("an object expected"));
  EXPECT_THAT(ErrorOf("{"), HasSubstr("malformed JSON"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("key \"model\" is missing"));
  EXPECT_THAT(ErrorOf(R"({"model":"m"})"), HasSubstr("key \"dim\" is missing"));
  EXPECT_THAT(ErrorOf(R"({"model":"m","dim":0})"), HasSubstr("dim: 0"));
  EXPECT_THAT(ErrorOf(R"({"model":"m","dim":5000})"), HasSubstr("dim: 5000 is not in 1 .. 4096"));
  EXPECT_THAT(ErrorOf(R"({"model":3})"), HasSubstr("model: a string expected"));
  EXPECT_THAT(ErrorOf(R"({"dim":"3"})"), HasSubstr("dim: an integer expected"));
  EXPECT_THAT(ErrorOf(R"({"query_expansion":1})"), HasSubstr("query_expansion: true or false expected"));
  EXPECT_THAT(ErrorOf(R"({"modle":"m"})"), HasSubstr("unknown key \"modle\""));
  EXPECT_THAT(ErrorOf(R"({"model":"m","model":"m"})"), HasSubstr("appears twice"));
  EXPECT_THAT(ErrorOf(R"({"model":{}})"), HasSubstr("nested"));
}

TEST(EncoderIdentityTest, EqualFingerprintsAreTheSameEncoder) {
  EXPECT_TRUE(CheckSameEncoder({.model = "a", .fingerprint = "f"}, {.model = "b", .fingerprint = "f"}).ok());
  EXPECT_TRUE(CheckSameEncoder({}, {.model = "b", .fingerprint = "f", .dim = 8}).ok());
  EXPECT_TRUE(CheckSameEncoder({.model = "a", .dim = 8}, {.model = "a", .fingerprint = "f"}).ok());
}

TEST(EncoderIdentityTest, AMismatchNamesBoth) {
  const absl::Status status =
      CheckSameEncoder({.model = "one", .fingerprint = "f1"}, {.model = "two", .fingerprint = "f2"});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("one (fingerprint f1)"), HasSubstr("two (fingerprint f2)")));
  EXPECT_FALSE(CheckSameEncoder({.model = "one"}, {.model = "two", .fingerprint = "f"}).ok());
  EXPECT_FALSE(CheckSameEncoder({.model = "a", .dim = 8}, {.model = "a", .dim = 16}).ok());
  EXPECT_FALSE(CheckSameEncoder({.model = "a", .query_prefix = "x"}, {.model = "a", .query_prefix = "y"}).ok());
  EXPECT_FALSE(CheckSameEncoder({.model = "a", .document_prefix = "x"}, {.model = "a", .document_prefix = "y"}).ok());
}

}  // namespace
}  // namespace maxsim::collection
