#include "server/encoder/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "collection/formats/safetensors.h"
#include "kernels/scalar_type.h"
#include "nlohmann/json.hpp"
#include "server/encoder/http_options.h"
#include "tests/support/connections/fake_encoder.h"

namespace maxsim::encoder {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kDim = 8;

std::string Row(const std::string& value) {
  std::string row = "[";
  for (int idx = 0; idx < kDim; ++idx) absl::StrAppend(&row, idx == 0 ? "" : ",", value);
  return row + "]";
}

absl::Status StatusOf(Dialect dialect, const std::string& body, size_t num_texts = 1, int32_t dim = kDim) {
  return ParseAnswer(dialect, body, num_texts, dim).status();
}

void ExpectMatrices(const absl::StatusOr<Answer>& answer, const std::vector<std::string>& texts) {
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->texts.size(), texts.size());
  for (size_t idx = 0; idx < texts.size(); ++idx) {
    EXPECT_EQ(answer->texts[idx].values, test::MatrixOf(texts[idx], kDim));
    EXPECT_EQ(answer->texts[idx].dim, kDim);
    EXPECT_EQ(answer->texts[idx].num_tokens * kDim, static_cast<int>(answer->texts[idx].values.size()));
  }
}

TEST(AnswerTest, JsonDialectsGiveOneMatrixATextInTheirOrder) {
  const std::vector<std::string> texts = {"one", "two words", "and then three"};
  for (const int32_t dim : {0, kDim}) {
    ExpectMatrices(ParseAnswer(Dialect::kVllm, test::AnswerObjects(texts, kDim, "data"), 3, dim), texts);
    ExpectMatrices(ParseAnswer(Dialect::kVllm, test::AnswerObjects(texts, kDim, "embedding"), 3, dim), texts);
    ExpectMatrices(ParseAnswer(Dialect::kOpenAi, test::AnswerObjects(texts, kDim, "embedding"), 3, dim), texts);
    ExpectMatrices(ParseAnswer(Dialect::kTei, test::AnswerList(texts, kDim), 3, dim), texts);
  }
}

// The recording was made with vLLM's own protocol classes (its member "of" names them), not by hand.
TEST(AnswerTest, ARecordedExchangeWithVllmIsSpokenAndRead) {
  std::ifstream file("tests/unit/server/encoder/recorded/vllm_pooling.json");
  ASSERT_TRUE(file) << "tests run in the repository's root";
  const nlohmann::json recorded = nlohmann::json::parse(file);
  const std::string call = FormatCall(Dialect::kVllm, "colbert-ir/colbertv2.0", TextKind::kDocument, "", "",
                                      {"What is a volcano?", "Bread"}, /*max_tokens=*/0);
  EXPECT_EQ(nlohmann::json::parse(call), recorded["request"]);
  const auto answer = ParseAnswer(Dialect::kVllm, recorded["answer"].dump(), 2, kDim);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->texts.size(), 2u);
  for (size_t idx = 0; idx < 2; ++idx) {
    std::vector<float> values;
    for (const nlohmann::json& row : recorded["answer"]["data"][idx]["data"]) {
      for (const nlohmann::json& value : row) values.push_back(value.get<float>());
    }
    EXPECT_EQ(answer->texts[idx].num_tokens, idx == 0 ? 3 : 2);
    EXPECT_EQ(answer->texts[idx].values, values);
  }
  EXPECT_THAT(SaidInError(recorded["error"].dump(), ""),
              testing::StartsWith("This model's maximum context length is 512"));
}

TEST(AnswerTest, AnIndexSaysWhichTextAMatrixIsOf) {
  const std::string body = absl::StrCat("{\"data\":[{\"data\":[", Row("2"), "],\"index\":1},{\"index\":0,\"data\":[",
                                        Row("1"), ",", Row("1"), "]}]}");
  const auto answer = ParseAnswer(Dialect::kVllm, body, 2, kDim);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->texts[0].num_tokens, 2);
  EXPECT_EQ(answer->texts[1].num_tokens, 1);
  EXPECT_EQ(answer->texts[1].values[0], 2);
}

TEST(AnswerTest, Base64HoldsRowsOfF32) {
  const std::vector<float> values = test::MatrixOf("two words", kDim);
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  const std::string body = absl::StrCat("{\"data\":[{\"index\":0,\"embedding\":\"", absl::Base64Escape(bytes), "\"}]}");
  ExpectMatrices(ParseAnswer(Dialect::kOpenAi, body, 1, kDim), {"two words"});
  EXPECT_THAT(StatusOf(Dialect::kOpenAi, body, 1, 0).message(), HasSubstr("encoder.dim"));
  EXPECT_EQ(StatusOf(Dialect::kOpenAi, body, 1, 24).code(), absl::StatusCode::kInternal);
}

struct Bad {
  Dialect dialect;
  std::string body;
  absl::StatusCode code;
  std::string message;
};

TEST(AnswerTest, WhatIsNoAnswerIsRefusedWithItsReason) {
  const std::string row = Row("1");
  const auto objects = [](const std::string& rows) {
    return absl::StrCat("{\"data\":[{\"index\":0,\"data\":", rows, "}]}");
  };
  constexpr auto kBroken = absl::StatusCode::kUnavailable;
  constexpr auto kUnusable = absl::StatusCode::kInternal;
  const std::vector<Bad> all = {
      {Dialect::kVllm, "", kBroken, "malformed JSON"},
      {Dialect::kVllm, "<html>", kBroken, "malformed JSON"},
      {Dialect::kVllm, "[]", kBroken, "an object expected"},
      {Dialect::kTei, "{}", kBroken, "an array expected"},
      {Dialect::kTei, "3", kBroken, "an array expected"},
      {Dialect::kVllm, "{}", kUnusable, "0 matrices for 1 texts"},
      {Dialect::kVllm, "{\"data\":null}", kUnusable, "0 matrices for 1 texts"},
      {Dialect::kVllm, "{\"data\":[{\"index\":0}]}", kBroken, "neither \"data\" nor"},
      {Dialect::kVllm, objects("[" + row + "]").substr(0, 30), kBroken, "malformed JSON"},
      {Dialect::kVllm, objects(row), kUnusable, "pools"},
      {Dialect::kTei, "[" + row + "]", kUnusable, "pools"},
      {Dialect::kVllm, objects("[[1,2,3]]"), kUnusable, "3 values, but 8 are expected"},
      {Dialect::kVllm, objects("[" + row + ",[]]"), kUnusable, "0 values, but 8 are expected"},
      {Dialect::kVllm, objects("[]"), kUnusable, "no token"},
      {Dialect::kVllm, objects("[" + Row("NaN") + "]"), kBroken, "malformed JSON"},
      {Dialect::kVllm, objects("[" + Row("null") + "]"), kBroken, "not null"},
      {Dialect::kVllm, objects("[" + Row("1e39") + "]"), kUnusable, "cannot be scored"},
      {Dialect::kVllm, objects("[[" + row + "]]"), kBroken, "nested too deep"},
      {Dialect::kVllm, objects("\"%%\""), kBroken, "not base64"},
      {Dialect::kVllm, "{\"data\":[{\"index\":1,\"data\":[]}]}", kUnusable, "index 1"},
      {Dialect::kVllm, "{\"data\":[{\"index\":-1,\"data\":[]}]}", kUnusable, "index -1"},
      {Dialect::kVllm, "{\"data\":[{\"data\":[" + row + "]},{\"data\":[" + row + "]}]}", kUnusable, "more matrices"},
      {Dialect::kVllm, "{\"data\":[{\"data\":[" + row + "],\"embedding\":[]}]}", kBroken, "two matrices"},
      {Dialect::kTei, std::string(100, '['), kBroken, ""},
  };
  for (const Bad& bad : all) {
    const absl::Status status = StatusOf(bad.dialect, bad.body);
    EXPECT_EQ(status.code(), bad.code) << bad.body << ": " << status;
    EXPECT_THAT(status.message(), HasSubstr(bad.message)) << bad.body;
    EXPECT_LT(status.message().size(), 600u);
  }
}

TEST(AnswerTest, AnIndexMayNotAppearTwice) {
  const std::string element = absl::StrCat("{\"index\":0,\"data\":[", Row("1"), "]}");
  EXPECT_THAT(StatusOf(Dialect::kVllm, absl::StrCat("{\"data\":[", element, ",", element, "]}"), 2).message(),
              HasSubstr("index 0 appears twice"));
}

std::string Tensors(const std::string& dtype, const std::string& tokens, const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& lengths) {
  std::vector<collection::SafetensorsTensor> tensors = {
      {.name = "tokens", .dtype = dtype, .shape = shape},
      {.name = "lengths", .dtype = "I64", .shape = {static_cast<int64_t>(lengths.size())}}};
  std::string text = FormatSafetensorsHeader({{"model", "m"}, {"fingerprint", "f"}}, tensors, 8) + tokens;
  return text + std::string(reinterpret_cast<const char*>(lengths.data()), lengths.size() * 8);
}

TEST(AnswerTest, SafetensorsAreReadInEveryFloatType) {
  const std::vector<std::string> texts = {"one", "two words"};
  std::vector<float> values = test::MatrixOf(texts[0], kDim);
  for (const float value : test::MatrixOf(texts[1], kDim)) values.push_back(value);
  for (const auto& [dtype, type] : {std::pair("F32", ScalarType::kF32), {"F16", ScalarType::kF16}}) {
    std::string bytes(values.size() * SizeOf(type), '\0');
    ConvertElements(ScalarType::kF32, values.data(), type, bytes.data(), values.size());
    const auto answer = ParseAnswer(Dialect::kMaxsim, Tensors(dtype, bytes, {3, kDim}, {1, 2}), 2, kDim);
    ExpectMatrices(answer, texts);
    EXPECT_EQ(answer->model, "m");
    EXPECT_EQ(answer->fingerprint, "f");
  }
  // The value 1.5 is exact in BF16, too, so the answer must give exactly this value.
  const std::vector<float> one(kDim, 1.5f);
  std::string bytes(one.size() * 2, '\0');
  ConvertElements(ScalarType::kF32, one.data(), ScalarType::kBF16, bytes.data(), one.size());
  const auto answer = ParseAnswer(Dialect::kMaxsim, Tensors("BF16", bytes, {1, kDim}, {1}), 1, kDim);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->texts[0].values, one);
}

TEST(AnswerTest, TensorsThatDoNotFitAreRefused) {
  const std::string rows(2 * kDim * 4, '\0');
  EXPECT_THAT(StatusOf(Dialect::kMaxsim, Tensors("F32", rows, {2, kDim}, {1}), 1).message(), HasSubstr("leave 1 rows"));
  EXPECT_THAT(StatusOf(Dialect::kMaxsim, Tensors("F32", rows, {2, kDim}, {3}), 1).message(),
              HasSubstr("2 rows are left"));
  EXPECT_THAT(StatusOf(Dialect::kMaxsim, Tensors("F32", rows, {2, kDim}, {-1}), 1).message(), HasSubstr("is -1"));
  EXPECT_THAT(StatusOf(Dialect::kMaxsim, Tensors("F32", rows, {2, kDim}, {0, 2}), 2).message(), HasSubstr("no token"));
  EXPECT_THAT(StatusOf(Dialect::kMaxsim, Tensors("F32", rows, {2, kDim}, {1, 1}), 1).message(),
              HasSubstr("2 matrices for 1 texts"));
  EXPECT_THAT(StatusOf(Dialect::kMaxsim, Tensors("I32", rows, {2, kDim}, {2}), 1).message(), HasSubstr("not F16"));
  EXPECT_THAT(StatusOf(Dialect::kMaxsim, Tensors("F32", rows, {16}, {2}), 1).message(), HasSubstr("two dimensions"));
  EXPECT_THAT(StatusOf(Dialect::kMaxsim, Tensors("F32", rows, {1, 16}, {1}), 1).message(), HasSubstr("16 values"));
  EXPECT_EQ(StatusOf(Dialect::kMaxsim, "{}", 1).code(), absl::StatusCode::kUnavailable);
  const std::string nan(kDim * 4, '\xff');
  EXPECT_THAT(StatusOf(Dialect::kMaxsim, Tensors("F32", nan, {1, kDim}, {1}), 1).message(),
              HasSubstr("value 0 of token 0"));
}

TEST(DialectTest, WhatAnErrorSaysIsFoundAndBounded) {
  EXPECT_EQ(SaidInError(R"({"error":{"message":"too long","code":400}})", ""), "too long");
  EXPECT_EQ(SaidInError(R"({"error":"Input validation","error_type":"Validation"})", ""), "Input validation");
  EXPECT_EQ(SaidInError(R"({"object":"error","message":"old"})", ""), "old");
  EXPECT_EQ(SaidInError(R"({"detail":"no such model"})", ""), "no such model");
  EXPECT_EQ(SaidInError(R"({"detail":[{"msg":"field required"}]})", ""), "field required");
  EXPECT_EQ(SaidInError(" plain\n", ""), "plain");
  EXPECT_EQ(SaidInError("", ""), "");
  EXPECT_LE(SaidInError(std::string(5000, 'x'), "").size(), kMaxSaidBytes);
  EXPECT_EQ(SaidInError("a\x01z", "").find('\x01'), std::string::npos);
}

TEST(DialectTest, SecretsAreCutOutOfWhatAnErrorSays) {
  const std::string token = "S3CRET/t+ken=";
  EXPECT_EQ(WithoutSecrets("a S3CRET/t+ken= b S3CRET/t+ken=", token), "a *** b ***");
  EXPECT_EQ(WithoutSecrets("Authorization: Bearer other, more", token), "Authorization: Bearer *** more");
  EXPECT_EQ(WithoutSecrets("AUTHORIZATION: BEARER  other\r\nHost: x", ""), "AUTHORIZATION: BEARER  ***\r\nHost: x");
  EXPECT_EQ(WithoutSecrets("\"Bearer other\"", ""), "\"Bearer ***\"");
  EXPECT_EQ(WithoutSecrets("bearer", token), "bearer");
  EXPECT_EQ(WithoutSecrets("bearer ", token), "bearer ");
  EXPECT_EQ(WithoutSecrets("the bearers of", ""), "the bearers of");
  EXPECT_EQ(WithoutSecrets("", token), "");
  // In JSON, a slash in the token may be escaped with a backslash.
  EXPECT_EQ(SaidInError(R"({"error":"key S3CRET\/t+ken= is wrong"})", token), "key *** is wrong");
  EXPECT_EQ(SaidInError(R"(cut {"error":"Bearer S3CRET\/t+ken= is)", token), R"(cut {"error":"Bearer *** is)");
  EXPECT_EQ(SaidInError(R"(cut {"key":"S3CRET\/t+ken= is)", token), R"(cut {"key":"*** is)");
  // Only the first 64 KiB of a body are read. If they end within the secret access token, no part of the token may
  // remain in the message.
  for (size_t size = (size_t{64} << 10) - 20; size < (size_t{64} << 10) + 5; ++size) {
    const std::string said = SaidInError(std::string(size, ' ') + token + " and more", token);
    EXPECT_EQ(said.find("S"), std::string::npos) << size << said;
  }
  std::string many;
  while (many.size() < (size_t{64} << 10)) many += token;
  EXPECT_EQ(SaidInError(many + "x", token).find("S3"), std::string::npos);
}

TEST(DialectTest, CallsHaveTheMembersOfTheirDialect) {
  using test::FakeCall;
  const auto call = [](Dialect dialect, TextKind kind) {
    return FormatCall(dialect, "m", kind, "p: ", "", {"a", "b"}, 7);
  };
  for (const Dialect dialect : {Dialect::kVllm, Dialect::kOpenAi, Dialect::kTei, Dialect::kMaxsim}) {
    EXPECT_THAT(test::TextsOf(FakeCall{.body = call(dialect, TextKind::kQuery)}), ElementsAre("p: a", "p: b"));
    EXPECT_EQ(DialectFromName(Name(dialect)), dialect);
  }
  EXPECT_THAT(call(Dialect::kVllm, TextKind::kQuery), HasSubstr("\"task\":\"token_embed\""));
  EXPECT_THAT(call(Dialect::kVllm, TextKind::kQuery), HasSubstr("\"truncate_prompt_tokens\":7"));
  EXPECT_THAT(call(Dialect::kOpenAi, TextKind::kDocument), HasSubstr("\"is_query\":false"));
  EXPECT_THAT(call(Dialect::kOpenAi, TextKind::kQuery), HasSubstr("\"input_type\":\"query\""));
  EXPECT_THAT(call(Dialect::kTei, TextKind::kQuery), HasSubstr("\"truncate\":true"));
  EXPECT_THAT(call(Dialect::kMaxsim, TextKind::kDocument), HasSubstr("\"kind\":\"document\""));
  EXPECT_EQ(call(Dialect::kTei, TextKind::kQuery).find("prompt_name"), std::string::npos);
  EXPECT_THAT(FormatCall(Dialect::kTei, "m", TextKind::kQuery, "", "search_query", {"a"}, 0),
              HasSubstr("\"prompt_name\":\"search_query\""));
  EXPECT_EQ(DialectFromName("x"), std::nullopt);
}

TEST(EncoderUrlTest, AUrlIsTakenApart) {
  const auto url = ParseEncoderUrl("https://encoder.test/base/");
  ASSERT_TRUE(url.ok()) << url.status();
  EXPECT_TRUE(url->is_tls);
  EXPECT_EQ(url->host, "encoder.test");
  EXPECT_EQ(url->port, "443");
  EXPECT_EQ(url->base, "/base");
  EXPECT_EQ(ParseEncoderUrl("http://[::1]:8080")->HostHeader(), "[::1]:8080");
  EXPECT_EQ(ParseEncoderUrl("http://[::1]")->HostHeader(), "[::1]:80");
  for (const char* bad :
       {"", "encoder", "ftp://a", "http://", "http://a:0", "http://a:x", "http://a:70000", "http://a b", "http://u@a",
        "http://a?x", "http://a:1:2", "http://[::1", "http://[::1]x", "http://a:"}) {
    EXPECT_FALSE(ParseEncoderUrl(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace maxsim::encoder
