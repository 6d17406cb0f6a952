// Tests which values FieldReader reads from payloads.
#include "collection/fields/field_reader.h"

#include <string>
#include <vector>

#include "collection/fields/time_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

class FieldReaderTest : public ::testing::Test {
 protected:
  std::vector<FieldValue> Read(const std::string& payload) {
    const auto values = reader_.Read(payload);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? **values : std::vector<FieldValue>();
  }
  std::string Refusal(const std::string& payload) {
    const auto values = reader_.Read(payload);
    if (values.ok()) return "(accepted)";
    EXPECT_TRUE(absl::IsInvalidArgument(values.status()));
    return std::string(values.status().message());
  }

  const std::vector<Field> fields_ = *ParseFields(
      "lang:keyword=meta.lang,tags:keywords=meta.tags,year:integer,real:number=year,price:number,sold:boolean,at:time");
  FieldReader reader_{fields_};
};

TEST_F(FieldReaderTest, EveryKindIsRead) {
  const std::vector<FieldValue> values =
      Read(R"({"x": [1, {"year": 3}], "year": 2020, "meta": {"tags": ["b", "a", "b"], "lang": "en", "y": {"lang": 1}},)"
           R"("price": -0.0, "sold": false, "at": "2026-01-02T03:04:05Z", "z": null})");
  ASSERT_EQ(values.size(), 7);
  EXPECT_EQ(std::get<std::string>(values[0]), "en");
  EXPECT_EQ(std::get<std::vector<std::string>>(values[1]), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(std::get<int64_t>(values[2]), 2020);
  EXPECT_EQ(std::get<double>(values[3]), 2020);
  EXPECT_EQ(std::get<double>(values[4]), 0);
  EXPECT_FALSE(std::signbit(std::get<double>(values[4])));
  EXPECT_FALSE(std::get<bool>(values[5]));
  EXPECT_EQ(std::get<int64_t>(values[6]), *ParseTime("2026-01-02T03:04:05Z"));
}

TEST_F(FieldReaderTest, WhatIsMissingNullOrAnEmptyListIsNoValue) {
  for (const char* const payload :
       {"", "{}", R"({"meta": null, "year": null, "price": null, "sold": null, "at": null})",
        R"({"meta": {"lang": null, "tags": []}, "other": [[{"year": 1}]]})", R"({"meta": {"x": {"lang": "en"}}})"}) {
    for (const FieldValue& value : Read(payload)) EXPECT_EQ(value, FieldValue()) << payload;
  }
}

TEST_F(FieldReaderTest, AReaderForgetsTheDocumentBefore) {
  Read(R"({"meta": {"lang": "en", "tags": ["a"]}, "sold": true})");
  EXPECT_EQ(Refusal(R"({"meta": {"lang": "en", "tags": ["b", 1]}})").substr(0, 12), "field \"tags\"");
  const std::vector<FieldValue> values = Read(R"({"meta": {"tags": ["c"]}})");
  EXPECT_EQ(values[0], FieldValue());
  EXPECT_EQ(std::get<std::vector<std::string>>(values[1]), (std::vector<std::string>{"c"}));
  EXPECT_EQ(values[5], FieldValue());
}

TEST_F(FieldReaderTest, ValuesThatDoNotFitAreRefusedWithFieldAndValue) {
  EXPECT_EQ(Refusal(R"({"meta": {"lang": 7}})"), "field \"lang\": the value is 7; must be a string");
  EXPECT_EQ(Refusal(R"({"meta": {"lang": ["en"]}})"), "field \"lang\": the value is a list; must be a string");
  EXPECT_EQ(Refusal(R"({"meta": {"lang": {}}})"), "field \"lang\": the value is an object; must be a string");
  EXPECT_EQ(Refusal(R"({"meta": "en"})"),
            "field \"lang\": the member \"meta\" of the path \"meta.lang\" is \"en\"; must be an object");
  EXPECT_EQ(Refusal(R"({"meta": [1]})"),
            "field \"lang\": the member \"meta\" of the path \"meta.lang\" is a list; must be an object");
  EXPECT_EQ(Refusal(R"({"meta": {"tags": "a"}})"), "field \"tags\": the value is \"a\"; must be a list of strings");
  EXPECT_EQ(Refusal(R"({"meta": {"tags": ["a", null]}})"),
            "field \"tags\": an element of the list is null; must be a string");
  EXPECT_EQ(Refusal(R"({"meta": {"tags": [["a"]]}})"),
            "field \"tags\": an element of the list is a list; must be a string");
  EXPECT_EQ(Refusal(R"({"meta": {"tags": [{}]}})"),
            "field \"tags\": an element of the list is an object; must be a string");
  EXPECT_EQ(Refusal(R"({"year": "2020"})"), "field \"year\": the value is \"2020\"; must be an integer of 64 bits");
  EXPECT_EQ(Refusal(R"({"year": 2020.0})"),
            "field \"year\": the value is the number 2020; must be an integer of 64 bits");
  EXPECT_EQ(Refusal(R"({"year": 9223372036854775808})"),
            "field \"year\": the value is 9223372036854775808; must be an integer of 64 bits");
  EXPECT_EQ(Refusal(R"({"price": true})"), "field \"price\": the value is true; must be a number");
  EXPECT_EQ(Refusal(R"({"sold": 1})"), "field \"sold\": the value is 1; must be true or false");
  EXPECT_THAT(Refusal(R"({"at": "2026-01-02"})"),
              HasSubstr("field \"at\": the value is \"2026-01-02\"; must be a time of RFC 3339"));
}

TEST_F(FieldReaderTest, LimitsAreNamed) {
  const std::string longest(512, 'x');
  EXPECT_EQ(Refusal(R"({"meta": {"lang": ")" + longest + R"(", "tags": [")" + longest + "\"]}}"), "(accepted)");
  EXPECT_THAT(Refusal(R"({"meta": {"lang": "y)" + longest + "\"}}"), HasSubstr("has 513 bytes, the limit is 512"));
  EXPECT_THAT(Refusal(R"({"meta": {"tags": ["y)" + longest + "\"]}}"), HasSubstr("has 513 bytes, the limit is 512"));
  std::string list = "\"a\"";
  for (int idx = 1; idx < 1024; ++idx) list += ",\"a\"";
  EXPECT_EQ(Refusal(R"({"meta": {"tags": [)" + list + "]}}"), "(accepted)");
  EXPECT_EQ(Refusal(R"({"meta": {"tags": [)" + list + ",\"b\"]}}"),
            "field \"tags\": the list has more than 1024 elements, the limit");
}

TEST_F(FieldReaderTest, AKeyOfAPathMayNotAppearTwice) {
  EXPECT_EQ(Refusal(R"({"meta": {"lang": "en", "lang": "de"}})"), "field \"lang\": key \"lang\" appears twice");
  EXPECT_EQ(Refusal(R"({"meta": {}, "meta": {}})"), "field \"lang\": key \"meta\" appears twice");
  EXPECT_EQ(Refusal(R"({"x": 1, "x": 2})"), "(accepted)");
}

TEST_F(FieldReaderTest, WhatIsNoObjectIsRefused) {
  for (const char* const payload : {"[]", "1", "null", "true", "\"a\"", "1.5", "{\"a\"", "18446744073709551615"}) {
    EXPECT_NE(Refusal(payload), "(accepted)") << payload;
  }
}

}  // namespace
}  // namespace maxsim::collection
