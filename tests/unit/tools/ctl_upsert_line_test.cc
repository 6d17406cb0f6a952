#include "tools/maxsimctl/write/upsert_line.h"

#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "collection/document_line.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/maxsimctl/write/document_source.h"

namespace maxsim::ctl {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<v1::Document> ParseLine(std::string_view line) { return ParseUpsertLine(line, v1::ID_TYPE_STRING); }

std::string LineError(std::string_view line) {
  const absl::StatusOr<v1::Document> document = ParseLine(line);
  EXPECT_EQ(document.status().code(), absl::StatusCode::kInvalidArgument) << line;
  return std::string(document.status().message());
}

TEST(UpsertLineTest, VectorsArriveAsFloatsAndThePayloadAsItIsWritten) {
  const auto document = ParseLine(
      R"( {"version": 3, "payload": {"n": 1.50, "a": [{"b": {}}], "s": "}\""} , "tokens": [[1, -2.5], [3e2, 0]], "id": "a"} )");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->string_id(), "a");
  EXPECT_EQ(document->version(), 3);
  EXPECT_EQ(document->payload(), R"({"n": 1.50, "a": [{"b": {}}], "s": "}\""})");
  EXPECT_EQ(document->tokens().dtype(), v1::DATA_TYPE_F32);
  EXPECT_EQ(document->tokens().num_tokens(), 2);
  EXPECT_EQ(document->tokens().dim(), 2);
  const std::vector<float> wanted = {1, -2.5f, 300, 0};
  ASSERT_EQ(document->tokens().data().size(), 16);
  EXPECT_EQ(std::memcmp(document->tokens().data().data(), wanted.data(), 16), 0);
}

TEST(UpsertLineTest, ATextStandsInPlaceOfVectors) {
  const auto document = ParseLine(R"({"id": "b", "text": "how do birds fly", "version": 18446744073709551615})");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->text(), "how do birds fly");
  EXPECT_FALSE(document->has_tokens());
  EXPECT_EQ(document->payload(), R"({"text":"how do birds fly"})");
  EXPECT_EQ(document->version(), UINT64_MAX);
}

TEST(UpsertLineTest, WithoutPayloadALineHasThePayloadThatABuildGivesIt) {
  const auto payload = [](std::string_view line) {
    const auto document = ParseLine(line);
    EXPECT_TRUE(document.ok()) << document.status();
    return document.ok() ? document->payload() : "";
  };
  EXPECT_EQ(payload(R"({"title": "T", "id": "a", "n": 1.50, "tokens": [[1, 2], [3, 4]], "x": {"y": [null]}})"),
            R"({"title":"T","n":1.50,"x":{"y":[null]}})");
  EXPECT_EQ(payload(R"({"id": "a", "title": null, "text": "t u", "version": 2})"), R"({"title":null,"text":"t u"})");
  EXPECT_EQ(payload(R"({"id": "a", "tokens": [[1]], "version": 2})"), "");
  // Here "tokens" is a list of texts, which some encoders write next to the text. It must stay in the payload.
  const std::string line = R"({"id":"a","title":"T","text":"t u","tokens":["t","u"]})";
  EXPECT_EQ(payload(line), collection::ParseDocumentLine(line)->payload);
  EXPECT_EQ(payload(R"({"id": "a", "text": "t", "payload": {}})"), "{}");
}

TEST(UpsertLineTest, AMemberThatIsNullIsNone) {
  const auto document = ParseLine(R"({"id": "b", "tokens": null, "text": "t", "payload": null, "version": null})");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->text(), "t");
  EXPECT_EQ(document->payload(), R"({"text":"t"})");
  EXPECT_EQ(document->version(), 0);
}

TEST(UpsertLineTest, IdsAreOfTheCollectionsType) {
  const auto document = ParseUpsertLine(R"({"id": -7, "text": "a"})", v1::ID_TYPE_INT64);
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->int_id(), -7);
  EXPECT_EQ(LineError(R"({"id": 7, "text": "a"})"), "\"id\" is an integer; the collection's ids are strings");
  EXPECT_EQ(ParseUpsertLine(R"({"id": "7", "text": "a"})", v1::ID_TYPE_INT64).status().message(),
            "\"id\" is a string; the collection's ids are integers");
}

TEST(UpsertLineTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(LineError(R"({"text": "a"})"), "no \"id\"");
  EXPECT_THAT(LineError(R"({"id": "a"})"), HasSubstr("neither \"tokens\" nor \"text\""));
  EXPECT_THAT(LineError(R"({"id": "a", "text": "a", "tokens": [[1]]})"), HasSubstr("both \"tokens\" and \"text\""));
  EXPECT_EQ(LineError(R"({"id": "a", "text": "a", "title": "b", "payload": {}})"),
            "a member \"title\" beside \"payload\"; fields stand either in \"payload\" or beside \"id\"");
  EXPECT_EQ(LineError(R"({"id": "a", "text": "a", "title": "b", "title": 1})"), "\"title\" appears twice");
  EXPECT_EQ(LineError(R"({"id": "a", "tokens": ["b"]})"),
            "\"tokens\" holds strings, not token vectors, and there is no \"text\"");
  EXPECT_EQ(LineError(R"({"id": "a", "id": "b", "text": "a"})"), "\"id\" appears twice");
  EXPECT_THAT(LineError(R"({"id": 1.5, "text": "a"})"),
              HasSubstr("\"id\": a string or a 64-bit integer expected, not"));
  EXPECT_EQ(LineError(R"({"id": null, "text": "a"})"), "no \"id\"");
  EXPECT_THAT(LineError(R"({"id": "a", "tokens": [null]})"), HasSubstr("expected, not null"));
  EXPECT_THAT(LineError(R"({"id": "a", "text": ["a"]})"), HasSubstr("\"text\": a string expected, not an array"));
  EXPECT_THAT(LineError(R"({"id": "a", "text": "a", "payload": []})"),
              HasSubstr("\"payload\": an object expected, not an array"));
  EXPECT_THAT(LineError(R"({"id": "a", "text": "a", "payload": "{}"})"), HasSubstr("expected, not a string"));
  EXPECT_THAT(LineError(R"({"id": "a", "text": "a", "version": 0})"),
              HasSubstr("\"version\" is 0; must be an integer of 1"));
  EXPECT_THAT(LineError(R"({"id": "a", "text": "a", "version": 1.5})"),
              HasSubstr("\"version\": an integer of 1 or more"));
  EXPECT_THAT(LineError("[1]"), HasSubstr("a JSON object expected, not an array"));
  EXPECT_THAT(LineError("7"), HasSubstr("a JSON object expected, not an integer"));
  EXPECT_THAT(LineError(R"({"id": "a")"), HasSubstr("malformed JSON"));
}

TEST(UpsertLineTest, RowsOfVectorsAreEquallyLongAndOfNumbers) {
  const auto tokens = [](const std::string& value) { return LineError(R"({"id": "a", "tokens": )" + value + "}"); };
  EXPECT_EQ(tokens("[[1, 2], [3]]"), "\"tokens\": row 1 has 1 numbers, but row 0 has 2");
  EXPECT_EQ(tokens("[]"), "\"tokens\": no token vectors");
  EXPECT_EQ(tokens("[[], []]"), "\"tokens\": no token vectors");
  EXPECT_THAT(tokens("[1, 2]"), HasSubstr("rows of numbers, a row for each token expected, not a number"));
  EXPECT_THAT(tokens("[[[1]]]"), HasSubstr("expected, not an array"));
  EXPECT_THAT(tokens(R"([["1"]])"), HasSubstr("expected, not a string"));
  EXPECT_THAT(tokens("[[1e39]]"), HasSubstr("beyond what a float32 holds"));
  EXPECT_THAT(tokens("\"AAAA\""), HasSubstr("expected, not a string"));
}

TEST(UpsertLineTest, APayloadIsNestedSoDeepAtMost) {
  const auto nested = [](size_t levels) {
    return R"({"id": "a", "text": "t", "payload": {"a":)" + std::string(levels, '[') + std::string(levels, ']') + "}}";
  };
  EXPECT_TRUE(ParseLine(nested(63)).ok());
  EXPECT_THAT(LineError(nested(64)), HasSubstr("nested deeper than"));
  const auto field = [](size_t levels) {
    return R"({"id": "a", "text": "t", "a":)" + std::string(levels, '[') + std::string(levels, ']') + "}";
  };
  EXPECT_TRUE(ParseLine(field(63)).ok());
  EXPECT_THAT(LineError(field(64)), HasSubstr("nested deeper than 64"));
}

TEST(DocumentSourceTest, LinesAreCountedAndBlankOnesPassedOver) {
  std::istringstream lines("{\"id\": \"a\", \"text\": \"t\"}\r\n\n  \n{\"id\": \"b\", \"text\": \"t\"}");
  const auto source = ReadUpsertLines(lines, "docs.jsonl", v1::ID_TYPE_STRING);
  auto document = source->Next();
  ASSERT_TRUE(document.ok() && document->has_value()) << document.status();
  EXPECT_EQ((*document)->string_id(), "a");
  EXPECT_EQ(source->Where(), "docs.jsonl:1");
  document = source->Next();
  ASSERT_TRUE(document.ok() && document->has_value()) << document.status();
  EXPECT_EQ((*document)->string_id(), "b");
  EXPECT_EQ(source->Where(), "docs.jsonl:4");
  document = source->Next();
  ASSERT_TRUE(document.ok());
  EXPECT_FALSE(document->has_value());
}

TEST(DocumentSourceTest, LinesMayBeLongerThanABlockAndAnErrorNamesTheirs) {
  const std::string text(3 << 20, 'x');
  std::istringstream lines("{\"id\": \"a\", \"text\": \"" + text + "\"}\n{\"id\": 1}\n");
  const auto source = ReadUpsertLines(lines, "-", v1::ID_TYPE_STRING);
  const auto document = source->Next();
  ASSERT_TRUE(document.ok() && document->has_value()) << document.status();
  EXPECT_EQ((*document)->text(), text);
  EXPECT_THAT(std::string(source->Next().status().message()), HasSubstr("standard input:2: neither"));
}

TEST(DocumentSourceTest, ALineThatNeverEndsIsRefused) {
  std::istringstream lines(std::string(kMaxUpsertLineBytes + 1, ' '));
  EXPECT_THAT(std::string(ReadUpsertLines(lines, "-", v1::ID_TYPE_STRING)->Next().status().message()),
              HasSubstr("longer than the limit of 16777216 bytes a line"));
}

}  // namespace
}  // namespace maxsim::ctl
