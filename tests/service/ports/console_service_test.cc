// Tests the console's paths, /v1/stats and /v1/explain of a whole server.
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "kernels/reference.h"
#include "nlohmann/json.hpp"
#include "server/console/assets.h"
#include "server/service/explain.h"
#include "tests/service/server_fixture.h"
#include "tests/support/connections/raw_connection.h"
#include "tests/support/fake_backend.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

constexpr char kToken[] = "let-me-in";

json Rows(const RandomQuery& query) {
  json rows = json::array();
  for (int64_t token = 0; token < query.tokens.num_tokens(); ++token) rows.push_back(query.tokens.Row(token));
  return rows;
}

json ExplainBody(const RandomQuery& query, const json& id) {
  return {{"model", "corpus"}, {"query", Rows(query)}, {"id", id}};
}

HttpAnswer Explain(int port, const json& body, const std::string& token = "") {
  return HttpPost(port, "/v1/explain", body.dump(), kJson, token);
}

class ConsoleServiceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new RunningServer([](config::Config* config) { config->limits.max_query_tokens = 4096; });
  }
  static void TearDownTestSuite() { delete server_; }

  static int port() { return server_->http_port(); }
  static RunningServer* server_;
};
RunningServer* ConsoleServiceTest::server_ = nullptr;

TEST_F(ConsoleServiceTest, ThePageAndItsFilesHaveAStrictPolicy) {
  httplib::Client client("127.0.0.1", port());
  for (const auto& [path, name] : {std::pair("/", "index.html"), {"/console/main.js", "main.js"}}) {
    const auto answer = client.Get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, console::FindAsset(name)->bytes);
    EXPECT_EQ(answer->get_header_value("Content-Type"), console::FindAsset(name)->content_type);
    EXPECT_EQ(answer->get_header_value("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(answer->get_header_value("Referrer-Policy"), "no-referrer");
    EXPECT_EQ(answer->get_header_value("Cache-Control"), "no-cache");
    const std::string policy = answer->get_header_value("Content-Security-Policy");
    for (const char* rule : {"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
                             "frame-ancestors 'none'", "base-uri 'none'"}) {
      EXPECT_THAT(policy, HasSubstr(rule));
    }
    EXPECT_THAT(policy, testing::Not(HasSubstr("unsafe")));
    const auto head = client.Head(path);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->status, 200);
    EXPECT_TRUE(head->body.empty());
    EXPECT_EQ(head->get_header_value("ETag"), answer->get_header_value("ETag"));
    EXPECT_EQ(head->get_header_value("Content-Length"), std::to_string(answer->body.size()));
  }
}

TEST_F(ConsoleServiceTest, AFileThatTheBrowserHasIsNotSentAgain) {
  const std::string& etag = console::FindAsset("console.css")->etag;
  const auto request = [](const std::string& known, const std::string& more) {
    return absl::StrCat("GET /console/console.css HTTP/1.1\r\nHost: x\r\nIf-None-Match: ", known, "\r\n", more, "\r\n");
  };
  for (const std::string& known : {etag, "W/" + etag, "\"other\", " + etag, std::string("*")}) {
    RawConnection connection(port());
    // Sends two requests on one connection. The first answer has no body, so the second answer must directly follow the
    // first one's head.
    ASSERT_TRUE(connection.Send(request(known, "") + request("\"other\"", "Connection: close\r\n")));
    bool closed = false;
    const std::string answers = connection.ReadToEnd(&closed);
    const size_t second = answers.find("HTTP/1.1 200 OK");
    ASSERT_NE(second, std::string::npos) << answers;
    const std::string first = answers.substr(0, second);
    EXPECT_THAT(first, testing::StartsWith("HTTP/1.1 304 Not Modified\r\n")) << known;
    EXPECT_THAT(first, testing::EndsWith("\r\n\r\n"));
    EXPECT_THAT(first, HasSubstr(absl::StrCat("ETag: ", etag, "\r\n")));
    EXPECT_THAT(first, HasSubstr("Cache-Control: no-cache\r\n"));
    EXPECT_THAT(first, testing::Not(HasSubstr("Content-Length")));
    EXPECT_THAT(answers, testing::EndsWith(std::string(console::FindAsset("console.css")->bytes)));
  }
}

TEST_F(ConsoleServiceTest, OtherPathsAndMethodsAreRefused) {
  for (const char* path : {"/console/", "/console/none.js", "/console/../main.js", "/main.js", "/console"}) {
    EXPECT_EQ(HttpGet(port(), path).status, 404) << path;
  }
  for (const char* path : {"/", "/console/main.js", "/console/questions.json", "/v1/stats"}) {
    const HttpAnswer answer = HttpPost(port(), path, "{}", kJson);
    EXPECT_EQ(answer.status, 405) << path;
    EXPECT_THAT(answer.body, HasSubstr("is not allowed; use GET, HEAD"));
  }
  EXPECT_EQ(HttpGet(port(), "/v1/explain").status, 405);
}

TEST_F(ConsoleServiceTest, WithoutAFileThereAreNoQuestions) {
  const HttpAnswer answer = HttpGet(port(), "/console/questions.json");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json::parse(answer.body), json({{"questions", json::array()}}));
}

TEST_F(ConsoleServiceTest, StatsTellOfTheRequestsOfTheLastMinutes) {
  const RandomQuery query = MakeQuery(TestSeed(), ScalarType::kF16, kDim, 4);
  const json body = {{"model", "corpus"}, {"query", Rows(query)}, {"documents", "*"}};
  const auto sum = [](const json& column) {
    double total = 0;
    for (const json& value : column) total += value.is_null() ? 0 : value.get<double>();
    return total;
  };
  json stats;
  for (int attempt = 0; attempt < 60; ++attempt) {
    EXPECT_EQ(HttpPost(port(), "/v1/rerank", body.dump(), kJson).status, 200);
    EXPECT_EQ(HttpPost(port(), "/v1/rerank", "{}", kJson).status, 400);
    const HttpAnswer answer = HttpGet(port(), "/v1/stats");
    ASSERT_EQ(answer.status, 200);
    stats = json::parse(answer.body);
    if (sum(stats["requests"]["OK"]) > 0) break;
    std::this_thread::sleep_for(250ms);
  }
  EXPECT_GT(sum(stats["requests"]["OK"]), 0) << stats;
  EXPECT_GT(sum(stats["requests"]["INVALID_ARGUMENT"]), 0) << stats;
  EXPECT_GT(sum(stats["rejections"]["invalid"]), 0) << stats;
  EXPECT_GT(sum(stats["p50_us"]), 0) << stats;
  EXPECT_GE(sum(stats["p99_us"]), sum(stats["p50_us"])) << stats;
  EXPECT_GE(sum(stats["batch_queries"]), 1) << stats;
  ASSERT_EQ(stats["devices"].size(), 1u);
  EXPECT_EQ(stats["devices"][0]["backend"], "cpu");
  EXPECT_GT(stats["devices"][0]["collection_bytes"], 0);
  EXPECT_EQ(stats["devices"][0]["busy"].size(), stats["seconds"].size());
}

// Explains a document's score for the query through HTTP. Compares every number with the answer of Rerank.
void ExpectExplains(RunningServer& server, const RandomQuery& query, int64_t document) {
  const std::string id = absl::StrCat("doc-", document);
  v1::RerankRequest request = MakeRequest("corpus", query, {id}, 1);
  request.set_return_alignments(true);
  v1::RerankResponse reranked;
  ASSERT_TRUE(server.Rerank(request, &reranked).ok());
  json body = ExplainBody(query, id);
  if (!query.weights.empty()) body["query_weights"] = query.weights;
  const HttpAnswer answer = Explain(server.http_port(), body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json explained = json::parse(answer.body);
  EXPECT_EQ(explained["id"], id);
  EXPECT_EQ(explained["model"], "corpus");
  EXPECT_EQ(explained["generation"], 1);
  EXPECT_FALSE(explained.contains("query_tokens"));
  EXPECT_FALSE(explained.contains("document_tokens"));
  const std::vector<uint32_t> ordinals = {static_cast<uint32_t>(document)};
  const ReferenceScore reference = ReferenceScores(server.documents().view(), query.view(1, &ordinals)).front();
  EXPECT_NEAR(explained["score"].get<double>(), reference.score, 1e-9 * reference.magnitude);
  EXPECT_NEAR(explained["score"].get<double>(), reranked.results(0).scores(0), 1e-5 * reference.magnitude);
  const json& similarities = explained["similarities"];
  ASSERT_EQ(similarities.size(), static_cast<size_t>(query.tokens.num_tokens()));
  const v1::Alignment& alignment = reranked.results(0).alignments(0);
  for (int i = 0; i < static_cast<int>(similarities.size()); ++i) {
    const json& row = similarities[static_cast<size_t>(i)];
    ASSERT_EQ(row.size(), static_cast<size_t>(server.documents().length(document)));
    EXPECT_NEAR(row[alignment.document_tokens(i)].get<double>(), alignment.similarities(i), 1e-5);
    for (const json& value : row) EXPECT_LE(value.get<double>(), alignment.similarities(i) + 1e-5);
  }
}

TEST_F(ConsoleServiceTest, AnExplanationHasTheScoreAndTheMatchesOfRerank) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, kDim, 9);
  for (const int64_t document : {0, 7, 123, 199}) ExpectExplains(*server_, query, document);
  query.weights = MixedWeights(TestSeed(), 9);
  ExpectExplains(*server_, query, 42);
}

TEST_F(ConsoleServiceTest, AnExplanationOfAnI8CollectionIsOfWhatIsStored) {
  RunningServer server(nullptr, nullptr, ScalarType::kI8);
  const RandomQuery query = MakeQuery(TestSeed() + 2, ScalarType::kI8, kDim, 9);
  for (const int64_t document : {0, 7, 123, 199}) ExpectExplains(server, query, document);
}

TEST_F(ConsoleServiceTest, DocumentsOfAGpuAreExplainedFromTheFilesThatWereLoaded) {
  RunningServer server(nullptr, std::make_unique<FakeBackend>("cuda"));
  const RandomQuery query = MakeQuery(TestSeed() + 4, ScalarType::kF16, kDim, 5);
  const std::vector<uint32_t> ordinals = {123};
  const ReferenceScore reference = ReferenceScores(server.documents().view(), query.view(1, &ordinals)).front();
  HttpAnswer answer = Explain(server.http_port(), ExplainBody(query, "doc-123"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_NEAR(json::parse(answer.body)["score"].get<double>(), reference.score, 1e-9 * reference.magnitude);
  // Replaces the collection's files by a copy. The server must not read the copy, because a copy might have other
  // vectors.
  const std::filesystem::path copy = server.folder() + ".copy";
  std::filesystem::copy(server.folder(), copy);
  std::filesystem::remove_all(server.folder());
  std::filesystem::rename(copy, server.folder());
  answer = Explain(server.http_port(), ExplainBody(query, "doc-123"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, testing::AllOf(HasSubstr("FAILED_PRECONDITION"), HasSubstr("is no longer the file")));
}

TEST_F(ConsoleServiceTest, ExplanationsRefuseWhatTheyCannotExplain) {
  const RandomQuery query = MakeQuery(TestSeed() + 3, ScalarType::kF16, kDim, 2);
  const auto expect = [](const json& body, int status, const std::string& code, const std::string& text) {
    const HttpAnswer answer = Explain(port(), body);
    EXPECT_EQ(answer.status, status) << answer.body;
    const json error = json::parse(answer.body)["error"];
    EXPECT_EQ(error["code"], code);
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(text));
  };
  expect(ExplainBody(query, "nobody"), 404, "NOT_FOUND", "no document of that id");
  expect(ExplainBody(query, 7), 400, "INVALID_ARGUMENT", "id: the ids of collection corpus are of type string");
  json body = ExplainBody(query, "doc-1");
  body["model"] = "other";
  expect(body, 404, "NOT_FOUND", "other");
  body = ExplainBody(MakeQuery(1, ScalarType::kF16, kDim / 2, 2), "doc-1");
  expect(body, 400, "INVALID_ARGUMENT", "query.shape[1]: is 16");
  body = ExplainBody(query, "doc-1");
  body.erase("id");
  expect(body, 400, "INVALID_ARGUMENT", "id: is missing");
  body = ExplainBody(query, "doc-1");
  body["query"][1][3] = 1e300;
  expect(body, 400, "INVALID_ARGUMENT", "query.data: holds inf");
}

TEST_F(ConsoleServiceTest, ExplanationsAreCountedUnderTheirOwnName) {
  const RandomQuery query = MakeQuery(TestSeed() + 3, ScalarType::kF16, kDim, 2);
  EXPECT_EQ(Explain(port(), ExplainBody(query, "doc-1")).status, 200);
  EXPECT_EQ(Explain(port(), ExplainBody(query, "nobody")).status, 404);
  EXPECT_EQ(Explain(port(), json::object()).status, 400);
  const std::string metrics = HttpGet(port(), "/metrics").body;
  for (const char* code : {"OK", "NOT_FOUND", "INVALID_ARGUMENT"}) {
    EXPECT_THAT(metrics, HasSubstr(absl::StrCat("maxsim_requests_total{code=\"", code, "\",method=\"explain\"}")));
  }
}

// Explanations have a limit of their own, which does not depend on the limits of rerank requests.
TEST(ExplainLimitTest, TooManySimilaritiesAreRefusedBeforeTheyAreComputed) {
  constexpr int64_t kTokens = 40'000;
  TemporaryFolder folder;
  BuildCorpus(folder / "long", MakeDocuments(TestSeed(), ScalarType::kF16, kDim, {kTokens}));
  RunningServer server([&](config::Config* config) {
    config->collections.push_back({.name = "long", .path = folder / "long", .residency = store::Residency::kAuto});
  });
  const auto num_tokens = static_cast<int32_t>(service::kMaxExplainedPairs / kTokens);
  json body = ExplainBody(MakeQuery(TestSeed(), ScalarType::kF16, kDim, num_tokens), "doc-0");
  body["model"] = "long";
  EXPECT_EQ(Explain(server.http_port(), body).status, 200);
  body = ExplainBody(MakeQuery(TestSeed(), ScalarType::kF16, kDim, num_tokens + 1), "doc-0");
  body["model"] = "long";
  const HttpAnswer answer = Explain(server.http_port(), body);
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("query: asks for 1080000 token pairs"));
}

class GuardedConsoleTest : public testing::Test {
 protected:
  GuardedConsoleTest() {
    WriteFile(folder_ / "tokens", absl::StrCat(kToken, "\n"));
    WriteFile(folder_ / "questions.jsonl",
              R"({"text": "Why?", "query": {"dtype": "f16", "shape": [1, 32], "data": "AA=="}})");
  }
  TemporaryFolder folder_;
};

TEST_F(GuardedConsoleTest, ATokenGuardsTheDataAndNotThePage) {
  RunningServer server([&](config::Config* config) {
    config->auth.tokens_file = folder_ / "tokens";
    config->http.console_questions = folder_ / "questions.jsonl";
  });
  const int port = server.http_port();
  EXPECT_EQ(HttpGet(port, "/").status, 200);
  EXPECT_EQ(HttpGet(port, "/console/main.js").status, 200);
  const json body = ExplainBody(MakeQuery(TestSeed(), ScalarType::kF16, kDim, 2), "doc-1");
  for (const char* token : {"", "wrong"}) {
    EXPECT_EQ(HttpGet(port, "/v1/stats", token).status, 401);
    EXPECT_EQ(HttpGet(port, "/console/questions.json", token).status, 401);
    EXPECT_EQ(Explain(port, body, token).status, 401);
  }
  EXPECT_EQ(HttpGet(port, "/v1/stats", kToken).status, 200);
  EXPECT_EQ(Explain(port, body, kToken).status, 200);
  const HttpAnswer questions = HttpGet(port, "/console/questions.json", kToken);
  EXPECT_EQ(questions.status, 200);
  EXPECT_EQ(json::parse(questions.body)["questions"][0]["text"], "Why?");
}

TEST_F(GuardedConsoleTest, AKeySwitchesTheConsoleOff) {
  RunningServer server([](config::Config* config) { config->http.console = false; });
  for (const char* path : {"/", "/console/main.js", "/console/questions.json"}) {
    EXPECT_EQ(HttpGet(server.http_port(), path).status, 404) << path;
  }
  EXPECT_EQ(HttpGet(server.http_port(), "/v1/stats").status, 200);
}

TEST_F(GuardedConsoleTest, AFileOfQuestionsThatIsNoneKeepsTheServerFromStarting) {
  WriteFile(folder_ / "questions.jsonl", R"({"text": "Why?"})");
  config::Config config = TestConfig();
  config.http.console_questions = folder_ / "questions.jsonl";
  auto server = Server::Create(config);
  ASSERT_TRUE(server.ok()) << server.status();
  const absl::Status status = (*server)->Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("http.console_questions: "), HasSubstr("line 1: query: is not an object")));
}

}  // namespace
}  // namespace maxsim::test
