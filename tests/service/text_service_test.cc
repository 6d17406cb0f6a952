// Sends texts to a server with a fake encoder. Texts must get the scores of the encoder's vectors.
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "maxsim/v1/documents.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"
#include "tests/service/text_fixture.h"
#include "tests/support/connections/fake_encoder.h"

namespace maxsim::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

v1::TokenMatrix Encoded(const std::string& text, int dim) {
  const std::vector<float> values = MatrixOf(text, dim);
  v1::TokenMatrix matrix;
  matrix.set_dtype(v1::DATA_TYPE_F32);
  matrix.set_num_tokens(static_cast<uint32_t>(values.size()) / static_cast<uint32_t>(dim));
  matrix.set_dim(static_cast<uint32_t>(dim));
  matrix.set_data(values.data(), values.size() * sizeof(float));
  return matrix;
}

TEST_F(TextServiceTest, ATextScoresAsItsVectorsDo) {
  for (const ScalarType storage : {ScalarType::kF16, ScalarType::kI8}) {
    Start(TeiHandler(kDim), nullptr, storage);
    v1::RerankRequest request = TextRequest("some words of a question");
    const v1::RerankResponse text = Answer(request);
    EXPECT_EQ(text.encoded_tokens(), 5u);
    EXPECT_GT(text.timings().encode_us(), 0);
    request.mutable_queries(0)->clear_text();
    *request.mutable_queries(0)->mutable_tokens() = Encoded("some words of a question", kDim);
    const v1::RerankResponse vectors = Answer(request);
    EXPECT_EQ(text.results(0).SerializeAsString(), vectors.results(0).SerializeAsString());
    EXPECT_EQ(vectors.encoded_tokens(), 0u);
    EXPECT_EQ(vectors.timings().encode_us(), 0);
  }
}

TEST_F(TextServiceTest, DocumentsMayBeTextsWithACollectionAndWithout) {
  Start(TeiHandler(kDim));
  for (const char* collection : {"corpus", ""}) {
    v1::RerankRequest request = TextRequest("a question");
    request.set_collection(collection);
    v1::Candidates& own = *request.add_queries()->mutable_candidates();
    request.mutable_queries(1)->set_text("another");
    own.mutable_inline_documents()->add_texts("of the second query alone");
    for (const char* text : {"one two", "a", "three four five"}) {
      request.mutable_candidates()->mutable_inline_documents()->add_texts(text);
    }
    const v1::RerankResponse texts = Answer(request);
    ASSERT_EQ(texts.results_size(), 2);
    EXPECT_EQ(texts.results(0).scores_size(), 3);
    EXPECT_EQ(texts.results(1).scores_size(), 1);
    EXPECT_EQ(texts.generation(), *collection == '\0' ? 0u : 1u);

    v1::RerankRequest vectors = request;
    for (v1::Query& query : *vectors.mutable_queries()) {
      *query.mutable_tokens() = Encoded(query.text(), kDim);
      query.clear_text();
    }
    for (v1::Candidates* candidates :
         {vectors.mutable_candidates(), vectors.mutable_queries(1)->mutable_candidates()}) {
      v1::InlineDocuments& list = *candidates->mutable_inline_documents();
      for (const std::string& text : list.texts()) *list.add_documents() = Encoded(text, kDim);
      list.clear_texts();
    }
    const v1::RerankResponse answer = Answer(vectors);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(texts.results(i).SerializeAsString(), answer.results(i).SerializeAsString()) << collection;
    }
  }
}

TEST_F(TextServiceTest, ACachedQueryIsNotEncodedAgain) {
  // Sets the encoder's dimension in the configuration. Otherwise the server would learn it from the first answer. That
  // answer would not be found in the cache, because the dimension is part of the key.
  Start(TeiHandler(kDim), [](config::Config* config) { config->encoder.http.identity.dim = kDim; });
  const v1::RerankRequest request = TextRequest("again and again");
  const std::string first = Answer(request).results(0).SerializeAsString();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Answer(request).results(0).SerializeAsString(), first);
  EXPECT_EQ(encoder_->num_calls(), 1);
}

TEST_F(TextServiceTest, TextsThatAreWrongCostTheEncoderNothing) {
  Start(TeiHandler(kDim));
  struct Case {
    std::function<void(v1::RerankRequest*)> change;
    grpc::StatusCode code;
    std::string text;
  };
  const std::vector<Case> cases = {
      {[](auto* r) { r->mutable_queries(0)->set_text(""); }, grpc::INVALID_ARGUMENT, "queries[0].text: is empty"},
      {[](auto* r) { r->mutable_queries(0)->set_text(" \n"); }, grpc::INVALID_ARGUMENT, "queries[0].text: is empty"},
      {[](auto* r) { *r->mutable_queries(0)->mutable_tokens() = Encoded("a", kDim); }, grpc::INVALID_ARGUMENT,
       "queries[0]: has tokens and text"},
      {[](auto* r) { r->set_collection("other"); }, grpc::NOT_FOUND, "other"},
      {[](auto* r) { r->set_top_k(20000); }, grpc::INVALID_ARGUMENT, "top_k: is 20000"},
      {[](auto* r) {
         r->mutable_candidates()->mutable_inline_documents()->add_texts("a");
         *r->mutable_candidates()->mutable_inline_documents()->add_documents() = Encoded("a", kDim);
       },
       grpc::INVALID_ARGUMENT, "has documents and texts"},
      {[](auto* r) {
         for (int i = 0; i < 1025; ++i) r->mutable_candidates()->mutable_inline_documents()->add_texts("a");
       },
       grpc::INVALID_ARGUMENT, "has 1025 documents; must have 1 to 1024 (limits.max_inline_documents)"},
      {[](auto* r) { r->clear_collection(); }, grpc::INVALID_ARGUMENT, "collection: is empty"},
      {[](auto* r) { r->set_generation(2); }, grpc::FAILED_PRECONDITION,
       "collection corpus: is of generation 1, but generation 2 was asked for (generation)"},
  };
  for (const Case& one : cases) {
    v1::RerankRequest request = TextRequest("a question");
    one.change(&request);
    const grpc::Status status = StatusOf(request);
    EXPECT_EQ(status.error_code(), one.code) << one.text;
    EXPECT_THAT(status.error_message(), HasSubstr(one.text));
  }
  EXPECT_EQ(encoder_->num_calls(), 0);
}

TEST_F(TextServiceTest, ABlankDocumentScoresZeroAndFailsNoOther) {
  for (const ScalarType storage : {ScalarType::kF16, ScalarType::kI8}) {
    Start(TeiHandler(kDim), nullptr, storage);
    for (const char* collection : {"corpus", ""}) {
      v1::RerankRequest request = TextRequest("a question");
      request.set_collection(collection);
      for (const char* text : {"", "one two", " \t\n", "\u3000\u00a0", "a"}) {
        request.mutable_candidates()->mutable_inline_documents()->add_texts(text);
      }
      const v1::QueryResult result = Answer(request).results(0);
      ASSERT_EQ(result.scores_size(), 5);
      for (int i = 0; i < 5; ++i) {
        const uint64_t position = result.positions(i);
        EXPECT_EQ(result.scores(i) == 0, position != 1 && position != 4) << position << ": " << result.scores(i);
      }
    }
    for (const FakeCall& call : encoder_->calls()) {
      EXPECT_THAT(TextsOf(call), testing::Each(testing::AnyOf("a question", "one two", "a")));
    }
  }
}

TEST_F(TextServiceTest, BlankDocumentsAloneAreScoredByVectorsToo) {
  Start(TeiHandler(kDim));
  v1::RerankRequest request = TextRequest("");
  request.mutable_queries(0)->clear_text();
  *request.mutable_queries(0)->mutable_tokens() = Encoded("a", kDim);
  for (int i = 0; i < 2; ++i) request.mutable_candidates()->mutable_inline_documents()->add_texts("");
  EXPECT_THAT(Answer(request).results(0).scores(), testing::ElementsAre(0, 0));
  EXPECT_EQ(encoder_->num_calls(), 0);
  // The server must not allocate memory by the dimension that a client sends.
  request.mutable_queries(0)->mutable_tokens()->set_dim(4'000'000'000);
  EXPECT_EQ(StatusOf(request).error_code(), grpc::INVALID_ARGUMENT);
  request.mutable_queries(0)->mutable_tokens()->set_dim(4096);
  for (int q = 0; q < 8; ++q) {
    if (q > 0) *request.add_queries() = request.queries(0);
    v1::InlineDocuments& own = *request.mutable_queries(q)->mutable_candidates()->mutable_inline_documents();
    while (own.texts_size() < 1000) own.add_texts(" ");
  }
  const grpc::Status refused = StatusOf(request);
  EXPECT_EQ(refused.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), testing::HasSubstr("blank documents, whose vectors of dimension 4096"));
}

// Answers like an encoder with the dialect "maxsim" that truncated all texts with the word "long".
FakeReply AnswerWithTruncated(const FakeCall& call) {
  if (call.method == "GET") {
    return {.body = R"({"model": "m", "fingerprint": "f", "dim": 32, "query_prefix": "", "document_prefix": "",
                        "query_length": 32, "document_length": 300, "query_expansion": false})"};
  }
  std::string tokens;
  std::vector<int64_t> lengths;
  json truncated = json::array();
  for (const std::string& text : TextsOf(call)) {
    const std::vector<float> values = MatrixOf(text, kDim);
    tokens.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    if (text.find("long") != text.npos) truncated.push_back(lengths.size());
    lengths.push_back(static_cast<int64_t>(values.size()) / kDim);
  }
  const size_t lengths_bytes = lengths.size() * sizeof(int64_t);
  const json header = {
      {"__metadata__", {{"model", "m"}, {"fingerprint", "f"}, {"truncated", truncated.dump()}}},
      {"lengths", {{"dtype", "I64"}, {"shape", {lengths.size()}}, {"data_offsets", {0, lengths_bytes}}}},
      {"tokens",
       {{"dtype", "F32"},
        {"shape", {tokens.size() / sizeof(float) / kDim, kDim}},
        {"data_offsets", {lengths_bytes, lengths_bytes + tokens.size()}}}}};
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t size = text.size();
  std::string body(reinterpret_cast<const char*>(&size), sizeof(size));
  body += text;
  body.append(reinterpret_cast<const char*>(lengths.data()), lengths_bytes);
  return {.body = body + tokens};
}

TEST_F(TextServiceTest, TextsThatTheEncoderCutAreMarked) {
  Start(AnswerWithTruncated, [](config::Config* config) { config->encoder.http.dialect = encoder::Dialect::kMaxsim; });
  v1::RerankRequest request = TextRequest("a long question");
  request.mutable_candidates()->clear_whole_collection();
  for (const char* text : {"short", "long one two", "", "a"}) {
    request.mutable_candidates()->mutable_inline_documents()->add_texts(text);
  }
  request.add_queries()->set_text("short");
  request.mutable_queries(1)->mutable_candidates()->mutable_inline_documents()->add_texts("a");
  request.add_queries()->set_text("long again");
  request.mutable_queries(2)->mutable_candidates()->mutable_whole_collection();
  for (int i = 0; i < 2; ++i) {  // the second time, the query comes from the cache
    const v1::RerankResponse response = Answer(request);
    const v1::QueryResult& first = response.results(0);
    EXPECT_TRUE(first.query_truncated());
    ASSERT_EQ(first.truncated_size(), 4);
    for (int hit = 0; hit < 4; ++hit) EXPECT_EQ(first.truncated(hit), first.positions(hit) == 1) << hit;
    EXPECT_FALSE(response.results(1).query_truncated());
    EXPECT_EQ(response.results(1).truncated_size(), 0);
    EXPECT_TRUE(response.results(2).query_truncated());
    EXPECT_EQ(response.results(2).truncated_size(), 0);
  }
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Answer(TextRequest("long and cached")).results(0).query_truncated());

  const json body = {{"query", "a long question"}, {"documents", {"long document", "short"}}};
  const HttpAnswer answer = HttpPost(server_->http_port(), "/text/v1/rerank", body.dump(), "application/json");
  const json answered = json::parse(answer.body, nullptr, false);
  EXPECT_EQ(answered["query_truncated"], true) << answer.body;
  ASSERT_EQ(answered["results"].size(), 2u) << answer.body;
  for (const json& result : answered["results"]) EXPECT_EQ(result.contains("truncated"), result["index"] == 0);
}

TEST_F(TextServiceTest, DocumentsThatTheEncoderCutAreMarkedWhenTheyAreWritten) {
  const TemporaryFolder root;
  Start(AnswerWithTruncated, [&](config::Config* config) {
    config->encoder.http.dialect = encoder::Dialect::kMaxsim;
    config->allowed_roots = {root.path()};
  });
  grpc::ClientContext create_context;
  v1::CreateCollectionRequest create;
  create.set_name("live");
  create.set_dim(kDim);
  v1::CreateCollectionResponse created;
  const grpc::Status made = server_->admin().CreateCollection(&create_context, create, &created);
  ASSERT_TRUE(made.ok()) << made.error_message();
  v1::UpsertRequest request;
  request.set_collection("live");
  for (const char* text : {"short", "a long document", "a", "also long"}) {
    v1::Document& document = *request.add_documents();
    document.set_string_id(text);
    document.set_text(text);
  }
  request.mutable_documents(2)->clear_text();
  *request.mutable_documents(2)->mutable_tokens() = Encoded("a", kDim);
  const auto documents = v1::Documents::NewStub(server_->channel());
  grpc::ClientContext context;
  v1::UpsertResponse response;
  const grpc::Status status = documents->Upsert(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results_size(), 4);
  for (const int idx : {0, 1, 2, 3}) EXPECT_EQ(response.results(idx).truncated(), idx % 2 == 1) << idx;
}

TEST_F(TextServiceTest, AnExplanationSaysThatTheEncoderCutItsQuery) {
  Start(AnswerWithTruncated, [](config::Config* config) { config->encoder.http.dialect = encoder::Dialect::kMaxsim; });
  for (const bool is_cut : {true, false}) {
    v1::RerankRequest request = TextRequest(is_cut ? "a long question" : "a question");
    request.mutable_candidates()->mutable_string_ids()->add_ids("doc-1");
    grpc::ClientContext context;
    v1::ExplainResponse response;
    const grpc::Status status = server_->stub().Explain(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.query_truncated(), is_cut);
  }
}

}  // namespace
}  // namespace maxsim::test
