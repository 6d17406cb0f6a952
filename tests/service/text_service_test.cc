// Sends texts to a whole server, whose encoder is a fake that makes small matrices of them.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"
#include "tests/support/connections/fake_encoder.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// An encoder in the dialect tei, whose vectors have `dim` values.
FakeEncoder::Handler TeiHandler(int dim) {
  return [dim](const FakeCall& call) { return FakeReply{.body = AnswerList(TextsOf(call), dim)}; };
}

v1::TokenMatrix Encoded(const std::string& text, int dim) {
  const std::vector<float> values = MatrixOf(text, dim);
  v1::TokenMatrix matrix;
  matrix.set_dtype(v1::DATA_TYPE_F32);
  matrix.set_num_tokens(static_cast<uint32_t>(values.size()) / static_cast<uint32_t>(dim));
  matrix.set_dim(static_cast<uint32_t>(dim));
  matrix.set_data(values.data(), values.size() * sizeof(float));
  return matrix;
}

class TextServiceTest : public testing::Test {
 protected:
  void Start(const FakeEncoder::Handler& handler, const std::function<void(config::Config*)>& change = nullptr,
             ScalarType storage = ScalarType::kF16) {
    encoder_ = std::make_unique<FakeEncoder>(handler);
    server_ = std::make_unique<RunningServer>(
        [&](config::Config* config) {
          config->encoder.http.url = encoder_->url();
          config->encoder.http.dialect = encoder::Dialect::kTei;
          config->encoder.http.window = absl::ZeroDuration();
          if (change != nullptr) change(config);
        },
        nullptr, storage);
  }

  static v1::RerankRequest TextRequest(const std::string& text) {
    v1::RerankRequest request;
    request.set_collection("corpus");
    request.set_top_k(20);
    request.add_queries()->set_text(text);
    request.mutable_candidates()->mutable_whole_collection();
    return request;
  }

  v1::RerankResponse Answer(const v1::RerankRequest& request) {
    v1::RerankResponse response;
    const grpc::Status status = server_->Rerank(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  grpc::Status StatusOf(const v1::RerankRequest& request, std::chrono::milliseconds timeout = kTestLimit) {
    v1::RerankResponse response;
    return server_->Rerank(request, &response, timeout);
  }

  std::unique_ptr<FakeEncoder> encoder_;
  std::unique_ptr<RunningServer> server_;
};

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
  // The first answer says how wide the encoder's vectors are, and belongs to no encoder that is known yet.
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
       grpc::INVALID_ARGUMENT, "has 1025 documents, and 1 to 1024 (limits.max_inline_documents) are accepted"},
      {[](auto* r) { r->clear_collection(); }, grpc::INVALID_ARGUMENT, "collection: is empty"},
      {[](auto* r) { r->set_generation(2); }, grpc::FAILED_PRECONDITION,
       "collection corpus: is of generation 1, and generation 2 was asked for (generation)"},
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
  // A client's dimension does not decide how much memory is taken.
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

TEST_F(TextServiceTest, HttpRepeatsABlankDocumentAsItWasSent) {
  Start(TeiHandler(kDim));
  const auto post = [&](const char* path, const json& body) {
    const HttpAnswer answer = HttpPost(server_->http_port(), path, body.dump(), "application/json");
    EXPECT_EQ(answer.status, 200) << path << ": " << answer.body;
    return json::parse(answer.body, nullptr, false);
  };
  const json body = {{"query", "why"}, {"documents", {"one", ""}}, {"return_documents", true}};
  const json results = post("/text/v1/rerank", body)["results"];
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1]["relevance_score"], 0.0);
  EXPECT_EQ(results[1]["document"]["text"], "");
  const json fields = {{"query", "why"}, {"documents", {{{"a", ""}}, {{"a", "one"}}}}, {"rank_fields", {"a"}}};
  EXPECT_EQ(post("/text/v1/rerank", fields)["results"].size(), 2u);
}

// An encoder in the dialect maxsim that says of texts with "long" that it cut them.
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
  for (int i = 0; i < 2; ++i) {  // also from the cache, where one query is asked
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

TEST_F(TextServiceTest, VectorsOfAnotherWidthAreRefusedByName) {
  Start(TeiHandler(16));
  for (int attempt = 0; attempt < 2; ++attempt) {  // before and after the encoder's width is known
    const grpc::Status status = StatusOf(TextRequest("a question"));
    EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
    EXPECT_THAT(status.error_message(), HasSubstr("collection corpus has dimension 32"));
    EXPECT_THAT(status.error_message(), HasSubstr("have 16"));
  }
  EXPECT_EQ(encoder_->num_calls(), 1);
}

TEST_F(TextServiceTest, AServerWithoutAnEncoderSaysSo) {
  RunningServer server;
  v1::RerankResponse response;
  const grpc::Status status = server.Rerank(TextRequest("a question"), &response);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("encoder.url"));
  v1::GetInfoResponse info;
  grpc::ClientContext context;
  ASSERT_TRUE(server.stub().GetInfo(&context, v1::GetInfoRequest(), &info).ok());
  EXPECT_FALSE(info.has_encoder());
}

TEST_F(TextServiceTest, AnEncoderThatHangsHoldsUpNoVectors) {
  Start([](const FakeCall&) { return FakeReply{.delay = 1h}; },
        [](config::Config* config) { config->encoder.http.timeout = absl::Hours(1); });
  std::atomic<bool> is_over{false};
  std::thread waiting([&] {
    EXPECT_EQ(StatusOf(TextRequest("a question"), 3s).error_code(), grpc::DEADLINE_EXCEEDED);
    is_over = true;
  });
  EXPECT_TRUE(Eventually([&] { return is_over || !encoder_->calls().empty(); }));
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, kDim, 6);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(StatusOf(MakeRequest("corpus", query, {"doc-1", "doc-2"}, 2)).ok());
  }
  waiting.join();
}

TEST_F(TextServiceTest, AnEncoderThatHangsLeavesPlacesOfTheHttpPort) {
  std::promise<void> open;
  Start(
      [opened = open.get_future().share()](const FakeCall& call) {
        opened.wait();
        return FakeReply{.body = AnswerList(TextsOf(call), kDim)};
      },
      [](config::Config* config) {
        config->encoder.http.timeout = absl::Hours(1);
        config->http.max_concurrent_requests = 4;
      });
  const auto post = [&](const json& query) {
    const json body = {{"query", query}, {"documents", {"doc-1"}}};
    return HttpPost(server_->http_port(), "/v1/rerank", body.dump(), "application/json");
  };
  std::vector<std::thread> waiting;
  for (int i = 0; i < 2; ++i) waiting.emplace_back([&] { EXPECT_EQ(post("a question").status, 200); });
  EXPECT_TRUE(encoder_->WaitForCalls(2));
  const HttpAnswer refused = post("one more");
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(refused.retry_after, "1");
  EXPECT_THAT(refused.body, HasSubstr("http.max_concurrent_requests: 2 calls with texts are in progress"));
  EXPECT_EQ(post(json::array({json(std::vector<float>(kDim, 0.5F))})).status, 200);
  open.set_value();
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(post("their places are free").status, 200);
}

TEST_F(TextServiceTest, AnEncoderThatFailsIsQuoted) {
  struct Case {
    FakeReply reply;
    grpc::StatusCode code;
    std::string text;
  };
  const std::vector<Case> cases = {
      {{.status = 422, .body = R"({"error": "the text is odd"})"}, grpc::INVALID_ARGUMENT, "queries[0].text: "},
      {{.status = 422, .body = R"({"error": "the text is odd"})"}, grpc::INVALID_ARGUMENT, "status 422"},
      {{.status = 500, .body = "sick"}, grpc::UNAVAILABLE, "status 500"},
      {{.body = "[[[1, 2"}, grpc::UNAVAILABLE, "encoder"},
      {{.body = "[[[1e400]]]"}, grpc::UNAVAILABLE, "encoder"},
      {{.body = AnswerList({"a"}, kDim), .is_cut_off = true}, grpc::UNAVAILABLE, "encoder"},
      {{.closes_unanswered = true}, grpc::UNAVAILABLE, "encoder"},
  };
  for (const Case& one : cases) {
    Start([reply = one.reply](const FakeCall&) { return reply; });
    const grpc::Status status = StatusOf(TextRequest("a question"));
    EXPECT_EQ(status.error_code(), one.code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(one.text));
  }
}

TEST_F(TextServiceTest, AcceptedTextsAreAnsweredWhenTheServerStops) {
  Start([](const FakeCall& call) { return FakeReply{.body = AnswerList(TextsOf(call), kDim), .delay = 500ms}; });
  grpc::Status status(grpc::UNKNOWN, "");
  std::thread waiting([&] { status = StatusOf(TextRequest("a question")); });
  ASSERT_TRUE(encoder_->WaitForCalls(1));
  EXPECT_EQ(server_->Stop(), 0);
  waiting.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(TextServiceTest, AnEncoderThatOutlastsTheGraceIsCutOff) {
  Start([](const FakeCall&) { return FakeReply{.delay = 1h}; },
        [](config::Config* config) { config->server.shutdown_grace = absl::Milliseconds(200); });
  grpc::Status status;
  std::thread waiting([&] { status = StatusOf(TextRequest("a question")); });
  ASSERT_TRUE(encoder_->WaitForCalls(1));
  server_->Stop();
  waiting.join();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE) << status.error_message();
}

TEST_F(TextServiceTest, HttpTakesTextsOnEveryPath) {
  Start(TeiHandler(kDim));
  const auto post = [&](const char* path, const json& body) {
    const HttpAnswer answer = HttpPost(server_->http_port(), path, body.dump(), "application/json");
    EXPECT_EQ(answer.status, 200) << path << ": " << answer.body;
    return json::parse(answer.body, nullptr, false);
  };
  const json texts = {"one two", "a", "three four five"};
  const json results = post("/text/v1/rerank", {{"query", "why"}, {"documents", texts}})["results"];
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(post("/text/v2/rerank", {{"model", "m"}, {"query", "why"}, {"documents", texts}})["results"], results);
  EXPECT_EQ(
      post("/text/v1/rerank", {{"model", "m"}, {"query", "why"}, {"documents", texts}, {"top_k", nullptr}})["data"],
      results);
  const json list = post("/text/rerank", {{"query", "why"}, {"texts", texts}});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(list[i]["index"], results[i]["index"]);
    EXPECT_EQ(list[i]["score"], results[i]["relevance_score"]);
  }
  // A string is an id elsewhere, and the query is a text all the same.
  const json stored = post("/v1/rerank", {{"query", "why"}, {"documents", {"doc-3", "doc-7"}}});
  EXPECT_EQ(stored["results"].size(), 2u);
  EXPECT_EQ(stored["model"], "corpus");
  EXPECT_EQ(stored["usage"]["total_tokens"], 1);
  // Whoever forgets /text is told so.
  const HttpAnswer forgotten = HttpPost(server_->http_port(), "/v2/rerank",
                                        json{{"query", "why"}, {"documents", texts}}.dump(), "application/json");
  EXPECT_EQ(forgotten.status, 404) << forgotten.body;
  EXPECT_THAT(forgotten.body,
              HasSubstr("documents: none of 3 ids is known; where the documents are texts, ask /text/v2/rerank"));
  EXPECT_THAT(forgotten.body, HasSubstr("NOT_FOUND"));
  const HttpAnswer unknown =
      HttpPost(server_->http_port(), "/rerank", json{{"query", "why"}, {"texts", {"doc-3", "nobody"}}}.dump(),
               "application/json");
  EXPECT_EQ(unknown.status, 404) << unknown.body;
  EXPECT_THAT(unknown.body, HasSubstr("nobody"));
}

// A client of another service sends that service's model name, and texts as strings.
TEST_F(TextServiceTest, AnotherServicesModelWithTextsIsToldOfTheTextPath) {
  Start(TeiHandler(kDim));
  const auto message = [&](const char* path, const json& body) {
    const HttpAnswer answer = HttpPost(server_->http_port(), path, body.dump(), "application/json");
    EXPECT_EQ(answer.status, 404) << answer.body;
    return json::parse(answer.body)["message"].get<std::string>();
  };
  const json body = {{"model", "rerank-v3.5"}, {"query", "why"}, {"documents", {"a text"}}};
  EXPECT_THAT(message("/v1/rerank", body),
              AllOf(HasSubstr("rerank-v3.5"), HasSubstr("; where the documents are texts, ask /text/v1/rerank")));
  EXPECT_THAT(message("/v2/rerank", body), HasSubstr("ask /text/v2/rerank"));
  // Neither of these requests has texts.
  EXPECT_THAT(message("/v1/rerank", {{"model", "rerank-v3.5"}, {"query", "why"}, {"documents", {7}}}),
              Not(HasSubstr("/text")));
  EXPECT_THAT(message("/v1/rerank", {{"model", "rerank-v3.5"}, {"query", "why"}, {"documents", "*"}}),
              Not(HasSubstr("/text")));
}

TEST_F(TextServiceTest, RootPathsTakeTextsWhereTheConfigurationSaysSo) {
  Start(TeiHandler(kDim), [](config::Config* config) { config->http.root_documents = config::RootDocuments::kTexts; });
  const json body = {{"model", "rerank-v3.5"}, {"query", "why"}, {"documents", {"one two", "a"}}};
  for (const char* path : {"/v1/rerank", "/v2/rerank", "/rerank", "/text/v1/rerank"}) {
    const HttpAnswer answer = HttpPost(server_->http_port(), path, body.dump(), "application/json");
    EXPECT_EQ(answer.status, 200) << path << ": " << answer.body;
  }
  const HttpAnswer stored =
      HttpPost(server_->http_port(), "/v1/rerank", json{{"query", "why"}, {"documents", {{{"id", "doc-3"}}}}}.dump(),
               "application/json");
  EXPECT_EQ(stored.status, 200) << stored.body;
}

TEST_F(TextServiceTest, ModelsAreWhatAClientOfXinferenceOrTeiAsksFor) {
  Start(TeiHandler(kDim), [](config::Config* config) { config->encoder.http.identity.model = "colbert"; });
  const auto get = [&](const char* path) {
    const HttpAnswer answer = HttpGet(server_->http_port(), path);
    EXPECT_EQ(answer.status, 200) << path << ": " << answer.body;
    return json::parse(answer.body, nullptr, false);
  };
  EXPECT_EQ(get("/v1/models")["data"].size(), 2u);
  EXPECT_EQ(get("/v1/models/corpus")["model_type"], "rerank");
  EXPECT_EQ(get("/v1/models/colbert")["id"], "colbert");
  EXPECT_EQ(get("/text/v1/models/BAAI/bge-reranker-v2-m3")["id"], "BAAI/bge-reranker-v2-m3");
  for (const char* path : {"/info", "/text/info"}) {
    EXPECT_TRUE(get(path)["model_type"].contains("reranker")) << path;
    EXPECT_EQ(get(path)["model_id"], "colbert") << path;
  }
  const HttpAnswer unknown = HttpGet(server_->http_port(), "/v1/models/nobody");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr("ask /text/v1/models"));
  EXPECT_EQ(HttpPost(server_->http_port(), "/v1/models", "{}", "application/json").status, 405);
}

TEST_F(TextServiceTest, EveryAnswerHasAnIdOfItsOwn) {
  Start(TeiHandler(kDim));
  const auto id = [&](const json& more) {
    json body = {{"query", "why"}, {"documents", {"one", "two"}}};
    body.update(more);
    const HttpAnswer answer = HttpPost(server_->http_port(), "/text/v1/rerank", body.dump(), "application/json");
    return json::parse(answer.body)["id"].get<std::string>();
  };
  const std::string first = id(json::object());
  EXPECT_THAT(first, testing::StartsWith("rerank-"));
  EXPECT_NE(id(json::object()), first);
  EXPECT_EQ(id({{"request_id", "mine"}}), "mine");
}

}  // namespace
}  // namespace maxsim::test
