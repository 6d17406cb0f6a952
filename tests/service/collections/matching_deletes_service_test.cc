// Tests deletes with a filter on a running server, over gRPC and HTTP.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "client/client.h"
#include "client/status.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using nlohmann::json;

class MatchingDeletesServiceTest : public testing::Test {
 protected:
  MatchingDeletesServiceTest() : server_([this](config::Config* config) { config->allowed_roots = {root_.path()}; }) {
    const HttpAnswer made = HttpSend("PUT", server_.http_port(), "/v1/collections/notes",
                                     json({{"dim", kDim}, {"fields", "year:integer"}}).dump());
    EXPECT_EQ(made.status, 200) << made.body;
  }

  // Writes documents "d0", "d1" and so on, with the years 2000, 2001 and so on.
  void Write(int num_documents, int version = 0) {
    json documents = json::array();
    for (int i = 0; i < num_documents; ++i) {
      json& document = documents.emplace_back();
      document["id"] = "d" + std::to_string(i);
      document["tokens"] = json::array({std::vector<float>(kDim, 1.0F)});
      document["payload"] = {{"year", 2000 + i}};
      if (version != 0) document["version"] = version;
    }
    const HttpAnswer written = HttpSend("PUT", server_.http_port(), kPath, json({{"documents", documents}}).dump());
    EXPECT_EQ(written.status, 200) << written.body;
  }

  HttpAnswer Delete(const std::string& body) { return HttpSend("DELETE", server_.http_port(), kPath, body); }

  std::vector<std::string> Ids() {
    const HttpAnswer answer = HttpPost(server_.http_port(), std::string(kPath) + "/scroll", "{}", kJson);
    EXPECT_EQ(answer.status, 200) << answer.body;
    std::vector<std::string> ids;
    const json page = json::parse(answer.body);
    for (const json& document : page["documents"]) ids.push_back(document["id"]);
    return ids;
  }

  static constexpr char kPath[] = "/v1/collections/notes/documents";
  TemporaryFolder root_;
  RunningServer server_;
};

TEST_F(MatchingDeletesServiceTest, DocumentsAreDeletedOverHttp) {
  Write(6);
  HttpAnswer answer = Delete(R"({"filter": "year < 2002", "min_sequence": 6})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body), json::parse(R"({"num_deleted": 2, "num_missing": 0, "num_stale": 0,
                                                      "has_more": false, "sequence": 8})"));
  answer = Delete(R"({"filter": {"or": [{"field": "year", "equals": 2001}, {"field": "year", "gte": 2005}]}})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["num_deleted"], 1);
  EXPECT_EQ(Ids(), (std::vector<std::string>{"d2", "d3", "d4"}));
  EXPECT_EQ(json::parse(Delete(R"({"filter": "year < 2002"})").body)["num_deleted"], 0) << "again";
}

TEST_F(MatchingDeletesServiceTest, AVersionKeepsNewerDocuments) {
  Write(4, /*version=*/3);
  Write(2, /*version=*/8);
  const HttpAnswer answer = Delete(R"({"filter": "year < 2010", "version": 5})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["num_deleted"], 2);
  EXPECT_EQ(json::parse(answer.body)["num_stale"], 0);
  EXPECT_EQ(Ids(), (std::vector<std::string>{"d0", "d1"}));
}

TEST_F(MatchingDeletesServiceTest, WhatIsWrongIsNamedOverHttp) {
  Write(3);
  const auto refused = [this](const std::string& body) -> json {
    const HttpAnswer answer = Delete(body);
    EXPECT_EQ(answer.status, 400) << answer.body;
    return json::parse(answer.body)["error"].value("field", "");
  };
  EXPECT_EQ(refused(R"({"filter": "lang = 1"})"), "filter");
  EXPECT_EQ(refused(R"({"filter": ""})"), "filter");
  EXPECT_EQ(refused(R"({"filter": {}})"), "filter");
  EXPECT_EQ(refused(R"({"filter": null})"), "ids");
  EXPECT_EQ(refused("{}"), "ids");
  EXPECT_EQ(refused(R"({"ids": ["d1"], "filter": "year = 2000"})"), "ids");
  EXPECT_EQ(refused(R"({"ids": ["d1"], "min_sequence": 1})"), "min_sequence");
  const HttpAnswer not_yet = Delete(R"({"filter": "year = 2000", "min_sequence": 1000})");
  EXPECT_EQ(not_yet.status, 503) << not_yet.body;
  EXPECT_FALSE(not_yet.retry_after.empty());
  const HttpAnswer fixed =
      HttpSend("DELETE", server_.http_port(), "/v1/collections/corpus/documents", R"({"filter": "year = 2000"})");
  EXPECT_EQ(fixed.status, 400) << fixed.body;
  EXPECT_EQ(json::parse(fixed.body)["error"]["code"], "FAILED_PRECONDITION");
  EXPECT_EQ(Ids().size(), 3u);
}

TEST_F(MatchingDeletesServiceTest, TheClientDeletesOverGrpc) {
  Write(5);
  client::ClientOptions options;
  options.target = server_.grpc_address();
  const absl::StatusOr<std::unique_ptr<client::Client>> client = client::Client::Create(options);
  ASSERT_TRUE(client.ok()) << client.status();
  v1::DeleteRequest request;
  request.set_collection("notes");
  request.mutable_filter()->mutable_equals()->set_field("year");
  request.mutable_filter()->mutable_equals()->mutable_value()->set_integer_value(2003);
  absl::StatusOr<v1::DeleteResponse> deleted = (*client)->DeleteMatching(request);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->num_deleted(), 1u);
  EXPECT_EQ(deleted->sequence(), 6u);
  EXPECT_EQ(Ids(), (std::vector<std::string>{"d0", "d1", "d2", "d4"}));
  request.clear_matching();
  EXPECT_EQ(client::FieldOf((*client)->Delete(request).status()), "ids");
}

}  // namespace
}  // namespace maxsim::test
