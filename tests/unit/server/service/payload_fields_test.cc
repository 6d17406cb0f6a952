#include "server/service/request/payload_fields.h"

#include <gtest/gtest.h>

namespace maxsim::service {
namespace {

TEST(PayloadFieldsTest, MembersKeepTheirOrderAndSpelling) {
  const std::string payload = R"({"title":"a,b}\"","n":1E2,"list":[{"title":1},"]"],"big":12345678901234567890123})";
  EXPECT_EQ(SelectFields(payload, {"big", "title"}), R"({"title":"a,b}\"","big":12345678901234567890123})");
  EXPECT_EQ(SelectFields(payload, {"list"}), R"({"list":[{"title":1},"]"]})");
  EXPECT_EQ(SelectFields(payload, {"n", "none"}), R"({"n":1E2})");
  EXPECT_EQ(SelectFields(payload, {"none"}), "{}");
}

TEST(PayloadFieldsTest, WhiteSpaceAndEscapesInNamesAreRead) {
  EXPECT_EQ(SelectFields("{ \"a\" : 1 ,\n \"b\" : [ 2 , 3 ] }", {"b"}), "{\"b\" : [ 2 , 3 ]}");
  EXPECT_EQ(SelectFields(R"({"\u0061":1,"b":2})", {"a"}), R"({"\u0061":1})");
  EXPECT_EQ(SelectFields(R"({"a":1,"a":2,"b":3})", {"a"}), R"({"a":1,"a":2})");
  EXPECT_EQ(SelectFields("{}", {"a"}), "{}");
}

TEST(PayloadFieldsTest, WhatIsNoObjectComesBackAsItIs) {
  for (const char* payload : {"", "[1]", "text", "{\"a\":", "{\"a\":1"})
    EXPECT_EQ(SelectFields(payload, {"a"}), payload);
}

}  // namespace
}  // namespace maxsim::service
