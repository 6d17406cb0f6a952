// Tests maxsimctl's commands about live collections and their documents, against a server that answers what it is told.
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/fake_server.h"
#include "tools/maxsimctl/support/maxsimctl.h"

namespace maxsim::ctl {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

struct CommandOutcome {
  int code;
  std::string out, err;
};

class CtlDocumentsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_);
    v1::CollectionInfo* notes = server_.info.add_collections();
    notes->set_name("notes");
    notes->set_state(v1::COLLECTION_STATE_READY);
    notes->set_id_type(v1::ID_TYPE_STRING);
    notes->set_dim(2);
    v1::LiveInfo* live = notes->mutable_live();
    live->set_sequence(1402);
    live->set_compacted_sequence(1398);
    live->set_num_changed_documents(3);
    live->set_num_deleted_documents(1007);
    live->set_num_segments(1);
    live->set_segment_bytes(64 << 20);
    live->set_segment_used_bytes(3 << 10);
    live->set_log_bytes(5 << 10);
    server_.info.mutable_limits()->set_max_request_bytes(1 << 20);
    server_.on_upsert = [this](auto&, const v1::UpsertRequest& request, v1::UpsertResponse& response) {
      return Write(request, response);
    };
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  grpc::Status Write(const v1::UpsertRequest& request, v1::UpsertResponse& response) {
    requests_.push_back(request);
    for (const v1::Document& document : request.documents()) {
      const bool stale = document.version() == 1;
      response.add_results()->set_outcome(stale ? v1::WRITE_OUTCOME_STALE : v1::WRITE_OUTCOME_APPLIED);
      if (!stale) ++sequence_;
      if (!document.text().empty()) response.set_encoded_tokens(response.encoded_tokens() + 10);
    }
    response.set_sequence(sequence_);
    return grpc::Status::OK;
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string WriteFile(const std::string& name, const std::string& text) {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }

  template <typename T>
  std::string WriteNpy(const std::string& name, const std::string& descr, const std::string& shape,
                       const std::vector<T>& values) {
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(128 - 10 - 1, ' ');
    header.push_back('\n');
    std::string text = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header;
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return WriteFile(name, text);
  }

  CommandOutcome Run(std::vector<std::string> arguments) {
    std::ostringstream out, err;
    const Environment environment{.out = out, .err = err};
    arguments.insert(arguments.begin(), {"--server", server_.target()});
    const int code = RunMaxsimctl(arguments, environment);
    return {code, out.str(), err.str()};
  }

  const std::string folder_ = ::testing::TempDir() + "/ctl_documents_" + std::to_string(getpid());
  std::vector<v1::UpsertRequest> requests_;
  uint64_t sequence_ = 0;
  test::FakeServer server_;
};

TEST_F(CtlDocumentsTest, UpsertWritesLinesAndSaysHowMany) {
  const std::string lines =
      WriteFile("docs.jsonl",
                R"({"id": "a", "tokens": [[1, 2], [3, 4]], "payload": {"title": "A"}, "version": 7}
{"id": "b", "text": "how do birds fly"}
{"id": "c", "tokens": [[0.5, 1]], "version": 1}
)");
  const CommandOutcome run = Run({"upsert", "notes", "--documents", lines});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_THAT(run.out, MatchesRegex("wrote 2 documents to notes \\(1 more are stale: a version that is not older was "
                                    "there\\), sequence 2, in [0-9.]+ s\n"));
  ASSERT_EQ(requests_.size(), 1);
  EXPECT_EQ(requests_[0].collection(), "notes");
  ASSERT_EQ(requests_[0].documents_size(), 3);
  EXPECT_EQ(requests_[0].documents(0).payload(), R"({"title": "A"})");
  EXPECT_EQ(requests_[0].documents(0).tokens().num_tokens(), 2);
  EXPECT_EQ(requests_[0].documents(1).text(), "how do birds fly");
  const json summary = json::parse(Run({"upsert", "notes", "--documents", lines, "--json"}).out);
  EXPECT_EQ(summary, json::parse(R"({"collection": "notes", "documents": 3, "applied": 2, "stale": 1,
                                     "encoded_tokens": 10, "sequence": 4})"));
}

TEST_F(CtlDocumentsTest, UpsertTakesTheArraysThatBuildTakes) {
  const std::string tokens = WriteNpy<uint16_t>(
      "tokens.npy", "<f2", "(3, 8)", {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9});
  const std::string lengths = WriteNpy<int32_t>("lengths.npy", "<i4", "(2,)", {1, 2});
  const std::string ids = WriteFile("ids.jsonl", "{\"id\": \"a\", \"title\": \"A\"}\n{\"id\": \"b\"}\n");
  const CommandOutcome run =
      Run({"upsert", "notes", "--tokens", tokens, "--lengths", lengths, "--ids", ids, "--version", "9"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  ASSERT_EQ(requests_.size(), 1);
  ASSERT_EQ(requests_[0].documents_size(), 2);
  const v1::Document& a = requests_[0].documents(0);
  const v1::Document& b = requests_[0].documents(1);
  EXPECT_EQ(a.string_id(), "a");
  EXPECT_EQ(a.payload(), R"({"title":"A"})");
  EXPECT_EQ(b.payload(), "");
  EXPECT_EQ(a.version(), 9);
  EXPECT_EQ(b.tokens().dtype(), v1::DATA_TYPE_F16);
  EXPECT_EQ(b.tokens().num_tokens(), 2);
  ASSERT_EQ(b.tokens().data().size(), 32);
  EXPECT_EQ(b.tokens().data().substr(0, 8), std::string("\x01\0\x02\0\x03\0\x04\0", 8));
  EXPECT_EQ(b.tokens().data().substr(30), std::string("\x09\0", 2));
}

TEST_F(CtlDocumentsTest, DoublesAreRoundedAndNumbersWithoutIdsBecomeTheCollectionsType) {
  const std::string tokens = WriteNpy<double>("tokens.npy", "<f8", "(1, 8)", {0.5, -3, 0, 0, 0, 0, 0, 0});
  const std::string lengths = WriteNpy<int32_t>("lengths.npy", "<i4", "(1,)", {1});
  ASSERT_EQ(Run({"upsert", "notes", "--tokens", tokens, "--lengths", lengths}).code, kExitOk);
  EXPECT_EQ(requests_[0].documents(0).string_id(), "0");
  EXPECT_EQ(requests_[0].documents(0).tokens().dtype(), v1::DATA_TYPE_F32);
  ASSERT_EQ(requests_[0].documents(0).tokens().data().size(), 32);
  EXPECT_EQ(requests_[0].documents(0).tokens().data().substr(0, 8), std::string("\0\0\0\x3f\0\0\x40\xc0", 8));
}

TEST_F(CtlDocumentsTest, RequestsHoldAThousandDocumentsAndFitTheServersLimit) {
  std::string lines;
  for (int i = 0; i < 2001; ++i) lines += R"({"id": "d)" + std::to_string(i) + R"(", "tokens": [[1, 2]]})" + "\n";
  const std::string path = WriteFile("docs.jsonl", lines);
  ASSERT_EQ(Run({"upsert", "notes", "--documents", path}).code, kExitOk);
  ASSERT_EQ(requests_.size(), 3);
  EXPECT_EQ(requests_[0].documents_size(), 1000);
  EXPECT_EQ(requests_[2].documents(0).string_id(), "d2000");

  requests_.clear();
  server_.info.mutable_limits()->set_max_request_bytes(4096);
  ASSERT_EQ(Run({"upsert", "notes", "--documents", path}).code, kExitOk);
  int count = 0;
  for (const v1::UpsertRequest& request : requests_) {
    EXPECT_LE(request.ByteSizeLong(), 4096);
    EXPECT_GT(request.documents_size(), 0);
    count += request.documents_size();
  }
  EXPECT_EQ(count, 2001);
  EXPECT_LT(requests_.size(), 40);
}

TEST_F(CtlDocumentsTest, AWrongLineIsNamedWithWhatHasBeenWritten) {
  std::string lines;
  for (int i = 0; i < 1500; ++i) lines += R"({"id": "d)" + std::to_string(i) + R"(", "tokens": [[1, 2]]})" + "\n";
  const std::string path = WriteFile("docs.jsonl", lines + R"({"id": "x"})");
  const CommandOutcome run = Run({"upsert", "notes", "--documents", path});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, HasSubstr("docs.jsonl:1501: neither \"tokens\" nor \"text\""));
  EXPECT_THAT(run.err, HasSubstr("(the first 1,000 documents are written)"));
}

TEST_F(CtlDocumentsTest, WhatTheServerRefusesIsNamedByItsLine) {
  server_.on_upsert = [](auto&, auto&, auto&) {
    return client::ToGrpcStatus(client::InvalidField("documents[1].tokens.dim", "is 3; the collection has 2"));
  };
  const std::string path =
      WriteFile("docs.jsonl", "{\"id\": \"a\", \"tokens\": [[1, 2]]}\n\n{\"id\": \"b\", \"tokens\": [[1, 2, 3]]}\n");
  const CommandOutcome run = Run({"upsert", "notes", "--documents", path});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, HasSubstr("docs.jsonl:3: documents[1].tokens.dim: is 3; the collection has 2\n"));
}

TEST_F(CtlDocumentsTest, UpsertWaitsWhileTheServerHasNoRoom) {
  server_.on_upsert = [this](auto&, const v1::UpsertRequest& request, v1::UpsertResponse& response) {
    if (server_.num_document_calls > 5) return Write(request, response);
    absl::Status full = absl::ResourceExhaustedError("the memory for changed documents is full");
    client::SetRetryAfter(absl::Milliseconds(1), full);
    return client::ToGrpcStatus(full);
  };
  const std::string path = WriteFile("docs.jsonl", R"({"id": "a", "text": "t"})");
  const CommandOutcome run = Run({"upsert", "notes", "--documents", path, "--timeout", "60"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(server_.num_document_calls, 6) << "more attempts than the client makes by default";
}

TEST_F(CtlDocumentsTest, UpsertsCommandLineIsChecked) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"--documents", "a", "--input", "b"},
                                             {"--documents", "a", "--ids", "b"},
                                             {"--documents", "a", "--version", "3"},
                                             {"--tokens", "a"},
                                             {"--input", "a", "--lengths", "b"},
                                             {"--input", "a", "--version", "0"}}) {
    std::vector<std::string> all = {"upsert", "notes"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const CommandOutcome run = Run(all);
    EXPECT_EQ(run.code, kExitUsage) << run.err;
    EXPECT_THAT(run.err, StartsWith("maxsimctl: "));
  }
  EXPECT_EQ(Run({"upsert", "notes", "--documents", Path("none.jsonl")}).code, kExitFailed);
  const CommandOutcome run = Run({"upsert", "other", "--documents", "-"});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, HasSubstr("no collection 'other'; the server holds notes"));
  EXPECT_EQ(server_.num_document_calls, 0);
}

TEST_F(CtlDocumentsTest, DeleteCountsWhatWasThere) {
  std::vector<v1::DeleteRequest> seen;
  server_.on_delete = [&](auto&, const v1::DeleteRequest& request, v1::DeleteResponse& response) {
    seen.push_back(request);
    for (const std::string& id : request.string_ids().ids()) {
      response.add_results()->set_outcome(id == "gone"  ? v1::WRITE_OUTCOME_NOT_FOUND
                                          : id == "new" ? v1::WRITE_OUTCOME_STALE
                                                        : v1::WRITE_OUTCOME_APPLIED);
    }
    response.set_sequence(12);
    return grpc::Status::OK;
  };
  CommandOutcome run = Run({"delete", "notes", "a", "gone", "new", "--version", "4"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(run.out, "deleted 1 document of notes, sequence 12\n");
  EXPECT_THAT(run.err, AllOf(HasSubstr("1 stale"), HasSubstr("1 id is not in the collection: gone\n")));
  EXPECT_EQ(seen[0].version(), 4);
  EXPECT_THAT(seen[0].string_ids().ids(), ElementsAre("a", "gone", "new"));

  seen.clear();
  std::string ids;
  for (int i = 0; i < 1001; ++i) ids += "d" + std::to_string(i) + "\n";
  run = Run({"delete", "notes", "--ids-file", WriteFile("ids.txt", ids + "gone\n"), "--json"});
  EXPECT_EQ(json::parse(run.out), json::parse(R"({"collection": "notes", "deleted": 1001, "stale": 0,
                                                  "not_found": ["gone"], "sequence": 12})"));
  ASSERT_EQ(seen.size(), 2);
  EXPECT_EQ(seen[1].string_ids().ids_size(), 2);
}

TEST_F(CtlDocumentsTest, AServerThatAnswersTooFewResultsIsNotBelieved) {
  server_.on_delete = [](auto&, auto&, auto&) { return grpc::Status::OK; };
  EXPECT_THAT(Run({"delete", "notes", "a"}).err, HasSubstr("the server's answer is wrong: 0 results for 1 ids"));
  server_.on_upsert = [](auto&, auto&, auto&) { return grpc::Status::OK; };
  const std::string path = WriteFile("docs.jsonl", R"({"id": "a", "text": "t"})");
  EXPECT_THAT(Run({"upsert", "notes", "--documents", path}).err, HasSubstr("0 results for 1 documents"));
}

TEST_F(CtlDocumentsTest, IdsAreNeededOnceAndOfTheCollectionsType) {
  for (const char* command : {"delete", "get"}) {
    CommandOutcome run = Run({command, "notes"});
    EXPECT_EQ(run.code, kExitUsage);
    EXPECT_THAT(run.err, HasSubstr("document ids, or --ids-file, are expected"));
    run = Run({command, "notes", "--ids-file", WriteFile("empty.txt", "\n")});
    EXPECT_EQ(run.code, kExitFailed);
    EXPECT_THAT(run.err, HasSubstr("empty.txt: there is no id"));
    run = Run({command, "notes", "a", "--ids-file", Path("ids.txt")});
    EXPECT_EQ(run.code, kExitUsage) << run.err;
    server_.info.mutable_collections(0)->set_id_type(v1::ID_TYPE_INT64);
    EXPECT_THAT(Run({command, "notes", "1", "x"}).err, HasSubstr("id 2: \"x\" is not a 64-bit integer"));
    server_.info.mutable_collections(0)->set_id_type(v1::ID_TYPE_STRING);
  }
  EXPECT_EQ(server_.num_document_calls, 0);
}

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
  const CommandOutcome run = Run({"get", "notes", "a", "gone", "--min-sequence", "3"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(run.out,
            "id  tokens  version  sequence  payload\n"
            "a        1        7      1400  {\"title\": \"On wings\"}\n");
  EXPECT_EQ(run.err, "not in the collection: gone\ncollection notes, generation 4, sequence 1402\n");
  EXPECT_EQ(seen_[0].min_sequence(), 3);
  EXPECT_FALSE(seen_[0].return_tokens());
}

TEST_F(CtlGetTest, TokensOfEveryStorageArePrinted) {
  CommandOutcome run = Run({"get", "notes", "a", "gone", "--tokens", "--json"});
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

TEST_F(CtlDocumentsTest, CollectionsAreMadeCompactedAndCopied) {
  CommandOutcome run =
      Run({"create", "notes", "--dim", "96", "--storage", "i8", "--id-type", "int64", "--path", "/srv/n"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_THAT(run.out, StartsWith("created notes: "));
  EXPECT_EQ(server_.created.dim(), 96);
  EXPECT_EQ(server_.created.storage(), v1::DATA_TYPE_I8);
  EXPECT_EQ(server_.created.id_type(), v1::ID_TYPE_INT64);
  EXPECT_EQ(server_.created.path(), "/srv/n");
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

TEST_F(CtlDocumentsTest, AFolderThatIsNotAllowedNamesTheKey) {
  server_.admin_status =
      client::ToGrpcStatus(client::FieldError(absl::StatusCode::kPermissionDenied, client::kReasonOutsideAllowedRoots,
                                              "path", "/x is not under store.allowed_roots (/srv)"));
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"create", "n", "--dim", "8"}, {"snapshot", "notes", "/x"}}) {
    const CommandOutcome run = Run(arguments);
    EXPECT_EQ(run.code, kExitFailed);
    EXPECT_THAT(run.err, HasSubstr("add a folder that holds it to store.allowed_roots"));
  }
}

TEST_F(CtlDocumentsTest, CollectionsShowWhatIsLive) {
  server_.info.add_collections()->set_name("still");
  for (const char* command : {"collections", "info"}) {
    const CommandOutcome run = Run({command});
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
  const CommandOutcome run = Run({"collections"});
  EXPECT_THAT(run.out, HasSubstr("NOT WRITABLE"));
  EXPECT_THAT(run.err, HasSubstr("notes: nothing can be written: log/000007.sst: No space left on device\n"));
  const json shown = json::parse(Run({"collections", "--json"}).out);
  EXPECT_EQ(shown[0]["live"]["num_deleted_documents"], 1007);
  EXPECT_EQ(shown[0]["live"]["error"], "log/000007.sst: No space left on device");
  EXPECT_FALSE(shown[1].contains("live"));
}

}  // namespace
}  // namespace maxsim::ctl
