// Tests the parts of errors that programs read (field, reason and limit), on the gRPC port and the HTTP port.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/session.h"
#include "client/status.h"
#include "httplib.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

// The details of an error. `limit` is 0 if the error names no limit.
struct Details {
  std::string field;
  std::string reason;
  uint64_t limit = 0;
  std::string limit_key = "";

  friend bool operator==(const Details&, const Details&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Details& details) {
    return out << details.field << " " << details.reason << " " << details.limit << " " << details.limit_key;
  }
};

Details DetailsOf(const absl::Status& status) {
  return {client::FieldOf(status), client::ReasonOf(status), client::LimitOf(status).value_or(0),
          client::LimitKeyOf(status)};
}

Details DetailsOf(const grpc::Status& status) { return DetailsOf(client::FromGrpcStatus(status)); }

Details DetailsOf(const std::string& body) {
  const json error = json::parse(body)["error"];
  return {error.value("field", ""), error.value("reason", ""), error.value("limit", uint64_t{0}),
          error.value("limit_key", "")};
}

class ErrorDetailsServiceTest : public testing::Test {
 protected:
  ErrorDetailsServiceTest()
      : server_([this](config::Config* config) { config->allowed_roots = {root_.path()}; }),
        documents_(v1::Documents::NewStub(server_.channel())) {}

  static v1::RerankRequest Request() {
    return MakeRequest("corpus", MakeQuery(TestSeed(), ScalarType::kF32, kDim, 2), {"doc-1", "doc-2"}, 2);
  }
  static json Body() {
    return {{"model", "corpus"},
            {"query", std::vector<std::vector<float>>(2, std::vector<float>(kDim, 1.0F))},
            {"documents", {"doc-1", "doc-2"}}};
  }

  HttpAnswer Post(const json& body) {
    return HttpPost(server_.http_port(), "/v1/rerank", body.dump(), "application/json");
  }

  // Makes the live collection "live" of dimension 32.
  void CreateLive() {
    grpc::ClientContext context;
    v1::CreateCollectionRequest request;
    request.set_name("live");
    request.set_dim(kDim);
    v1::CreateCollectionResponse response;
    const grpc::Status status = server_.admin().CreateCollection(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  TemporaryFolder root_;
  RunningServer server_;
  std::unique_ptr<v1::Documents::Stub> documents_;
};

TEST_F(ErrorDetailsServiceTest, BothPortsSayTheSameInTheirOwnNames) {
  const service::RequestLimits limits;
  const auto max_top_k = static_cast<uint64_t>(limits.max_top_k);
  struct Case {
    std::function<void(v1::RerankRequest&)> request;
    std::function<void(json&)> body;
    Details by_grpc;
    std::string by_http;  // the field's name in an error over HTTP
  };
  const std::vector<Case> cases = {
      {[&](v1::RerankRequest& request) { request.set_top_k(static_cast<uint32_t>(max_top_k + 1)); },
       [&](json& body) {
         body["documents"] = "*";
         body["top_n"] = max_top_k + 1;
       },
       {"top_k", "LIMIT_EXCEEDED", max_top_k, "limits.max_top_k"},
       "top_n"},
      {[](v1::RerankRequest& request) { request.mutable_queries(0)->mutable_tokens()->set_dim(kDim - 1); },
       [](json& body) {
         body["query"] = json::array({{1, 2, 3}});
       },
       {"queries[0].tokens.dim", "INVALID_FIELD"},
       "query.shape[1]"},
      {[](v1::RerankRequest& request) { request.mutable_queries(0)->add_weights(1); },
       [](json& body) { body["query_weights"] = json::array({1}); },
       {"queries[0].weights", "INVALID_FIELD"},
       "query_weights"},
      {[](v1::RerankRequest& request) { request.mutable_candidates()->mutable_int_ids()->add_ids(1); },
       [](json& body) { body["documents"] = json::array({1}); },
       {"candidates.int_ids", "INVALID_FIELD"},
       "documents"},
      {[](v1::RerankRequest& request) { request.set_request_id(std::string(257, 'x')); },
       [](json& body) { body["request_id"] = std::string(257, 'x'); },
       {"request_id", "LIMIT_EXCEEDED", 256},
       "request_id"},
      {[](v1::RerankRequest& request) { request.set_min_sequence(1); },
       [](json& body) { body["min_sequence"] = 1; },
       {"min_sequence", "INVALID_FIELD"},
       "min_sequence"},
  };
  for (const Case& one : cases) {
    v1::RerankRequest request = Request();
    one.request(request);
    v1::RerankResponse response;
    const grpc::Status status = server_.Rerank(request, &response);
    EXPECT_EQ(DetailsOf(status), one.by_grpc) << status.error_message();
    EXPECT_THAT(status.error_message(), StartsWith(one.by_grpc.field + ": "));
    json body = Body();
    one.body(body);
    const HttpAnswer answer = Post(body);
    Details by_http = one.by_grpc;
    by_http.field = one.by_http;
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(DetailsOf(answer.body), by_http) << answer.body;
    EXPECT_THAT(json::parse(answer.body)["message"].get<std::string>(), StartsWith(one.by_http + ": "));
  }
}

TEST_F(ErrorDetailsServiceTest, TheParserOfABodyNamesItsMembersAndLimits) {
  const service::RequestLimits limits;
  json body = Body();
  body["query"] = json(static_cast<size_t>(limits.max_query_tokens) + 1, json(kDim, 1));
  EXPECT_EQ(
      DetailsOf(Post(body).body),
      (Details{"query", "LIMIT_EXCEEDED", static_cast<uint64_t>(limits.max_query_tokens), "limits.max_query_tokens"}));
  body = Body();
  body["nobody"] = 1;
  EXPECT_EQ(DetailsOf(Post(body).body), (Details{"nobody", "INVALID_FIELD"}));
  EXPECT_EQ(DetailsOf(HttpPost(server_.http_port(), "/v1/rerank", "{", "application/json").body), Details());
}

TEST_F(ErrorDetailsServiceTest, ErrorsThatAreNotOfAFieldHaveAReason) {
  v1::RerankRequest request = Request();
  request.set_generation(7);
  v1::RerankResponse response;
  EXPECT_EQ(DetailsOf(server_.Rerank(request, &response)), (Details{"", "OTHER_GENERATION"}));
  request = Request();
  request.mutable_candidates()->mutable_string_ids()->add_ids("nobody");
  request.set_missing_policy(v1::MISSING_POLICY_FAIL);
  EXPECT_EQ(DetailsOf(server_.Rerank(request, &response)), (Details{"candidates", "UNKNOWN_IDS"}));

  grpc::ClientContext context;
  v1::LoadCollectionRequest load;
  load.set_name("passwords");
  load.set_path("/etc");
  v1::LoadCollectionResponse loaded;
  EXPECT_EQ(DetailsOf(server_.admin().LoadCollection(&context, load, &loaded)),
            (Details{"path", "OUTSIDE_ALLOWED_ROOTS"}));
}

TEST_F(ErrorDetailsServiceTest, AnAnswerInAStreamHasTheDetailsOfACall) {
  grpc::ClientContext context;
  const auto stream = server_.stub().RerankStream(&context);
  v1::RerankRequest request = Request();
  request.mutable_queries(0)->add_weights(1);
  ASSERT_TRUE(stream->Write(request));
  v1::RerankStreamResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(DetailsOf(client::StatusOf(answer)), (Details{"queries[0].weights", "INVALID_FIELD"}));
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ErrorDetailsServiceTest, AWriteNamesTheDocumentByGrpcByStreamAndByHttp) {
  CreateLive();
  v1::UpsertRequest request;
  request.set_collection("live");
  for (const char* id : {"a", "b"}) {
    v1::Document& document = *request.add_documents();
    document.set_string_id(id);
    *document.mutable_tokens() = ToProto(RandomTokens(TestSeed(), ScalarType::kF32, kDim, 2));
  }
  v1::UpsertRequest wrong = request;
  wrong.mutable_documents(1)->set_string_id(std::string(513, 'x'));
  const Details details{"documents[1].string_id", "LIMIT_EXCEEDED", 512};
  {
    grpc::ClientContext context;
    v1::UpsertResponse response;
    EXPECT_EQ(DetailsOf(documents_->Upsert(&context, wrong, &response)), details);
  }
  {
    grpc::ClientContext context;
    v1::UpsertStreamResponse response;
    const auto stream = documents_->UpsertStream(&context, &response);
    EXPECT_TRUE(stream->Write(request));
    EXPECT_TRUE(stream->Write(wrong));
    stream->WritesDone();
    const grpc::Status status = stream->Finish();
    Details of_stream = details;
    of_stream.field = "requests[1].documents[1].string_id";
    EXPECT_EQ(DetailsOf(status), of_stream) << status.error_message();
    EXPECT_THAT(status.error_message(), StartsWith("requests[1].documents[1].string_id: has 513 bytes"));
  }
  const json body = {{"documents", {{{"id", std::string(513, 'x')}, {"tokens", {std::vector<int>(kDim, 1)}}}}}};
  httplib::Client http("127.0.0.1", server_.http_port());
  const auto put = http.Put("/v1/collections/live/documents", body.dump(), "application/json");
  ASSERT_TRUE(put);
  Details by_http = details;
  by_http.field = "documents[0].id";
  EXPECT_EQ(DetailsOf(put->body), by_http) << put->body;
}

}  // namespace
}  // namespace maxsim::test
