// Tests that texts become token matrices with each encoder API (dialect), over TCP and TLS, with and without an access
// token.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collection/formats/safetensors.h"
#include "nlohmann/json.hpp"
#include "tests/unit/server/encoder/encoder_fixture.h"

namespace maxsim::encoder {
namespace {

using test::FakeCall;
using test::FakeEncoder;
using test::FakeReply;
using ::testing::HasSubstr;

std::string WriteFile(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(EncoderTest, JsonDialectsEncode) {
  for (const Dialect dialect : {Dialect::kVllm, Dialect::kOpenAi, Dialect::kTei}) {
    FakeEncoder fake([dialect](const FakeCall& call) {
      const std::vector<std::string> texts = test::TextsOf(call);
      if (dialect == Dialect::kTei) return FakeReply{.body = test::AnswerList(texts, kTestDim)};
      const std::string member = dialect == Dialect::kVllm ? "data" : "embedding";
      return FakeReply{.body = test::AnswerObjects(texts, kTestDim, member)};
    });
    HttpEncoderOptions options = OptionsFor(fake);
    options.dialect = dialect;
    options.url += "/base/";
    options.identity.query_prefix = "q: ";
    const auto encoder = MakeEncoder(options);
    ExpectMatrices(EncodeNow(*encoder, Queries({"one", "two words"})), {"q: one", "q: two words"});
    ExpectMatrices(EncodeNow(*encoder, Documents({"three"})), {"three"});
    EXPECT_EQ(fake.calls().front().target, absl::StrCat("/base", std::string(EncodePath(dialect))));
    EXPECT_EQ(fake.calls().front().method, "POST");
    EXPECT_EQ(fake.num_connections(), 1);
  }
}

TEST(EncoderTest, PromptNamesTellTheKinds) {
  FakeEncoder fake(
      [](const FakeCall& call) { return FakeReply{.body = test::AnswerList(test::TextsOf(call), kTestDim)}; });
  HttpEncoderOptions options = OptionsFor(fake);
  options.dialect = Dialect::kTei;
  options.query_prompt_name = "the query";
  options.document_prompt_name = "the document";
  const auto encoder = MakeEncoder(options);
  ExpectMatrices(EncodeNow(*encoder, Queries({"one"})), {"one"});
  ExpectMatrices(EncodeNow(*encoder, Documents({"two"})), {"two"});
  const std::vector<FakeCall> calls = fake.calls();
  EXPECT_EQ(nlohmann::json::parse(calls[0].body)["prompt_name"], "the query");
  EXPECT_EQ(nlohmann::json::parse(calls[1].body)["prompt_name"], "the document");
}

TEST(EncoderTest, KindsThatNothingTellsApartAreWarnedOf) {
  HttpEncoderOptions options;
  for (const Dialect dialect : {Dialect::kMaxsim, Dialect::kOpenAi}) {
    options.dialect = dialect;
    EXPECT_TRUE(TellsKindsApart(options));
  }
  for (const Dialect dialect : {Dialect::kVllm, Dialect::kTei}) {
    HttpEncoderOptions alike;
    alike.dialect = dialect;
    EXPECT_FALSE(TellsKindsApart(alike));
    alike.identity.query_prefix = alike.identity.document_prefix = "text: ";
    EXPECT_FALSE(TellsKindsApart(alike));
    alike.identity.query_prefix = "query: ";
    EXPECT_TRUE(TellsKindsApart(alike));
  }
  options.dialect = Dialect::kTei;
  options.document_prompt_name = "document";
  EXPECT_TRUE(TellsKindsApart(options));

  LogText log;
  options.url = "http://127.0.0.1:1";
  MakeEncoder(options);
  EXPECT_EQ(log.text().find("encoder_kinds_alike"), std::string::npos) << log.text();
  options.document_prompt_name = "";
  MakeEncoder(options);
  EXPECT_THAT(log.text(), HasSubstr("encoder_kinds_alike"));
  EXPECT_THAT(log.text(), HasSubstr("encoder.query_prompt_name"));
}

std::string Sidecar(const std::vector<std::string>& texts, const std::string& fingerprint) {
  std::string bytes;
  std::vector<int64_t> lengths;
  for (const std::string& text : texts) {
    const std::vector<float> values = test::MatrixOf(text, kTestDim);
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    lengths.push_back(static_cast<int64_t>(values.size()) / kTestDim);
  }
  std::vector<collection::SafetensorsTensor> tensors = {
      {.name = "tokens", .dtype = "F32", .shape = {static_cast<int64_t>(bytes.size()) / 4 / kTestDim, kTestDim}},
      {.name = "lengths", .dtype = "I64", .shape = {static_cast<int64_t>(lengths.size())}}};
  std::string answer = FormatSafetensorsHeader({{"model", "demo"}, {"fingerprint", fingerprint}}, tensors, 8) + bytes;
  return answer + std::string(reinterpret_cast<const char*>(lengths.data()), lengths.size() * 8);
}

std::string Info(const std::string& fingerprint) {
  return nlohmann::json({{"model", "demo"},
                         {"fingerprint", fingerprint},
                         {"dim", kTestDim},
                         {"query_prefix", "[Q] "},
                         {"document_length", 300},
                         {"query_expansion", true}})
      .dump();
}

TEST(EncoderTest, TheSidecarSaysWhoItIs) {
  FakeEncoder fake([](const FakeCall& call) {
    return FakeReply{.body = call.target == "/info" ? Info("f1") : Sidecar(test::TextsOf(call), "f1")};
  });
  HttpEncoderOptions options = OptionsFor(fake);
  options.dialect = Dialect::kMaxsim;
  options.identity = {};
  const auto encoder = MakeEncoder(options);
  // The encoder adds its prefix itself.
  ExpectMatrices(EncodeNow(*encoder, Queries({"one", "two words"})), {"one", "two words"});
  EXPECT_EQ(encoder->identity().model, "demo");
  EXPECT_EQ(encoder->identity().fingerprint, "f1");
  EXPECT_EQ(encoder->identity().query_prefix, "[Q] ");
  EXPECT_EQ(encoder->identity().document_length, 300);
  EXPECT_TRUE(encoder->identity().query_expansion);
}

TEST(EncoderTest, AnotherModelBehindTheSidecarIsNoticed) {
  std::atomic<bool> is_new{false};
  FakeEncoder fake([&](const FakeCall& call) {
    const std::string fingerprint = is_new ? "f2" : "f1";
    return FakeReply{.body = call.target == "/info" ? Info(fingerprint) : Sidecar(test::TextsOf(call), fingerprint)};
  });
  HttpEncoderOptions options = OptionsFor(fake);
  options.dialect = Dialect::kMaxsim;
  options.identity = {};
  const auto encoder = MakeEncoder(options);
  ExpectMatrices(EncodeNow(*encoder, Queries({"one"})), {"one"});
  is_new = true;
  const EncodeResult changed = EncodeNow(*encoder, Queries({"one"}));
  EXPECT_EQ(changed.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(changed.status().message(), HasSubstr("f1"));
  EXPECT_THAT(changed.status().message(), HasSubstr("f2"));
  ExpectMatrices(EncodeNow(*encoder, Queries({"one"})), {"one"});
  EXPECT_EQ(encoder->identity().fingerprint, "f2");
}

TEST(EncoderTest, ASidecarWithAnotherModelThanConfiguredIsRefused) {
  FakeEncoder fake([](const FakeCall& call) { return FakeReply{.body = Info("f1")}; });
  HttpEncoderOptions options = OptionsFor(fake);
  options.dialect = Dialect::kMaxsim;
  const auto encoder = MakeEncoder(options);
  const EncodeResult result = EncodeNow(*encoder, Queries({"one"}));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(result.status().message(), HasSubstr("demo"));
  EXPECT_THAT(result.status().message(), HasSubstr("the configuration says model"));
}

TEST(EncoderTest, ADimensionThatIsNotConfiguredIsThatOfTheFirstAnswer) {
  std::atomic<int> dim{16};
  FakeEncoder fake(
      [&](const FakeCall& call) { return FakeReply{.body = test::AnswerObjects(test::TextsOf(call), dim, "data")}; });
  HttpEncoderOptions options = OptionsFor(fake);
  options.identity.dim = 0;
  const auto encoder = MakeEncoder(options);
  EXPECT_EQ(encoder->identity().dim, 0);
  ASSERT_TRUE(EncodeNow(*encoder, Queries({"one"})).ok());
  EXPECT_EQ(encoder->identity().dim, 16);
  dim = 24;
  EXPECT_EQ(EncodeNow(*encoder, Queries({"one"})).status().code(), absl::StatusCode::kInternal);
}

TEST(EncoderTest, TheTokenOfTheFileIsSent) {
  FakeEncoder fake([](const FakeCall& call) {
    if (call.authorization != "Bearer secret") return FakeReply{.status = 401, .body = "who are you"};
    return Right(call);
  });
  HttpEncoderOptions options = OptionsFor(fake);
  const EncodeResult refused = EncodeNow(*MakeEncoder(options), Queries({"one"}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().message(), HasSubstr(fake.url() + "/pooling"));
  EXPECT_THAT(refused.status().message(), HasSubstr("encoder.token_file"));
  EXPECT_THAT(refused.status().message(), HasSubstr("status 401"));
  options.token_file = WriteFile("encoder_token", "# of the test\nsecret\n");
  ExpectMatrices(EncodeNow(*MakeEncoder(options), Queries({"one"})), {"one"});
}

TEST(EncoderTest, TlsChecksTheEncodersCertificateAndName) {
  const test::FakeCertificate certificate = test::MakeCertificate();
  FakeEncoder fake(Right, &certificate);
  HttpEncoderOptions options = OptionsFor(fake);
  options.tls_ca_file = WriteFile("encoder_ca.pem", certificate.certificate);
  options.tls_server_name = "encoder.test";
  const auto encoder = MakeEncoder(options);
  ExpectMatrices(EncodeNow(*encoder, Queries({"one"})), {"one"});
  ExpectMatrices(EncodeNow(*encoder, Queries({"two"})), {"two"});
  EXPECT_EQ(fake.num_connections(), 1);

  options.tls_server_name = "";
  const EncodeResult wrong_name = EncodeNow(*MakeEncoder(options), Queries({"one"}));
  EXPECT_EQ(wrong_name.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(wrong_name.status().message(), HasSubstr("TLS handshake"));

  options.tls_server_name = "encoder.test";
  options.tls_ca_file = WriteFile("encoder_other_ca.pem", test::MakeCertificate().certificate);
  EXPECT_THAT(EncodeNow(*MakeEncoder(options), Queries({"one"})).status().message(), HasSubstr("TLS handshake"));
}

TEST(EncoderTest, WhatCannotWorkIsRefusedAtTheStart) {
  FakeEncoder fake(Right);
  const auto error = [&](auto change) {
    HttpEncoderOptions options = OptionsFor(fake);
    change(options);
    return std::string(HttpEncoder::Create(options, nullptr).status().message());
  };
  EXPECT_THAT(error([](auto& o) { o.url = "encoder:80"; }), HasSubstr("encoder.url: \"encoder:80\""));
  EXPECT_THAT(error([](auto& o) { o.token_file = "/nowhere/token"; }), HasSubstr("encoder.token_file"));
  EXPECT_THAT(error([](auto& o) { o.token_file = WriteFile("encoder_empty", "\n"); }), HasSubstr("holds no token"));
  EXPECT_THAT(error([](auto& o) { o.token_file = WriteFile("encoder_blank", "a b\n"); }), HasSubstr(":1: a token"));
  EXPECT_THAT(error([](auto& o) { o.tls_ca_file = "/ca"; }), HasSubstr("https://"));
  EXPECT_THAT(error([](auto& o) { o.tls_key_file = "/key"; }), HasSubstr("given together"));
  EXPECT_THAT(error([](auto& o) {
                o.url = "https://a";
                o.tls_ca_file = "/nowhere/ca";
              }),
              HasSubstr("encoder.tls_ca_file"));
  EXPECT_THAT(error([](auto& o) {
                o.url = "https://a";
                o.tls_ca_file = WriteFile("encoder_no_ca", "x");
              }),
              HasSubstr("encoder.tls_ca_file"));
  EXPECT_THAT(error([](auto& o) { o.identity.dim = 5000; }), HasSubstr("encoder.dim: 5000"));
}

TEST(EncoderTest, TextsThatNoEncoderCouldTakeAreRefusedAtOnce) {
  FakeEncoder fake(Right);
  const auto encoder = MakeEncoder(OptionsFor(fake));
  EXPECT_EQ(EncodeNow(*encoder, Queries({})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(EncodeNow(*encoder, Queries({"a", "\xff"})).status().message(), HasSubstr("text 1 is not UTF-8"));
  EXPECT_EQ(fake.num_calls(), 0);
}

TEST(EncoderTest, CallsAreCounted) {
  Metrics metrics;
  FakeEncoder fake(Right);
  {
    const auto encoder = MakeEncoder(OptionsFor(fake), &metrics);
    ExpectMatrices(EncodeNow(*encoder, Queries({"one", "two"})), {"one", "two"});
  }
  const std::string text = metrics.Expose();
  EXPECT_THAT(text, HasSubstr("maxsim_encoder_calls_total{result=\"ok\"} 1"));
  EXPECT_THAT(text, HasSubstr("maxsim_encoder_call_texts_sum 2"));
  EXPECT_THAT(text, HasSubstr("maxsim_encoder_call_duration_seconds_count 1"));
  EXPECT_THAT(text, HasSubstr("maxsim_encoder_queue_texts 0"));
  EXPECT_THAT(text, HasSubstr("maxsim_encoder_breaker_state 0"));
}

TEST(EncoderTest, BigAnswersAreReadBesideTheLoop) {
  FakeEncoder fake(Right);
  HttpEncoderOptions options = OptionsFor(fake);
  options.max_batch_texts = 4;
  const auto encoder = MakeEncoder(options);
  std::string text = "word";
  for (int idx = 0; idx < 1000; ++idx) text += " word";
  std::vector<PendingEncode> pending;
  for (int idx = 0; idx < 8; ++idx) pending.emplace_back(*encoder, Documents({text, text, text}));
  for (PendingEncode& one : pending) ExpectMatrices(one.Wait(), {text, text, text});
}

}  // namespace
}  // namespace maxsim::encoder
