// How fields are declared.
#include "collection/field.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

std::string RefusalOfText(std::string_view text) {
  const auto fields = ParseFields(text);
  if (fields.ok()) return "(accepted)";
  EXPECT_TRUE(absl::IsInvalidArgument(fields.status()));
  return std::string(fields.status().message());
}

TEST(FieldTest, AllKindsReturnFromTheirText) {
  const std::string text =
      "lang:keyword=meta.lang,tags:keywords,year:integer,price:number=offer.price,sold:boolean,at:time=a.b.c";
  const auto fields = ParseFields(text);
  ASSERT_TRUE(fields.ok()) << fields.status();
  ASSERT_EQ(fields->size(), 6);
  EXPECT_EQ(fields->front(), (Field{"lang", FieldKind::kKeyword, "meta.lang"}));
  EXPECT_EQ((*fields)[2], (Field{"year", FieldKind::kInteger, "year"}));
  EXPECT_EQ(FormatFields(*fields), text);
  EXPECT_EQ(FindField(*fields, "sold"), &(*fields)[4]);
  EXPECT_EQ(FindField(*fields, "so"), nullptr);
  for (const Field& field : *fields) EXPECT_EQ(FieldKindFromName(Name(field.kind)), field.kind);
}

TEST(FieldTest, NoTextIsNoField) {
  const auto fields = ParseFields("");
  ASSERT_TRUE(fields.ok());
  EXPECT_TRUE(fields->empty());
}

TEST(FieldTest, APathMayHoldColonsAndEqualsSigns) {
  const auto fields = ParseFields("a:keyword=x:y=z.\xc3\xa9");
  ASSERT_TRUE(fields.ok()) << fields.status();
  EXPECT_EQ(fields->front().path, "x:y=z.\xc3\xa9");
}

TEST(FieldTest, WrongDeclarationsAreNamed) {
  EXPECT_THAT(RefusalOfText("lang"), HasSubstr("\"lang\": must be NAME:KIND or NAME:KIND=PATH"));
  EXPECT_THAT(RefusalOfText("lang:text"), HasSubstr("kind: \"text\", expected keyword, keywords, integer"));
  EXPECT_THAT(RefusalOfText("lang:keyword,"), HasSubstr("nothing follows the last comma"));
  EXPECT_THAT(RefusalOfText(",lang:keyword"), HasSubstr("\"\": must be NAME:KIND"));
  EXPECT_THAT(RefusalOfText("1st:keyword"), HasSubstr("\"1st\" must be 1 to 64 characters of A-Z a-z 0-9 _"));
  EXPECT_THAT(RefusalOfText("a-b:keyword"), HasSubstr("\"a-b\" must be 1 to 64"));
  EXPECT_THAT(RefusalOfText(std::string(65, 'a') + ":keyword"), HasSubstr("must be 1 to 64"));
  EXPECT_EQ(RefusalOfText(std::string(64, 'a') + ":keyword"), "(accepted)");
  EXPECT_THAT(RefusalOfText("Exists:keyword"), HasSubstr("\"Exists\" is a word of the filter grammar"));
  EXPECT_THAT(RefusalOfText("a:keyword="), HasSubstr("path: 0 bytes; must be 1 to 256"));
  EXPECT_THAT(RefusalOfText("a:keyword=" + std::string(257, 'x')), HasSubstr("path: 257 bytes"));
  EXPECT_THAT(RefusalOfText("a:keyword=b..c"), HasSubstr("\"b..c\" has an empty key"));
  EXPECT_THAT(RefusalOfText("a:keyword=b\nc"), HasSubstr("a control character"));
  EXPECT_THAT(RefusalOfText("a:keyword,b:integer,a:number=c"), HasSubstr("field \"a\" appears twice"));
}

TEST(FieldTest, APathMayNotLeadIntoTheValueOfAnotherField) {
  EXPECT_THAT(
      RefusalOfText("a:keyword=meta,b:integer=meta.year"),
      HasSubstr("field \"b\": path: \"meta.year\" leads into the value of field \"a\", whose path is \"meta\""));
  EXPECT_EQ(RefusalOfText("a:keyword=meta,b:integer=metal.year"), "(accepted)");
  EXPECT_EQ(RefusalOfText("a:integer=year,b:number=year"), "(accepted)");
}

TEST(FieldTest, ThereAreAtMost64Fields) {
  std::string text = "f0:integer";
  for (int idx = 1; idx < 64; ++idx) text += ",f" + std::to_string(idx) + ":integer";
  EXPECT_EQ(RefusalOfText(text), "(accepted)");
  EXPECT_THAT(RefusalOfText(text + ",g:integer"), HasSubstr("65 fields, the limit is 64"));
}

}  // namespace
}  // namespace maxsim::collection
