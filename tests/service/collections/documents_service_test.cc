// Tests live collections of a running server: clients write to them over gRPC and HTTP, search, compact and copy them.
#include <bit>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include "client/error_details.h"
#include "client/status.h"
#include "maxsim/v1/documents.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "tests/service/collections/documents_fixture.h"

namespace maxsim::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// A written document must get exactly the score that it would get as an inline document of a request.
TEST_F(DocumentsServiceTest, AWriteIsFoundWithTheScoreOfTheInlineDocument) {
  for (const auto& [name, storage] : {std::pair("half", v1::DATA_TYPE_F16), {"quantised", v1::DATA_TYPE_I8}}) {
    SCOPED_TRACE(name);
    const grpc::Status created = Create(name, storage);
    ASSERT_TRUE(created.ok()) << created.error_message();
    EXPECT_EQ(Rerank(Scan(name)).results(0).scores_size(), 0);
    const v1::UpsertResponse written = Upsert(name, {"a", "b"}, 50);
    ASSERT_EQ(written.results_size(), 2);
    EXPECT_EQ(written.sequence(), 2u);
    v1::RerankRequest inline_request = Scan(name);
    for (const uint64_t seed : {50, 51}) {
      *inline_request.mutable_candidates()->mutable_inline_documents()->add_documents() = Tokens(seed);
    }
    v1::RerankRequest list = Scan(name);
    list.mutable_candidates()->mutable_string_ids()->add_ids("a");
    list.mutable_candidates()->mutable_string_ids()->add_ids("b");
    list.set_min_sequence(2);
    const v1::RerankResponse expected = Rerank(inline_request);
    for (const v1::RerankRequest& request : {Scan(name), list}) {
      const v1::RerankResponse response = Rerank(request);
      EXPECT_EQ(response.sequence(), 2u);
      ASSERT_EQ(response.results(0).scores_size(), 2);
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(std::bit_cast<uint32_t>(response.results(0).scores(i)),
                  std::bit_cast<uint32_t>(expected.results(0).scores(i)));
        const std::string id = expected.results(0).positions(i) == 0 ? "a" : "b";
        EXPECT_EQ(response.results(0).string_ids().ids(i), id);
        EXPECT_EQ(response.results(0).payloads(i), "{\"id\":\"" + id + "\"}");
      }
    }
  }
}

TEST_F(DocumentsServiceTest, VersionsDecideAndDeletesTakeAway) {
  ASSERT_TRUE(Create("news", v1::DATA_TYPE_F16).ok());
  EXPECT_EQ(Upsert("news", {"a"}, 1, 5).results(0).outcome(), v1::WRITE_OUTCOME_APPLIED);
  EXPECT_EQ(Upsert("news", {"a"}, 2, 5).results(0).outcome(), v1::WRITE_OUTCOME_STALE);
  grpc::ClientContext get_context;
  v1::GetRequest get;
  get.set_collection("news");
  get.mutable_string_ids()->add_ids("a");
  get.mutable_string_ids()->add_ids("b");
  get.set_return_tokens(true);
  v1::GetResponse got;
  ASSERT_TRUE(documents_->Get(&get_context, get, &got).ok());
  ASSERT_EQ(got.documents_size(), 1);
  EXPECT_EQ(got.documents(0).version(), 5u);
  EXPECT_EQ(got.documents(0).sequence(), 1u);
  EXPECT_EQ(got.documents(0).tokens().data().size(), 4u * kDim * 2);
  EXPECT_THAT(got.missing_string_ids().ids(), ElementsAre("b"));
  grpc::ClientContext delete_context;
  v1::DeleteRequest deletes;
  deletes.set_collection("news");
  deletes.mutable_string_ids()->add_ids("a");
  deletes.mutable_string_ids()->add_ids("b");
  v1::DeleteResponse deleted;
  ASSERT_TRUE(documents_->Delete(&delete_context, deletes, &deleted).ok());
  EXPECT_EQ(deleted.results(0).outcome(), v1::WRITE_OUTCOME_APPLIED);
  EXPECT_EQ(deleted.results(1).outcome(), v1::WRITE_OUTCOME_NOT_FOUND);
  EXPECT_EQ(Rerank(Scan("news")).results(0).scores_size(), 0);
}

TEST_F(DocumentsServiceTest, ARequestThatWantsALaterWriteIsToldToComeAgain) {
  ASSERT_TRUE(Create("news", v1::DATA_TYPE_F16).ok());
  v1::RerankRequest request = Scan("news");
  request.set_min_sequence(3);
  v1::RerankResponse response;
  const absl::Status behind = client::FromGrpcStatus(server_.Rerank(request, &response));
  EXPECT_EQ(behind.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(behind.message(), "min_sequence: is 3, but collection news has only reached 0");
  EXPECT_TRUE(client::RetryAfter(behind).has_value());
  request.set_collection("corpus");
  EXPECT_EQ(server_.Rerank(request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(DocumentsServiceTest, AStreamOfManyDocumentsIsCompactedAndCopied) {
  ASSERT_TRUE(Create("news", v1::DATA_TYPE_F16).ok());
  grpc::ClientContext context;
  v1::UpsertStreamResponse streamed;
  const auto stream = documents_->UpsertStream(&context, &streamed);
  for (uint64_t batch = 0; batch < 20; ++batch) {
    v1::UpsertRequest request;
    request.set_collection("news");
    for (uint64_t i = 0; i < 10; ++i) {
      v1::Document& document = *request.add_documents();
      document.set_string_id("doc-" + std::to_string(batch * 10 + i));
      *document.mutable_tokens() = Tokens(batch * 10 + i);
    }
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(streamed.num_applied(), 200u);
  EXPECT_EQ(streamed.sequence(), 200u);
  const v1::RerankResponse before = Rerank(Scan("news"));
  grpc::ClientContext compact_context;
  v1::CompactCollectionRequest compact;
  compact.set_name("news");
  v1::CompactCollectionResponse compacted;
  ASSERT_TRUE(server_.admin().CompactCollection(&compact_context, compact, &compacted).ok());
  EXPECT_TRUE(compacted.changed());
  EXPECT_EQ(compacted.collection().generation(), 2u);
  EXPECT_EQ(compacted.collection().live().compacted_sequence(), 200u);
  const v1::RerankResponse after = Rerank(Scan("news"));
  EXPECT_EQ(after.sequence(), 200u);
  ASSERT_EQ(after.results(0).scores_size(), before.results(0).scores_size());
  for (int i = 0; i < after.results(0).scores_size(); ++i) {
    EXPECT_EQ(after.results(0).scores(i), before.results(0).scores(i));
    EXPECT_EQ(after.results(0).string_ids().ids(i), before.results(0).string_ids().ids(i));
  }
  grpc::ClientContext snapshot_context;
  v1::SnapshotCollectionRequest snapshot;
  snapshot.set_name("news");
  snapshot.set_path(root_ / "copy");
  v1::SnapshotCollectionResponse copied;
  const grpc::Status copy = server_.admin().SnapshotCollection(&snapshot_context, snapshot, &copied);
  ASSERT_TRUE(copy.ok()) << copy.error_message();
  EXPECT_EQ(copied.sequence(), 200u);
  EXPECT_TRUE(std::filesystem::exists(root_ / "copy/collection.json"));
}

TEST_F(DocumentsServiceTest, ALayoutIsCheckedAndNeedsAStream) {
  ASSERT_TRUE(Create("news", v1::DATA_TYPE_F16).ok());
  const auto set = [this](uint32_t end_slot) {
    grpc::ClientContext context;
    v1::SetLayoutRequest request;
    request.set_name("news");
    v1::SlotOwner& owner = *request.add_owners();
    owner.set_group("g0");
    owner.mutable_slots()->set_end_slot(end_slot);
    v1::SetLayoutResponse response;
    return client::FromGrpcStatus(server_.admin().SetLayout(&context, request, &response));
  };
  const absl::Status wrong = set(4097);
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client::FieldOf(wrong), "owners[0].slots.end_slot");
  EXPECT_EQ(client::LimitOf(wrong), 4096u);
  const absl::Status local = set(4096);
  EXPECT_EQ(local.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(local.message(), "collection news: no stream orders its writes (live.log), so it has no layout");
}

TEST_F(DocumentsServiceTest, WhatAScanFindsIsCountedAndListedOverGrpcAndHttp) {
  grpc::ClientContext create_context;
  v1::CreateCollectionRequest create;
  create.set_name("news");
  create.set_dim(kDim);
  create.set_storage(v1::DATA_TYPE_F16);
  create.add_fields()->set_name("id");
  create.mutable_fields(0)->set_kind(v1::FIELD_KIND_KEYWORD);
  v1::CreateCollectionResponse created;
  ASSERT_TRUE(server_.admin().CreateCollection(&create_context, create, &created).ok());
  Upsert("news", {"a", "b", "c"}, 1);
  v1::RerankRequest scan = Scan("news");
  scan.set_filter_text(R"(id != "b")");
  ASSERT_EQ(Rerank(scan).results(0).scores_size(), 2);
  grpc::ClientContext count_context;
  v1::CountRequest count;
  count.set_collection("news");
  count.set_filter_text(scan.filter_text());
  count.set_min_sequence(3);
  v1::CountResponse counted;
  ASSERT_TRUE(documents_->Count(&count_context, count, &counted).ok());
  EXPECT_EQ(counted.count(), 2u);
  EXPECT_EQ(counted.sequence(), 3u);
  grpc::ClientContext facets_context;
  v1::FacetsRequest facets;
  facets.set_collection("news");
  facets.set_field("id");
  facets.set_limit(1);
  facets.set_filter_text(scan.filter_text());
  v1::FacetsResponse values;
  ASSERT_TRUE(documents_->Facets(&facets_context, facets, &values).ok());
  EXPECT_EQ(values.values_size(), 1);
  EXPECT_EQ(values.num_values(), 2u);

  const int port = server_.http_port();
  const std::string json_type = "application/json";
  HttpAnswer answer = HttpPost(
      port, "/v1/count", R"({"collection": "news", "filter": {"not": {"field": "id", "equals": "b"}}})", json_type);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body), json::parse(R"({"count": 2, "generation": 1, "sequence": 3})"));
  answer = HttpPost(port, "/v1/facets", R"({"collection": "news", "field": "id", "limit": 1})", json_type);
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body), json::parse(R"({"values": [{"value": "a", "count": 1}], "num_values": 3,
                                                      "num_documents": 3, "generation": 1, "sequence": 3})"));
  answer = HttpPost(port, "/v1/facets", R"({"collection": "news", "field": "lang"})", json_type);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(json::parse(answer.body)["error"]["field"], "field");
  answer = HttpPost(port, "/v1/count", R"({"collection": "news", "filter": "lang = 1"})", json_type);
  EXPECT_EQ(json::parse(answer.body)["error"]["field"], "filter");
  EXPECT_EQ(HttpPost(port, "/v1/count", R"({"collection": "no"})", json_type).status, 404);

  v1::ScrollRequest scroll;
  scroll.set_collection("news");
  scroll.set_filter_text(scan.filter_text());
  scroll.set_limit(1);
  grpc::ClientContext scroll_context;
  v1::ScrollResponse page;
  ASSERT_TRUE(documents_->Scroll(&scroll_context, scroll, &page).ok());
  ASSERT_EQ(page.documents_size(), 1);
  EXPECT_EQ(page.documents(0).string_id(), "a");
  EXPECT_TRUE(page.has_more());
  const std::string path = "/v1/collections/news/documents/scroll";
  answer = HttpPost(port, path, R"({"filter": "id != \"b\"", "after": "a", "return_payloads": true})", json_type);
  EXPECT_EQ(answer.status, 200) << answer.body;
  const json listed = json::parse(answer.body);
  ASSERT_EQ(listed["documents"].size(), 1u) << answer.body;
  EXPECT_EQ(listed["documents"][0]["id"], "c");
  EXPECT_EQ(listed["documents"][0]["payload"]["id"], "c");
  EXPECT_EQ(listed["has_more"], false);
  EXPECT_EQ(listed["sequence"], 3);
  answer = HttpPost(port, path, R"({"after": 3})", json_type);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(json::parse(answer.body)["error"]["field"], "after");
  EXPECT_EQ(HttpPost(port, "/v1/collections/no/documents/scroll", "{}", json_type).status, 404);
  // "scroll" is a valid id of a document.
  EXPECT_EQ(HttpGet(port, path).status, 404);
  EXPECT_EQ(HttpGet(port, "/v1/count").status, 405);
}

TEST_F(DocumentsServiceTest, DocumentsAreWrittenAndReadOverHttp) {
  ASSERT_TRUE(Create("news", v1::DATA_TYPE_F32).ok());
  httplib::Client http("127.0.0.1", server_.http_port());
  json row = json::array();
  for (int i = 0; i < kDim; ++i) row.push_back(i == 0 ? 1 : 0);
  const json body = {{"documents", {{{"id", "x/y"}, {"tokens", {row}}, {"payload", {{"n", 1}}}, {"version", 4}}}}};
  const auto put = http.Put("/v1/collections/news/documents", body.dump(), "application/json");
  ASSERT_TRUE(put);
  EXPECT_EQ(put->status, 200) << put->body;
  EXPECT_EQ(json::parse(put->body)["results"], json::parse(R"([{"outcome": "applied", "sequence": 1}])"));
  const auto get = http.Get("/v1/collections/news/documents/x%2Fy");
  ASSERT_TRUE(get);
  EXPECT_EQ(get->status, 200) << get->body;
  EXPECT_EQ(json::parse(get->body), json::parse(R"({"id": "x/y", "num_tokens": 1, "payload": {"n": 1}, "version": 4,
                                                    "sequence": 1, "generation": 1})"));
  const json rerank = {{"model", "news"}, {"query", {row}}, {"documents", "*"}, {"min_sequence", 1}};
  const HttpAnswer ranked = HttpPost(server_.http_port(), "/v1/rerank", rerank.dump(), "application/json");
  EXPECT_EQ(ranked.status, 200) << ranked.body;
  EXPECT_EQ(json::parse(ranked.body)["sequence"], 1);
  EXPECT_EQ(json::parse(ranked.body)["results"][0]["relevance_score"], 1.0);
  const auto found = http.Post("/v1/collections/news/documents/get", R"({"ids": ["no", "x/y"], "return_tokens": true})",
                               "application/json");
  ASSERT_TRUE(found);
  EXPECT_EQ(json::parse(found->body)["missing"], json::parse(R"(["no"])"));
  EXPECT_EQ(json::parse(found->body)["documents"][0]["tokens"]["shape"], json::parse("[1, 32]"));
  const auto gone = http.Delete("/v1/collections/news/documents", R"({"ids": ["x/y", "no"]})", "application/json");
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->status, 200) << gone->body;
  EXPECT_EQ(json::parse(gone->body)["results"][1], json::parse(R"({"outcome": "not_found"})"));
  EXPECT_EQ(http.Get("/v1/collections/news/documents/x%2Fy")->status, 404);
  EXPECT_EQ(http.Get("/v1/collections/other/documents/a")->status, 404);
  EXPECT_EQ(http.Put("/v1/collections/corpus/documents", body.dump(), "application/json")->status, 400);
  const auto wrong =
      http.Put("/v1/collections/news/documents", R"({"documents": [{"id": 7, "text": "t"}]})", "application/json");
  EXPECT_EQ(wrong->status, 400);
  EXPECT_EQ(json::parse(wrong->body)["message"], "documents[0].id: the ids of collection news are of type string");
  const auto method = http.Post("/v1/collections/news/documents", "{}", "application/json");
  EXPECT_EQ(method->status, 405);
  EXPECT_EQ(method->get_header_value("Allow"), "DELETE, PUT");
  const HttpAnswer list = HttpGet(server_.http_port(), "/v1/collections");
  EXPECT_THAT(list.body, HasSubstr("\"live\":{"));
}

}  // namespace
}  // namespace maxsim::test
