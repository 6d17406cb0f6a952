// Tests maxsimctl's get, scroll, count and facets, and its commands that create, compact and copy live collections.
#include <string>
#include <vector>

#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/service/tools/ctl_documents_fixture.h"
#include "tools/maxsimctl/maxsimctl.h"

namespace maxsim::ctl {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CtlGetTest : public CtlDocumentsTest {
 protected:
  void SetUp() override {
    CtlDocumentsTest::SetUp();
    server_.on_get = [this](auto&, const v1::GetRequest& request, v1::GetResponse& response) {
      seen_.push_back(request);
      response.set_generation(4);
      response.set_sequence(1402);
      for (const std::string& id : request.string_ids().ids()) {
        if (id == "gone") {
          response.mutable_missing_string_ids()->add_ids(id);
          continue;
        }
        v1::StoredDocument* document = response.add_documents();
        document->set_string_id(id);
        document->set_num_tokens(1);
        document->set_payload(R"({"title": "On wings"})");
        document->set_version(7);
        document->set_sequence(1400);
        if (request.return_tokens()) *document->mutable_tokens() = tokens_;
        document->set_scale(0.5f);
      }
      return grpc::Status::OK;
    };
    tokens_.set_dtype(v1::DATA_TYPE_F16);
    tokens_.set_num_tokens(1);
    tokens_.set_dim(2);
    tokens_.set_data(std::string("\x00\x38\x00\xc2", 4));  // 0.5, -3
  }

  v1::TokenMatrix tokens_;
  std::vector<v1::GetRequest> seen_;
};

TEST_F(CtlGetTest, DocumentsAreATableAndMissingOnesARemark) {
  const Outcome run = Run({"get", "notes", "a", "gone", "--min-sequence", "3"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(run.out,
            "id  tokens  version  sequence  payload\n"
            "a        1        7      1400  {\"title\": \"On wings\"}\n");
  EXPECT_EQ(run.err, "not in the collection: gone\ncollection notes, generation 4, sequence 1402\n");
  EXPECT_EQ(seen_[0].min_sequence(), 3);
  EXPECT_FALSE(seen_[0].return_tokens());
}

TEST_F(CtlGetTest, TokensOfEveryStorageArePrinted) {
  Outcome run = Run({"get", "notes", "a", "gone", "--tokens", "--json"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(json::parse(run.out), json::parse(R"({"generation": 4, "sequence": 1402, "missing": ["gone"], "documents": [
      {"id": "a", "num_tokens": 1, "version": 7, "sequence": 1400, "payload": {"title": "On wings"},
       "tokens": [[0.5, -3]]}]})"));
  EXPECT_THAT(Run({"get", "notes", "a", "--tokens"}).out, HasSubstr("\na\n0.5 -3\n"));
  tokens_.set_dtype(v1::DATA_TYPE_BF16);
  tokens_.set_data(std::string("\x00\x3f\x40\xc0", 4));
  EXPECT_THAT(Run({"get", "notes", "a", "--tokens"}).out, HasSubstr("\na\n0.5 -3\n"));
  tokens_.set_dtype(v1::DATA_TYPE_I8);
  tokens_.set_data(std::string("\x01\xfa", 2));
  EXPECT_THAT(Run({"get", "notes", "a", "--tokens"}).out, HasSubstr("\na\n0.5 -3\n"));
  tokens_.set_num_tokens(2);
  run = Run({"get", "notes", "a", "--tokens"});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, HasSubstr("the server's answer is wrong: 2 bytes for 4 values of i8"));
}

TEST_F(CtlGetTest, ManyIdsAreReadInSeveralRequests) {
  std::vector<std::string> arguments = {"get", "notes"};
  for (int i = 0; i < 45; ++i) arguments.push_back("d" + std::to_string(i));
  arguments.push_back("--json");
  EXPECT_EQ(json::parse(Run(arguments).out)["documents"].size(), 45);
  EXPECT_EQ(seen_.size(), 1);
  seen_.clear();
  arguments.push_back("--tokens");
  EXPECT_EQ(json::parse(Run(arguments).out)["documents"].size(), 45);
  EXPECT_EQ(seen_.size(), 3);
}

TEST_F(CtlDocumentsTest, DocumentsAreListedPageByPage) {
  std::vector<v1::ScrollRequest> seen;
  server_.on_scroll = [&seen](auto&, const v1::ScrollRequest& request, v1::ScrollResponse& response) {
    seen.push_back(request);
    const bool is_first = !request.has_after_string_id();
    v1::StoredDocument& document = *response.add_documents();
    document.set_string_id(is_first ? "a" : "b");
    document.set_num_tokens(3);
    document.set_payload(is_first ? R"({"title": "On wings"})" : "");
    response.set_has_more(is_first);
    return grpc::Status::OK;
  };
  const Outcome run = Run({"scroll", "notes", "--filter", "year > 2000", "--min-sequence", "7"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(run.out, R"({"id":"a","num_tokens":3,"version":0,"sequence":0,"payload":{"title":"On wings"}})"
                     "\n"
                     R"({"id":"b","num_tokens":3,"version":0,"sequence":0,"payload":null})"
                     "\n");
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].filter_text(), "year > 2000");
  EXPECT_EQ(seen[0].min_sequence(), 7u);
  EXPECT_EQ(seen[0].limit(), 1000u);
  EXPECT_TRUE(seen[0].return_payloads());
  EXPECT_EQ(seen[1].after_string_id(), "a");
  seen.clear();
  EXPECT_EQ(Run({"scroll", "notes", "--limit", "1", "--tokens"}).code, kExitOk);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].limit(), 1u);
  EXPECT_TRUE(seen[0].return_tokens());
  EXPECT_EQ(Run({"scroll"}).code, kExitUsage);
}

TEST_F(CtlDocumentsTest, MatchingDocumentsAreDeleted) {
  std::vector<v1::DeleteRequest> seen;
  server_.on_delete = [&seen](auto&, const v1::DeleteRequest& request, v1::DeleteResponse& response) {
    seen.push_back(request);
    // Another call was faster with the documents of the first answer.
    const bool is_first = seen.size() % 2 == 1;
    response.set_num_deleted(is_first ? 0 : 5);
    response.set_num_missing(is_first ? 1000 : 0);
    response.set_num_stale(is_first ? 0 : 2);
    response.set_has_more(is_first);
    response.set_sequence(is_first ? 7 : 12);
    return grpc::Status::OK;
  };
  Outcome run = Run({"delete", "notes", "--filter", "year < 2000", "--version", "3"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(run.out, "deleted 5 documents of notes, sequence 12\n");
  EXPECT_THAT(run.err, AllOf(HasSubstr("2 stale"), HasSubstr("1,000 missing: another call deleted them first")));
  ASSERT_EQ(seen.size(), 2);
  EXPECT_EQ(seen[0].filter_text(), "year < 2000");
  EXPECT_EQ(seen[0].version(), 3);
  EXPECT_EQ(seen[0].min_sequence(), 0);
  EXPECT_EQ(seen[1].min_sequence(), 7);
  run = Run({"delete", "notes", "--filter", "year < 2000", "--min-sequence", "5", "--json"});
  EXPECT_EQ(seen[2].min_sequence(), 5);
  EXPECT_EQ(json::parse(run.out), json::parse(R"({"collection": "notes", "deleted": 5, "stale": 2, "missing": 1000,
                                                  "sequence": 12})"));
}

TEST_F(CtlDocumentsTest, DeletesWithAFilterSayWhatTheyDidBeforeAnError) {
  int num_calls = 0;
  server_.on_delete = [&num_calls](auto&, auto&, v1::DeleteResponse& response) {
    if (++num_calls == 2) return grpc::Status(grpc::StatusCode::INTERNAL, "a fault");
    response.set_num_deleted(2000);
    response.set_has_more(true);
    return grpc::Status::OK;
  };
  const Outcome run = Run({"delete", "notes", "--filter", "year < 2000"});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, HasSubstr("deleted 2,000 documents of notes before the error: run the command again to delete "
                                 "the rest\n"));
  EXPECT_THAT(run.err, HasSubstr("a fault\n"));
  // A command line without a filter never means all documents.
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {}, {"--filter", ""}, {"a", "--filter", "year < 2000"}, {"a", "--min-sequence", "5"}}) {
    std::vector<std::string> all = {"delete", "notes"};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(Run(all).code, kExitUsage);
  }
  EXPECT_EQ(num_calls, 2);
}

TEST_F(CtlDocumentsTest, ARoutersErrorIsNotRepeated) {
  const std::string message = "a fault (group b); 5 documents of group a were deleted: the call can be repeated";
  server_.on_delete = [&message](auto&, auto&, auto&) {
    absl::Status status = absl::InternalError(message);
    client::SetPartlyDeleted(5, status);
    return client::ToGrpcStatus(status);
  };
  const Outcome run = Run({"delete", "notes", "--filter", "year < 2000"});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, HasSubstr("deleted 5 documents of notes before the error"));
  EXPECT_THAT(run.err, HasSubstr(message + "\n"));
}

TEST_F(CtlDocumentsTest, MatchingDocumentsAreCounted) {
  server_.on_count = [](auto&, const v1::CountRequest& request, v1::CountResponse& response) {
    response.set_count(request.filter_text() == "year > 2000" ? 12 : 30);
    response.set_sequence(request.min_sequence());
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"count", "notes"}).out, "30\n");
  EXPECT_EQ(Run({"count", "notes", "--filter", "year > 2000"}).out, "12\n");
  EXPECT_EQ(json::parse(Run({"count", "notes", "--min-sequence", "7", "--json"}).out),
            json::parse(R"({"count": 30, "generation": 0, "sequence": 7})"));
  EXPECT_EQ(Run({"count"}).code, kExitUsage);
}

TEST_F(CtlDocumentsTest, FacetsAreATable) {
  v1::FacetsRequest seen;
  server_.on_facets = [&seen](auto&, const v1::FacetsRequest& request, v1::FacetsResponse& response) {
    seen = request;
    for (const char* value : {"en", "d\x1b"}) {
      v1::FacetValue& added = *response.add_values();
      added.set_value(value);
      added.set_count(added.value() == "en" ? 120 : 7);
    }
    response.set_num_values(9);
    response.set_num_documents(140);
    return grpc::Status::OK;
  };
  const Outcome run = Run({"facets", "notes", "lang", "--filter", "year > 2000", "--limit", "2"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(run.out,
            "documents  value\n"
            "      120  en\n"
            "        7  d\n");
  EXPECT_EQ(run.err, "2 of 9 values, 140 documents\n");
  EXPECT_EQ(seen.collection(), "notes");
  EXPECT_EQ(seen.field(), "lang");
  EXPECT_EQ(seen.filter_text(), "year > 2000");
  EXPECT_EQ(seen.limit(), 2u);
  const json all = json::parse(Run({"facets", "notes", "lang", "--json"}).out);
  EXPECT_EQ(all["values"][0], json::parse(R"({"value": "en", "count": 120})"));
  EXPECT_EQ(all["num_documents"], 140);
  EXPECT_EQ(seen.limit(), 10u);
  EXPECT_EQ(Run({"facets", "notes", "lang", "--limit", "65537"}).code, kExitUsage);
  EXPECT_EQ(Run({"facets", "notes"}).code, kExitUsage);
}

TEST_F(CtlDocumentsTest, CollectionsAreMadeCompactedAndCopied) {
  Outcome run = Run({"create", "notes", "--dim", "96", "--storage", "i8", "--id-type", "int64", "--path", "/srv/n"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_THAT(run.out, StartsWith("created notes: "));
  EXPECT_EQ(server_.created.dim(), 96);
  EXPECT_EQ(server_.created.storage(), v1::DATA_TYPE_I8);
  EXPECT_EQ(server_.created.id_type(), v1::ID_TYPE_INT64);
  EXPECT_EQ(server_.created.path(), "/srv/n");
  EXPECT_EQ(server_.created.code_planes(), 0);
  run = Run({"create", "notes", "--dim", "96", "--codes", "2", "--code-factors"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(server_.created.code_planes(), 2);
  EXPECT_TRUE(server_.created.code_factors());
  EXPECT_EQ(server_.created.fields_size(), 0);
  run = Run({"create", "notes", "--dim", "96", "--fields", "lang:keyword=meta.lang,at:time"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  ASSERT_EQ(server_.created.fields_size(), 2);
  EXPECT_EQ(server_.created.fields(0).name(), "lang");
  EXPECT_EQ(server_.created.fields(0).kind(), v1::FIELD_KIND_KEYWORD);
  EXPECT_EQ(server_.created.fields(0).path(), "meta.lang");
  EXPECT_EQ(server_.created.fields(1).kind(), v1::FIELD_KIND_TIME);
  run = Run({"create", "notes", "--dim", "96", "--fields", "lang:text"});
  EXPECT_EQ(run.code, kExitUsage);
  EXPECT_THAT(run.err, HasSubstr("\"lang:text\": kind: \"text\", expected keyword"));
  EXPECT_EQ(Run({"create", "notes", "--dim", "96", "--codes", "3"}).code, kExitUsage);
  EXPECT_EQ(Run({"create", "notes", "--dim", "96", "--code-factors"}).code, kExitUsage);
  run = Run({"create", "notes", "--dim", "96", "--json"});
  EXPECT_EQ(json::parse(run.out)["live"]["sequence"], 0);
  EXPECT_EQ(server_.created.storage(), v1::DATA_TYPE_F16);
  EXPECT_EQ(server_.created.id_type(), v1::ID_TYPE_STRING);
  EXPECT_EQ(Run({"create", "notes"}).code, kExitUsage);
  EXPECT_EQ(Run({"create", "notes", "--dim", "0"}).code, kExitUsage);
  EXPECT_EQ(Run({"create", "notes", "--dim", "9", "--storage", "f8"}).code, kExitUsage);

  EXPECT_THAT(Run({"compact", "notes"}).out, StartsWith("compacted notes: "));
  EXPECT_EQ(json::parse(Run({"compact", "notes", "--json"}).out)["changed"], true);
  EXPECT_EQ(Run({"snapshot", "notes", "/srv/copy"}).out, "copied notes to /srv/copy, with writes up to sequence 41\n");
  EXPECT_EQ(server_.snapshot.path(), "/srv/copy");
  EXPECT_EQ(json::parse(Run({"snapshot", "notes", "/srv/copy", "--json"}).out)["sequence"], 41);
  EXPECT_TRUE(json::parse(Run({"load", "new", "/data/new", "--live", "--json"}).out).contains("live"));
  EXPECT_FALSE(json::parse(Run({"load", "new", "/data/new", "--json"}).out).contains("live"));
}

TEST_F(CtlDocumentsTest, ACollectionIsBootstrappedFromSeveralServers) {
  Outcome run = Run({"bootstrap", "notes", "--from", "a:7070,b:7071"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_THAT(run.out, StartsWith("bootstrapped notes: "));
  EXPECT_THAT(run.out, HasSubstr("3.00 MiB fetched"));
  ASSERT_EQ(server_.bootstrap.sources_size(), 2);
  EXPECT_EQ(server_.bootstrap.sources(0), "a:7070");
  EXPECT_EQ(server_.bootstrap.sources(1), "b:7071");
  EXPECT_FALSE(server_.bootstrap.has_slots());
  run = Run({"bootstrap", "notes", "--from", "a:7070", "--slots", "1024-1535", "--residency", "disk", "--json"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(server_.bootstrap.slots().first_slot(), 1024u);
  EXPECT_EQ(server_.bootstrap.slots().end_slot(), 1536u);
  EXPECT_EQ(server_.bootstrap.residency(), "disk");
  EXPECT_EQ(json::parse(run.out)["fetched_bytes"], 3 << 20);
  EXPECT_EQ(json::parse(run.out)["collection"]["name"], "notes");
  EXPECT_EQ(Run({"bootstrap", "notes"}).code, kExitUsage);
  run = Run({"bootstrap", "notes", "--from", "a:7070", "--slots", "9-4096"});
  EXPECT_EQ(run.code, kExitUsage);
  EXPECT_THAT(run.err, HasSubstr("--slots"));
}

TEST_F(CtlDocumentsTest, AFolderThatIsNotAllowedNamesTheKey) {
  server_.admin_status =
      client::ToGrpcStatus(client::FieldError(absl::StatusCode::kPermissionDenied, client::kReasonOutsideAllowedRoots,
                                              "path", "/x is not under store.allowed_roots (/srv)"));
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"create", "n", "--dim", "8"}, {"snapshot", "notes", "/x"}}) {
    const Outcome run = Run(arguments);
    EXPECT_EQ(run.code, kExitFailed);
    EXPECT_THAT(run.err, HasSubstr("add a folder that holds it to store.allowed_roots"));
  }
}

TEST_F(CtlDocumentsTest, CollectionsShowWhatIsLive) {
  server_.info.add_collections()->set_name("still");
  for (const char* command : {"collections", "info"}) {
    const Outcome run = Run({command});
    EXPECT_EQ(run.code, kExitOk) << run.err;
    EXPECT_THAT(run.out, HasSubstr("live   sequence  compacted  changed  deleted  segments      used     memory"));
    EXPECT_THAT(run.out, HasSubstr("notes      1402       1398        3    1,007         1  3.00 KiB  64.00 MiB  "
                                   "5.00 KiB  writable\n"));
    EXPECT_THAT(run.out.substr(run.out.find("live   sequence")), Not(HasSubstr("still")));
  }
  v1::LiveInfo* live = server_.info.mutable_collections(0)->mutable_live();
  live->set_is_compacting(true);
  EXPECT_THAT(Run({"collections"}).out, HasSubstr("compacting"));
  live->set_error("log/000007.sst: No space left on device");
  const Outcome run = Run({"collections"});
  EXPECT_THAT(run.out, HasSubstr("NOT WRITABLE"));
  EXPECT_THAT(run.err, HasSubstr("notes: nothing can be written: log/000007.sst: No space left on device\n"));
  const json shown = json::parse(Run({"collections", "--json"}).out);
  EXPECT_EQ(shown[0]["live"]["num_deleted_documents"], 1007);
  EXPECT_EQ(shown[0]["live"]["error"], "log/000007.sst: No space left on device");
  EXPECT_FALSE(shown[1].contains("live"));
}

}  // namespace
}  // namespace maxsim::ctl
