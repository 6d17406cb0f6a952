// Sends texts over HTTP, in the form of maxsimd's own API and of other rerank services' APIs.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"
#include "tests/service/text_fixture.h"

namespace maxsim::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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
  // On paths without /text, a string in "documents" is an id. The query is a text on every path.
  const json stored = post("/v1/rerank", {{"query", "why"}, {"documents", {"doc-3", "doc-7"}}});
  EXPECT_EQ(stored["results"].size(), 2u);
  EXPECT_EQ(stored["model"], "corpus");
  EXPECT_EQ(stored["usage"]["total_tokens"], 1);
  // The error tells a client that forgot /text to use it.
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

// A client of another service sends that service's model name, and texts as strings. The error must name the path for
// texts.
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
