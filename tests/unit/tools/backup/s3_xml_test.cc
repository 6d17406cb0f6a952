// Tests the XML of S3's answers, right and wrong.
#include "backup/s3/s3_xml.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::backup {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<std::pair<std::string, std::string>> Elements(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> elements;
  const absl::Status status = ReadXml(
      text, [&](std::string_view path, const std::string& value) { elements.emplace_back(std::string(path), value); });
  EXPECT_TRUE(status.ok()) << status;
  return elements;
}

TEST(S3XmlTest, ElementsComeWithTheirPathAndText) {
  EXPECT_THAT(
      Elements("<?xml version=\"1.0\"?>\n<!-- > --><a x='>'><n:b>1 &amp; 2</n:b><c/><b>&#65;&#x20AC;</b></a>\n"),
      ElementsAre(Pair("a/b", "1 & 2"), Pair("a/c", ""), Pair("a/b", "A\xe2\x82\xac"), Pair("a", "")));
}

TEST(S3XmlTest, TextThatIsNoXmlIsRefused) {
  for (const char* text : {"",
                           "text",
                           "<a>",
                           "</a>",
                           "<a></b>",
                           "<a/><b/>",
                           "<a/>text",
                           "<a>&unknown;</a>",
                           "<a>&amp</a>",
                           "<a",
                           "<>",
                           "< a/>",
                           "<a>&#0;</a>",
                           "<a>&#xD800;</a>",
                           "<a>&#x110000;</a>",
                           "<a>&#-5;</a>",
                           "<!DOCTYPE a><a/>",
                           "<a><![CDATA[x]]></a>",
                           "<a x='1>",
                           "<!-- <a/>"}) {
    EXPECT_EQ(ReadXml(text, [](std::string_view, const std::string&) {}).code(), absl::StatusCode::kDataLoss) << text;
  }
}

TEST(S3XmlTest, NestingIsLimited) {
  std::string nested = "1";
  for (size_t i = 0; i < kMaxXmlDepth; ++i) nested = "<a>" + nested + "</a>";
  EXPECT_EQ(Elements(nested).size(), kMaxXmlDepth);
  EXPECT_FALSE(ReadXml("<a>" + nested + "</a>", [](std::string_view, const std::string&) {}).ok());
}

TEST(S3XmlTest, OnlyTheCodeOfAnErrorIsTaken) {
  EXPECT_EQ(ErrorCode("<Error><Code>NoSuchKey</Code><Message>secret</Message></Error>"), "NoSuchKey");
  EXPECT_EQ(ErrorCode("<Error><Code>not a code</Code></Error>"), "");
  EXPECT_EQ(ErrorCode("<html>busy</html>"), "");
  EXPECT_EQ(ErrorCode("<Error><Code>NoSuchKey</Code>"), "");
  EXPECT_EQ(ErrorCode(""), "");
}

TEST(S3XmlTest, APageHasObjectsAndTheTokenOfTheNextPage) {
  const auto page = ReadObjectPage(
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><IsTruncated>true</IsTruncated><Contents>"
      "<Key>p/a&amp;b</Key><Size>12</Size></Contents><Contents><Size>0</Size><Key>p/c</Key></Contents>"
      "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->objects, ElementsAre(StoredObject{"p/a&b", 12}, StoredObject{"p/c", 0}));
  EXPECT_EQ(page->next, "t");
}

TEST(S3XmlTest, PagesThatLackSomethingAreRefused) {
  for (const char* text : {"<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
                           "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
                           "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
                           "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", "<html/>"}) {
    EXPECT_EQ(ReadObjectPage(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
  EXPECT_FALSE(ReadUploadId("<InitiateMultipartUploadResult/>").ok());
}

TEST(S3XmlTest, PartsOfAnUploadAreNumberedFromOne) {
  EXPECT_THAT(CompleteUploadXml({"\"e1\"", "a<&>"}),
              HasSubstr("<Part><PartNumber>1</PartNumber><ETag>\"e1\"</ETag></Part><Part><PartNumber>2</PartNumber>"
                        "<ETag>a&lt;&amp;&gt;</ETag></Part>"));
}

}  // namespace
}  // namespace maxsim::backup
