// Tests how clients of a running server create live collections over HTTP, and in which folders they may.
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "tests/service/collections/documents_fixture.h"

namespace maxsim::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using CreatedCollectionsServiceTest = DocumentsServiceTest;

TEST_F(CreatedCollectionsServiceTest, CollectionsAreCreatedCompactedAndCopiedOverHttp) {
  const int port = server_.http_port();
  const std::string json_type = "application/json";
  const std::string path = "/v1/collections/web";
  HttpAnswer answer = HttpSend("PUT", port, path, json({{"dim", kDim}, {"fields", "id:keyword"}}).dump());
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["fields"][0]["name"], "id");
  answer = HttpSend("PUT", port, path, json({{"dim", kDim}}).dump());
  EXPECT_EQ(answer.status, 409) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["error"]["field"], "name");
  EXPECT_EQ(HttpSend("PUT", port, "/v1/collections/other", "{}").status, 400);
  Upsert("web", {"a", "b", "c"}, 1);
  answer = HttpPost(port, path + "/compact", "", json_type);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["changed"], true);
  EXPECT_EQ(json::parse(answer.body)["collection"]["generation"], 2);
  EXPECT_EQ(json::parse(HttpPost(port, path + "/compact", "{}", json_type).body)["changed"], false);
  answer = HttpGet(port, path);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["num_documents"], 3);
  EXPECT_EQ(HttpGet(port, "/v1/collections/no").status, 404);
  const std::string folder = root_ / "web-copy";
  answer = HttpPost(port, path + "/snapshot", json({{"path", folder}}).dump(), json_type);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body)["sequence"], 3);
  EXPECT_TRUE(std::filesystem::exists(root_ / "web-copy/collection.json"));
  EXPECT_EQ(HttpPost(port, path + "/snapshot", json({{"path", "/elsewhere"}}).dump(), json_type).status, 403);
}

TEST_F(CreatedCollectionsServiceTest, CollectionsAreMadeUnderAnAllowedRootAlone) {
  std::filesystem::create_directory_symlink("/tmp", root_ / "link");
  std::filesystem::create_directory(root_ / "there");
  EXPECT_EQ(Create("a", v1::DATA_TYPE_F16, "/tmp/maxsim-outside").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Create("a", v1::DATA_TYPE_F16, root_ / "link/inside").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Create("a", v1::DATA_TYPE_F16, root_ / "..").error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Create("a", v1::DATA_TYPE_F16, root_ / "missing/a").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Create("a", v1::DATA_TYPE_F16, root_ / "there").error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(Create("a", v1::DATA_TYPE_F16, root_ / "link").error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(Create("corpus", v1::DATA_TYPE_F16).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(Create("a/b", v1::DATA_TYPE_F16).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(Create("a", v1::DATA_TYPE_F16, root_ / "there/a/").ok());
}

TEST_F(CreatedCollectionsServiceTest, ACollectionIsMadeInNoOtherAndInNoFolderThatIsMissing) {
  ASSERT_TRUE(Create("outer", v1::DATA_TYPE_F16).ok());
  const std::string outer = root_ / "outer";
  for (const std::string& path : {outer + "/inner", outer + "/log/inner"}) {
    const grpc::Status nested = Create("inner", v1::DATA_TYPE_F16, path);
    EXPECT_EQ(nested.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(nested.error_message(), HasSubstr(path + " lies in the folder of a collection, "));
  }
  const grpc::Status missing = Create("inner", v1::DATA_TYPE_F16, root_ / "no/such/folder");
  EXPECT_EQ(missing.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(missing.error_message(), HasSubstr("its parent folder cannot be used"));
  EXPECT_EQ(Create("inner", v1::DATA_TYPE_F16, "/no/such/folder").error_code(), grpc::StatusCode::PERMISSION_DENIED);
}

}  // namespace
}  // namespace maxsim::test
