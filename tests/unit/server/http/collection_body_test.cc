// Tests how the HTTP API reads the paths and bodies of calls that change collections.
#include "server/http/collections/collection_body.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "server/http/collections/collection_path.h"

namespace maxsim::http {
namespace {

TEST(CollectionPathTest, NamesAreDecodedAndActionsKnown) {
  auto path = ParseCollectionPath("/v1/collections/a%2Db");
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->name, "a-b");
  EXPECT_EQ(path->action, "");
  EXPECT_EQ(CollectionOf("/v1/collections/a"), "a");
  path = ParseCollectionPath("/v1/collections/a/compact");
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->action, "compact");
  EXPECT_EQ(FindCollectionCall("POST", *path), CollectionCall::kCompact);
  EXPECT_EQ(FindCollectionCall("PUT", *path), std::nullopt);
  EXPECT_EQ(MethodsOf(*path, /*changes=*/true), "POST");
  EXPECT_EQ(MethodsOf(*path, /*changes=*/false), "");
  EXPECT_EQ(CollectionOf("/v1/collections/a/compact"), std::nullopt);
  EXPECT_EQ(FindCollectionCall("POST", *ParseCollectionPath("/v1/collections/a/snapshot")), CollectionCall::kSnapshot);
  EXPECT_EQ(FindCollectionCall("PUT", *ParseCollectionPath("/v1/collections/a")), CollectionCall::kCreate);
  EXPECT_EQ(FindCollectionCall("GET", *ParseCollectionPath("/v1/collections/a")), std::nullopt);
  EXPECT_EQ(MethodsOf(*ParseCollectionPath("/v1/collections/a"), /*changes=*/true), "GET, HEAD, PUT");
  EXPECT_EQ(MethodsOf(*ParseCollectionPath("/v1/collections/a"), /*changes=*/false), "GET, HEAD");
  for (const char* const other :
       {"/v1/collections", "/v1/collections/", "/v1/collections//compact", "/v1/collections/a/", "/v1/collections/a/b",
        "/v1/collections/a/documents", "/v1/collections/a/compact/b", "/v1/collections/%zz", "/v1/count"}) {
    EXPECT_FALSE(ParseCollectionPath(other).has_value()) << other;
  }
}

TEST(CreateBodyTest, EveryMemberBecomesAField) {
  auto request = ParseCreateBody(R"({"dim": 96})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->dim(), 96u);
  EXPECT_EQ(request->storage(), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_FALSE(request->has_encoder());
  request = ParseCreateBody(R"({"dim": 8, "storage": "bf16", "id_type": "int64", "path": "/srv/n", "residency": "host",
      "replicate": true, "encoder": {"model": "m", "fingerprint": "f", "dim": 8}, "code_planes": 2,
      "code_factors": true, "fields": "lang:keyword=meta.lang,year:integer"})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->storage(), v1::DATA_TYPE_BF16);
  EXPECT_EQ(request->id_type(), v1::ID_TYPE_INT64);
  EXPECT_EQ(request->path(), "/srv/n");
  EXPECT_EQ(request->residency(), "host");
  EXPECT_TRUE(request->replicate());
  EXPECT_EQ(request->encoder().model(), "m");
  EXPECT_EQ(request->encoder().fingerprint(), "f");
  EXPECT_EQ(request->encoder().dim(), 8u);
  EXPECT_EQ(request->code_planes(), 2u);
  EXPECT_TRUE(request->code_factors());
  ASSERT_EQ(request->fields_size(), 2);
  EXPECT_EQ(request->fields(0).path(), "meta.lang");
  EXPECT_EQ(request->fields(1).kind(), v1::FIELD_KIND_INTEGER);
  request = ParseCreateBody(R"({"dim": 8, "storage": null, "encoder": null, "fields": null, "replicate": null})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->fields_size(), 0);
}

TEST(CreateBodyTest, WhatIsWrongIsNamed) {
  for (const auto& [body, message] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "the body is not a JSON object"},
           {"{}", "dim: is missing"},
           {R"({"dim": null})", "dim: is null, not a whole number from 0 to 4294967295"},
           {R"({"dim": 4294967296})", "dim: is 4294967296, not a whole number from 0 to 4294967295"},
           {R"({"dim": 1.5})", "dim: is 1.5, not a whole number from 0 to 4294967295"},
           {R"({"dim": 8, "dim": 8})", "dim: appears twice"},
           {R"({"dim": 8, "name": "a"})",
            "name: is not a member (dim, storage, id_type, path, residency, replicate, encoder, code_planes, "
            "code_factors and fields are)"},
           {R"({"storage": "f64"})", "storage: is \"f64\", not \"f16\", \"bf16\", \"f32\" or \"i8\""},
           {R"({"id_type": 3})", "id_type: is 3, not \"string\" or \"int64\""},
           {R"({"replicate": "yes"})", "replicate: is \"yes\", not true or false"},
           {R"({"path": 3})", "path: is 3, not a text"},
           {R"({"fields": ["a"]})", "fields: is [\"a\"], not a text such as lang:keyword=meta.lang,year:integer"},
           {R"({"encoder": "m"})", "encoder: is \"m\", not an object with model, fingerprint and dim"},
           {R"({"encoder": {"model": 3}})", "encoder.model: is 3, not a text"},
           {R"({"encoder": {"dim": -1}})", "encoder.dim: is -1, not a whole number from 0 to 4294967295"},
           {R"({"encoder": {"name": "m"}})", "encoder.name: is not a member (model, fingerprint and dim are)"}}) {
    const absl::Status status = ParseCreateBody(body).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << body;
    EXPECT_EQ(std::string(status.message()), message) << body;
  }
}

TEST(ChangeBodyTest, ASnapshotHasAPathAndACompactionNothing) {
  const auto snapshot = ParseSnapshotBody(R"({"path": "/srv/copy"})");
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(snapshot->path(), "/srv/copy");
  EXPECT_EQ(std::string(ParseSnapshotBody("{}").status().message()), "path: is missing");
  EXPECT_EQ(std::string(ParseSnapshotBody(R"({"dim": 3})").status().message()), "dim: is not a member (path is)");
  EXPECT_TRUE(ParseCompactBody("").ok());
  EXPECT_TRUE(ParseCompactBody("{}").ok());
  EXPECT_EQ(std::string(ParseCompactBody(R"({"path": "a"})").status().message()),
            "path: is not a member; the body is {} or empty");
}

}  // namespace
}  // namespace maxsim::http
