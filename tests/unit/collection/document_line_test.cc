#include "collection/document_line.h"

#include <string>

#include "collection/shard_contents.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

TEST(DocumentLineTest, TakesTheIdAndKeepsTheRestAsItIsWritten) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"id":"a"})", ""},
      {R"( { "id" : "a" } )", ""},
      {R"({"id":"a","title":"T"})", R"({"title":"T"})"},
      {R"({"title":"T","id":"a"})", R"({"title":"T"})"},
      {R"({"x": 1, "id": "a", "y": [1, {"z": null}] })", R"({"x":1,"y":[1,{"z":null}]})"},
      {R"({"i\u0064":"a","b":2})", R"({"b":2})"},
      {R"({"id":"a","number":1.10,"big":123456789012345678901234567890,"e":1E2})",
       R"({"number":1.10,"big":123456789012345678901234567890,"e":1E2})"},
      {R"({"s":"a , \" \\ { ] \u00e9 ","id":"a"})", R"({"s":"a , \" \\ { ] \u00e9 "})"},
      {R"({"nested":{"id":"inner"},"id":"a"})", R"({"nested":{"id":"inner"}})"},
      {"\xef\xbb\xbf{\"id\":\"a\",\"k\":\"\xc3\xa9\"}\r", "{\"k\":\"\xc3\xa9\"}"},
      {R"({"id":"a",",":",","}":"{"})", R"({",":",","}":"{"})"},
  };
  for (const auto& [line, payload] : cases) {
    SCOPED_TRACE(line);
    const auto document = ParseDocumentLine(line);
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_EQ(document->id_type, IdType::kString);
    EXPECT_EQ(document->string_id, "a");
    EXPECT_EQ(document->payload, payload);
    if (!document->payload.empty()) {
      EXPECT_TRUE(CheckPayload(document->payload).ok());
    }
  }
}

TEST(DocumentLineTest, TakesIntegersOfTheWholeRange) {
  EXPECT_EQ(ParseDocumentLine(R"({"id":-9223372036854775808})")->int_id, INT64_MIN);
  EXPECT_EQ(ParseDocumentLine(R"({"id":9223372036854775807})")->int_id, INT64_MAX);
  EXPECT_EQ(ParseDocumentLine(R"({"id":0})")->id_type, IdType::kInt64);
}

TEST(DocumentLineTest, RefusesWhatIsNoDocument) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "malformed JSON"},
      {"{", "malformed JSON"},
      {"not json", "malformed JSON"},
      {"[]", "object expected"},
      {"1", "object expected"},
      {"{}", "no \"id\""},
      {R"({"ID":"a"})", "no \"id\""},
      {R"({"x":{"id":"a"}})", "no \"id\""},
      {R"({"id":1.5})", "string or a 64-bit integer"},
      {R"({"id":9223372036854775808})", "string or a 64-bit integer"},
      {R"({"id":null})", "string or a 64-bit integer"},
      {R"({"id":["a"]})", "string or a 64-bit integer"},
      {R"({"id":{"a":"b"}})", "string or a 64-bit integer"},
      {R"({"id":true})", "string or a 64-bit integer"},
      {R"({"id":"a","id":"b"})", "\"id\" appears twice"},
      {R"({"id":"a","x":1,"x":2})", "\"x\" appears twice"},
      {R"({"id":"a"}{"id":"b"})", "malformed JSON"},
      {std::string("{\"id\":\"a\"}\0x", 12), "NUL"},
      {"{\"id\":\"a\",\"x\":\"\xff\"}", "malformed JSON"},
      {R"({"id":"a","x":"\ud800"})", "malformed JSON"},
      {R"({"id":"a","x":1e999})", "malformed JSON"},
      {R"({"id":"a","x":)" + std::string(100, '[') + std::string(100, ']') + "}", "deeper than 64"},
      {R"({"id":"a","x":")" + std::string(kMaxPayloadBytes, 'x') + "\"}", "the limit is 1048576"},
      {R"({"id":"a"})" + std::string(kMaxLineBytes, ' '), "the limit is 4194304"},
  };
  for (const auto& [line, message] : cases) {
    SCOPED_TRACE(line.substr(0, 60));
    const auto document = ParseDocumentLine(line);
    ASSERT_FALSE(document.ok());
    EXPECT_THAT(std::string(document.status().message()), HasSubstr(message));
  }
}

TEST(DocumentLineTest, TheLargestPayloadFits) {
  const std::string field = R"({"x":"")";
  const std::string payload = R"({"x":")" + std::string(kMaxPayloadBytes - 8, 'x') + "\"}";
  ASSERT_EQ(payload.size(), kMaxPayloadBytes);
  const auto document = ParseDocumentLine(R"({"id":1, )" + payload.substr(1));
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->payload, payload);
}

TEST(DocumentLineTest, FlippedBytesGiveWellFormedPayloadsOrErrors) {
  const std::string good = R"({"id":"doc\u00e9","t":"a \"b\" c","n":[1,{"x":-2.5e3}],"z":{}})";
  for (size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
      const auto document = ParseDocumentLine(bad);
      if (document.ok() && !document->payload.empty()) {
        EXPECT_TRUE(CheckPayload(document->payload).ok()) << bad;
      }
    }
  }
}

TEST(CheckPayloadTest, WantsAnObject) {
  EXPECT_TRUE(CheckPayload("{}").ok());
  for (const char* payload : {"", "[]", "1", "{", "{}x", " {}", "{\"a\":\"\xff\"}", "null"}) {
    EXPECT_FALSE(CheckPayload(payload).ok()) << payload;
    EXPECT_FALSE(CheckNewPayload(payload).ok()) << payload;
  }
}

TEST(CheckNewPayloadTest, RefusesARepeatedKeyThatStoredPayloadsMayHave) {
  const std::string repeated = R"({"a":{"b":1,"b":2},"c":1,"a":2})";
  EXPECT_TRUE(CheckPayload(repeated).ok());
  EXPECT_THAT(std::string(CheckNewPayload(repeated).message()), testing::HasSubstr("key \"a\" appears twice"));
  EXPECT_TRUE(CheckNewPayload(R"({"a":{"b":1},"b":[{"a":1}]})").ok());
}

}  // namespace
}  // namespace maxsim::collection
