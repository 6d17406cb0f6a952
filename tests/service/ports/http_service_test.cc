// Tests the HTTP port of a whole server.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"
#include "tests/support/connections/raw_connection.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

class HttpServiceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new RunningServer([](config::Config* config) { config->http.max_body_bytes = 64 * 1024; });
  }
  static void TearDownTestSuite() { delete server_; }

  static json Body(const RandomQuery& query, const json& documents, int top_n) {
    json rows = json::array();
    for (int64_t t = 0; t < query.tokens.num_tokens(); ++t) rows.push_back(query.tokens.Row(t));
    return {{"model", "corpus"}, {"query", rows}, {"documents", documents}, {"top_n", top_n}};
  }
  static HttpAnswer Post(const std::string& body) { return HttpPost(server_->http_port(), "/v1/rerank", body, kJson); }

  // Converts the JSON response to the gRPC message that WrongAnswer() reads.
  static v1::QueryResult ToResult(const json& response) {
    v1::QueryResult result;
    for (const json& entry : response["results"]) {
      result.add_positions(entry["index"].get<uint64_t>());
      result.add_scores(entry["relevance_score"].get<float>());
      result.mutable_string_ids()->add_ids(entry["id"].get<std::string>());
    }
    return result;
  }

  static RunningServer* server_;
};
RunningServer* HttpServiceTest::server_ = nullptr;

TEST_F(HttpServiceTest, RerankAnswersAsGrpcDoes) {
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, kDim, 6);
  const HttpAnswer answer = Post(Body(query, {"doc-7", "nobody", "doc-3", "doc-7", "doc-150"}, 2).dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json response = json::parse(answer.body);
  EXPECT_EQ(WrongAnswer(server_->documents(), query, {7, -1, 3, 7, 150}, 2, ToResult(response)), "");
  EXPECT_EQ(response["missing"], json({"nobody"}));
  EXPECT_EQ(response["model"], "corpus");
  EXPECT_EQ(response["generation"], 1);

  // This body holds the same values as bytes.
  json body = Body(query, {"doc-7", "nobody", "doc-3", "doc-7", "doc-150"}, 2);
  const v1::TokenMatrix matrix = ToProto(query.tokens);
  body["query"] = {{"dtype", "f16"}, {"shape", {6, kDim}}, {"data", absl::Base64Escape(matrix.data())}};
  body["return_documents"] = true;
  const HttpAnswer encoded = Post(body.dump());
  ASSERT_EQ(encoded.status, 200) << encoded.body;
  const json with_documents = json::parse(encoded.body);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(with_documents["results"][i]["relevance_score"], response["results"][i]["relevance_score"]);
    EXPECT_TRUE(with_documents["results"][i]["document"].contains("n"));
  }
}

TEST_F(HttpServiceTest, TheOneCollectionNeedsNoName) {
  const RandomQuery query = MakeQuery(TestSeed() + 5, ScalarType::kF16, kDim, 2);
  json body = Body(query, {"doc-1", "doc-2"}, 2);
  const json named = json::parse(Post(body.dump()).body);
  body.erase("model");
  const json unnamed = json::parse(Post(body.dump()).body);
  EXPECT_EQ(unnamed["model"], "corpus");
  EXPECT_EQ(unnamed["results"], named["results"]);
}

TEST_F(HttpServiceTest, VectorsInTheBodyAreScoredWithoutACollection) {
  const json vector(std::vector<float>(8, 0.5F));
  json body = {{"model", "nobody's"}, {"query", {vector}}, {"documents", {{{"tokens", {vector, vector}}, {"id", 4}}}}};
  const json answer = json::parse(Post(body.dump()).body);
  EXPECT_EQ(answer["generation"], 0);
  EXPECT_EQ(answer["model"], "nobody's");
  EXPECT_EQ(answer["results"], json::parse(R"([{"id": 4, "index": 0, "relevance_score": 2.0}])"));
  // Vectors for a collection must have the collection's dimension.
  body["model"] = "corpus";
  EXPECT_THAT(Post(body.dump()).body, HasSubstr("query.shape[1]: is 8, but the collection's dimension is 32"));
  // Documents without a collection must have the query's dimension.
  body["model"] = "nobody's";
  body["documents"][0]["tokens"] = json::array({json(std::vector<float>(16, 0.5F))});
  EXPECT_THAT(Post(body.dump()).body, HasSubstr("is 16, but the first query's dimension is 8"));
}

TEST_F(HttpServiceTest, TheWholeCollectionIsAStar) {
  const RandomQuery query = MakeQuery(TestSeed() + 2, ScalarType::kF16, kDim, 6);
  const HttpAnswer answer = Post(Body(query, "*", 10).dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  std::vector<int64_t> all;
  for (int64_t i = 0; i < kNumDocuments; ++i) all.push_back(i);
  EXPECT_EQ(WrongAnswer(server_->documents(), query, all, 10, ToResult(json::parse(answer.body))), "");
}

TEST_F(HttpServiceTest, ErrorsAreJsonWithTheRightCode) {
  const RandomQuery query = MakeQuery(TestSeed() + 3, ScalarType::kF16, kDim, 2);
  const auto expect = [](const HttpAnswer& answer, int status, const char* code, const std::string& text) {
    EXPECT_EQ(answer.status, status) << answer.body;
    const json body = json::parse(answer.body, nullptr, false);
    ASSERT_FALSE(body.is_discarded()) << answer.body;
    EXPECT_EQ(body["error"]["code"], code);
    EXPECT_THAT(body["error"]["message"].get<std::string>(), HasSubstr(text));
  };
  expect(Post("nonsense"), 400, "INVALID_ARGUMENT", "not JSON");
  json body = Body(query, {"doc-1"}, 2);
  body["model"] = "other";
  expect(Post(body.dump()), 404, "NOT_FOUND", "other");
  body = Body(query, "*", 20000);
  expect(Post(body.dump()), 400, "INVALID_ARGUMENT", "top_n: is 20000");
  body = Body(query, {"doc-1"}, -1);
  expect(Post(body.dump()), 400, "INVALID_ARGUMENT",
         "top_n: is -1; must be a whole number from 0 to 10000 (limits.max_top_k");
  body = Body(query, {"doc-1"}, 2);
  body["collection"] = 2;  // only the gRPC message has this member
  expect(Post(body.dump()), 400, "INVALID_ARGUMENT", "collection: is not a member");
  body = Body(query, {"doc-1"}, 2);
  body["query"] = "a text";
  expect(Post(body.dump()), 400, "FAILED_PRECONDITION", "this server has no encoder (encoder.url)");
  body = Body(MakeQuery(1, ScalarType::kF16, 16, 2), {"doc-1"}, 2);
  expect(Post(body.dump()), 400, "INVALID_ARGUMENT", "query.shape[1]: is 16");
  body = Body(query, {1, 2}, 2);
  expect(Post(body.dump()), 400, "INVALID_ARGUMENT", "documents: the ids of collection corpus are of type string");
  body = Body(query, {"doc-1"}, 2);
  body["query"][0][0] = 1e300;
  expect(Post(body.dump()), 400, "INVALID_ARGUMENT", "query.data: holds inf");
  expect(HttpGet(server_->http_port(), "/v1/nothing"), 404, "NOT_FOUND", "no such path: GET /v1/nothing");
  expect(HttpGet(server_->http_port(), "/v1/rerank"), 405, "UNIMPLEMENTED", "GET /v1/rerank is not allowed; use POST");
  httplib::Client client("127.0.0.1", server_->http_port());
  const auto deleted = client.Delete("/livez");
  ASSERT_TRUE(deleted);
  EXPECT_EQ(deleted->status, 405);
  EXPECT_EQ(deleted->get_header_value("Allow"), "GET, HEAD");
}

TEST_F(HttpServiceTest, BodiesAreBoundedWhateverTheyCallThemselves) {
  const RandomQuery query = MakeQuery(TestSeed() + 4, ScalarType::kF16, kDim, 30);
  const std::string body = Body(query, {"doc-1"}, 2).dump();
  ASSERT_GT(body.size(), 8192u) << "longer than httplib lets a form be";
  EXPECT_EQ(HttpPost(server_->http_port(), "/v1/rerank", body, "application/x-www-form-urlencoded").status, 200);
  for (const char* type : {kJson, "application/x-www-form-urlencoded"}) {
    const HttpAnswer answer = HttpPost(server_->http_port(), "/v1/rerank", std::string(65537, ' '), type);
    EXPECT_EQ(answer.status, 413) << answer.body;
    EXPECT_THAT(answer.body, HasSubstr("http.max_body_bytes: the body has 65537 bytes, more than the limit 65536"));
  }
  // The client sends this body in chunks, without a length.
  httplib::Client client("127.0.0.1", server_->http_port());
  size_t sent = 0;
  const auto result = client.Post(
      "/v1/rerank",
      [&](size_t, httplib::DataSink& sink) {
        const std::string chunk(8192, ' ');
        if (sent < 1024 * 1024 && sink.write(chunk.data(), chunk.size())) {
          sent += chunk.size();
        } else {
          sink.done();
        }
        return true;
      },
      kJson);
  EXPECT_TRUE(!result || result->status == 413);
  // The server refuses compressed bodies, because they could expand to any size.
  httplib::Headers headers = {{"Content-Encoding", "gzip"}};
  const auto compressed = client.Post("/v1/rerank", headers, "xxxx", kJson);
  ASSERT_TRUE(compressed);
  EXPECT_EQ(compressed->status, 415);
  headers = {{"Content-Encoding", "Identity"}};
  const auto plain = client.Post("/v1/rerank", headers, Body(query, {"doc-1"}, 2).dump(), kJson);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->status, 200) << plain->body;
  EXPECT_EQ(HttpGet(server_->http_port(), "/livez").status, 200);
}

TEST_F(HttpServiceTest, ProbesMetricsAndCollectionsAnswer) {
  EXPECT_EQ(HttpGet(server_->http_port(), "/livez").body, "ok\n");
  EXPECT_EQ(HttpGet(server_->http_port(), "/readyz").status, 200);
  const HttpAnswer metrics = HttpGet(server_->http_port(), "/metrics");
  EXPECT_EQ(metrics.status, 200);
  for (const char* series :
       {"maxsim_ready 1", "maxsim_build_info{", "maxsim_collection_documents{collection=\"corpus\"} 200",
        "maxsim_memory_bytes{kind=\"host\",purpose=\"collections\"}", "process_open_fds "}) {
    EXPECT_THAT(metrics.body, HasSubstr(series));
  }
  const json collections = json::parse(HttpGet(server_->http_port(), "/v1/collections").body);
  EXPECT_EQ(collections["collections"][0]["name"], "corpus");
  EXPECT_EQ(collections["collections"][0]["state"], "READY");
}

TEST_F(HttpServiceTest, ManyConnectionsAtOnceAreServed) {
  std::vector<std::thread> clients;
  for (int c = 0; c < 24; ++c) {
    clients.emplace_back([c] {
      const RandomQuery query = MakeQuery(static_cast<uint64_t>(c), ScalarType::kF16, kDim, 3);
      for (int i = 0; i < 5; ++i) {
        const HttpAnswer answer = Post(Body(query, {"doc-1", "doc-2"}, 2).dump());
        EXPECT_EQ(answer.status, 200) << answer.body;
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

// Sends more bodies than the server has threads. Each body takes long to read.
class HttpLongBodiesTest : public testing::Test {
 protected:
  static constexpr int kNumBodies = 6;

  void Serve(const std::function<void(config::Config*)>& change) {
    server_ = std::make_unique<RunningServer>([&](config::Config* config) {
      config->http.threads = 1;
      config->server.shutdown_grace = absl::Milliseconds(200);
      change(config);
    });
    for (int i = 0; i < kNumBodies; ++i) {
      connections_.emplace_back(server_->http_port());
      connections_.back().Send(
          absl::StrCat("POST /v1/rerank HTTP/1.1\r\nHost: x\r\nContent-Length: ", body_.size(), "\r\n\r\n", body_));
    }
  }

  static std::string LongBody() {
    std::string body = "[";
    while (body.size() < 6'000'000) body += "{},";
    return body + "{}]";
  }

  const std::string body_ = LongBody();
  std::unique_ptr<RunningServer> server_;
  std::vector<RawConnection> connections_;
};

TEST_F(HttpLongBodiesTest, EachIsAnsweredAtItsDeadline) {
  Serve([](config::Config* config) { config->http.request_timeout = absl::Milliseconds(1); });
  int late = 0;
  for (RawConnection& connection : connections_) {
    const std::string answer = connection.ReadAnswers(1);
    if (answer.find("DEADLINE_EXCEEDED") != std::string::npos) ++late;
    EXPECT_THAT(answer, testing::ContainsRegex("^HTTP/1.1 (400|504) ")) << answer;
  }
  EXPECT_GE(late, 1);
  EXPECT_EQ(HttpGet(server_->http_port(), "/livez").status, 200);
}

TEST_F(HttpLongBodiesTest, AStopDoesNotWaitForThem) {
  Serve([](config::Config* config) { config->http.request_timeout = absl::ZeroDuration(); });
  EXPECT_EQ(server_->Stop(), 0);
}

TEST_F(HttpLongBodiesTest, AClientThatHangsUpEndsTheReadingOfItsBody) {
  Serve([](config::Config* config) { config->http.request_timeout = absl::ZeroDuration(); });
  for (RawConnection& connection : connections_) connection.Close();
  EXPECT_EQ(HttpPost(server_->http_port(), "/v1/rerank", "{}", kJson).status, 400) << "the only thread is free";
}

TEST(HttpOffTest, AnEmptyAddressServesNoHttp) {
  RunningServer server([](config::Config* config) { config->http.address = ""; });
  EXPECT_EQ(server.http_port(), 0);
  v1::RerankResponse response;
  EXPECT_TRUE(
      server.Rerank(MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1"}, 5), &response).ok());
}

}  // namespace
}  // namespace maxsim::test
