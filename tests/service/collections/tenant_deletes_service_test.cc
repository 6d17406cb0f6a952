// Tests deletes with a filter by two tenants of one live collection, through both ports of a server.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "client/status.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using nlohmann::json;

// Serves the live collection "notes". Documents "a0" to "a3" belong to the tenant acme, "b0" to "b3" to the other
// tenant.
class TenantDeletesServiceTest : public testing::Test {
 protected:
  TenantDeletesServiceTest() {
    WriteFile(root_ / "tokens", "plain\n");
    WriteFile(root_ / "write_tokens", R"(acme {"tenant": "acme", "filter": "owner = \"acme\"", "documents": 5}
other {"tenant": "other", "filter": "owner = \"other\""}
)");
    WriteFile(root_ / "admin_tokens", "operator\n");
    server_ = std::make_unique<RunningServer>([this](config::Config* config) {
      config->allowed_roots = {root_.path()};
      config->auth.tokens_file = root_ / "tokens";
      config->auth.write_tokens_file = root_ / "write_tokens";
      config->auth.admin_tokens_file = root_ / "admin_tokens";
    });
    const HttpAnswer made =
        HttpSend("PUT", server_->http_port(), "/v1/collections/notes",
                 json({{"dim", kDim}, {"fields", "owner:keyword,year:integer"}}).dump(), "operator");
    EXPECT_EQ(made.status, 200) << made.body;
    EXPECT_EQ(Write("acme", "a", 4).status, 200);
    EXPECT_EQ(Write("other", "b", 4).status, 200);
  }

  // Writes documents with the years 2000, 2001 and so on.
  HttpAnswer Write(const std::string& tenant, const std::string& prefix, int num_documents) {
    json documents = json::array();
    for (int i = 0; i < num_documents; ++i) {
      json& document = documents.emplace_back();
      document["id"] = prefix + std::to_string(i);
      document["tokens"] = json::array({std::vector<float>(kDim, 1.0F)});
      document["payload"] = {{"owner", tenant}, {"year", 2000 + i}};
    }
    return HttpSend("PUT", server_->http_port(), kPath, json({{"documents", documents}}).dump(), tenant);
  }

  // Deletes with a filter over HTTP. Returns the answer without the sequence, because it counts the writes of both
  // tenants.
  json Delete(const std::string& token, const std::string& filter) {
    const HttpAnswer answer = HttpSend("DELETE", server_->http_port(), kPath, json({{"filter", filter}}).dump(), token);
    EXPECT_EQ(answer.status, 200) << answer.body;
    json parsed = json::parse(answer.body);
    parsed.erase("sequence");
    return parsed;
  }

  json CountOf(const std::string& token) {
    const HttpAnswer answer = HttpPost(server_->http_port(), "/v1/count", R"({"collection": "notes"})", kJson, token);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body)["count"];
  }

  static json Deleted(int num_deleted) {
    return {{"num_deleted", num_deleted}, {"num_missing", 0}, {"num_stale", 0}, {"has_more", false}};
  }

  static constexpr char kPath[] = "/v1/collections/notes/documents";
  TemporaryFolder root_;
  std::unique_ptr<RunningServer> server_;
};

TEST_F(TenantDeletesServiceTest, ATenantDeletesItsDocumentsAlone) {
  EXPECT_EQ(Delete("acme", "owner = \"other\""), Deleted(0));
  EXPECT_EQ(Delete("acme", "owner = \"nobody\""), Deleted(0));
  EXPECT_EQ(Delete("acme", "year <= 2001"), Deleted(2));
  EXPECT_EQ(CountOf("acme"), 2);
  EXPECT_EQ(CountOf("other"), 4);
  EXPECT_EQ(Delete("acme", "not year = 1"), Deleted(2));
  EXPECT_EQ(CountOf("plain"), 4);
}

TEST_F(TenantDeletesServiceTest, TheSameHoldsOverGrpc) {
  v1::DeleteRequest request;
  request.set_collection("notes");
  request.set_filter_text("exists(owner)");
  // A client may narrow what it sees, and cannot widen it.
  request.mutable_visible()->set_exists("owner");
  grpc::ClientContext context;
  context.AddMetadata("authorization", "Bearer acme");
  v1::DeleteResponse response;
  const grpc::Status status = v1::Documents::NewStub(server_->channel())->Delete(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.num_deleted(), 4u);
  EXPECT_EQ(response.num_missing() + response.num_stale(), 0u);
  EXPECT_EQ(CountOf("other"), 4);
}

TEST_F(TenantDeletesServiceTest, ADeleteGivesBackTheQuotaOfDocuments) {
  const HttpAnswer refused = Write("acme", "c", 2);
  EXPECT_EQ(refused.status, 429) << refused.body;
  EXPECT_EQ(json::parse(refused.body)["error"]["reason"], client::kReasonTenantQuota);
  EXPECT_EQ(Delete("acme", "year = 2003"), Deleted(1));
  EXPECT_EQ(Write("acme", "c", 2).status, 200);
}

TEST_F(TenantDeletesServiceTest, TheSequenceThatHasBeenReachedIsNotTold) {
  const HttpAnswer answer =
      HttpSend("DELETE", server_->http_port(), kPath, R"({"filter": "year = 2000", "min_sequence": 555})", "acme");
  EXPECT_EQ(answer.status, 503) << answer.body;
  EXPECT_EQ(answer.body.find("has only reached 8"), std::string::npos) << answer.body;
}

}  // namespace
}  // namespace maxsim::test
