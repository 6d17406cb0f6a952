// Tests maxsimctl's upsert and delete with a fake server that records the documents it gets.
#include <cstdint>
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
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(CtlDocumentsTest, UpsertWritesLinesAndSaysHowMany) {
  const std::string lines =
      WriteFile("docs.jsonl",
                R"({"id": "a", "tokens": [[1, 2], [3, 4]], "payload": {"title": "A"}, "version": 7}
{"id": "b", "text": "how do birds fly"}
{"id": "c", "tokens": [[0.5, 1]], "version": 1}
)");
  const Outcome run = Run({"upsert", "notes", "--documents", lines});
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
                                     "encoded_tokens": 10, "truncated": 0, "sequence": 4})"));
}

TEST_F(CtlDocumentsTest, UpsertSaysWhichTextsTheEncoderCut) {
  std::string lines;
  for (int i = 0; i < 14; ++i) lines += R"({"id": "d)" + std::to_string(i) + R"(", "text": "words"})" + "\n";
  const std::string path = WriteFile("docs.jsonl", lines);
  EXPECT_THAT(Run({"upsert", "notes", "--documents", path}).err, Not(HasSubstr("cut")));
  int first_whole = 2;
  server_.on_upsert = [&](auto&, const v1::UpsertRequest& request, v1::UpsertResponse& response) {
    grpc::Status status = Write(request, response);
    for (int i = 0; i < response.results_size(); ++i)
      response.mutable_results(i)->set_truncated(i > 0 && i < first_whole);
    return status;
  };
  EXPECT_THAT(
      Run({"upsert", "notes", "--documents", path}).err,
      AllOf(HasSubstr("the encoder cut the end of 1 text, longer than its model reads: "), EndsWith("docs.jsonl:2\n")));
  first_whole = 14;
  EXPECT_THAT(Run({"upsert", "notes", "--documents", path}).err,
              AllOf(HasSubstr("the encoder cut the end of 13 texts, "), HasSubstr("docs.jsonl:11, ...\n"),
                    Not(HasSubstr("docs.jsonl:12"))));
  EXPECT_EQ(json::parse(Run({"upsert", "notes", "--documents", path, "--json"}).out)["truncated"], 13);
}

TEST_F(CtlDocumentsTest, UpsertTakesTheArraysThatBuildTakes) {
  const std::string tokens = WriteNpy<uint16_t>(
      "tokens.npy", "<f2", "(3, 8)", {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9});
  const std::string lengths = WriteNpy<int32_t>("lengths.npy", "<i4", "(2,)", {1, 2});
  const std::string ids = WriteFile("ids.jsonl", "{\"id\": \"a\", \"title\": \"A\"}\n{\"id\": \"b\"}\n");
  const Outcome run =
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
  const Outcome run = Run({"upsert", "notes", "--documents", path});
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
  const Outcome run = Run({"upsert", "notes", "--documents", path});
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
  const Outcome run = Run({"upsert", "notes", "--documents", path, "--timeout", "60"});
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
    const Outcome run = Run(all);
    EXPECT_EQ(run.code, kExitUsage) << run.err;
    EXPECT_THAT(run.err, StartsWith("maxsimctl: "));
  }
  EXPECT_EQ(Run({"upsert", "notes", "--documents", Path("none.jsonl")}).code, kExitFailed);
  const Outcome run = Run({"upsert", "other", "--documents", "-"});
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
  Outcome run = Run({"delete", "notes", "a", "gone", "new", "--version", "4"});
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
                                                  "missing": 1, "not_found": ["gone"], "sequence": 12})"));
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
    Outcome run = Run({command, "notes"});
    EXPECT_EQ(run.code, kExitUsage);
    EXPECT_THAT(run.err, HasSubstr("give document ids, or --ids-file"));
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

}  // namespace
}  // namespace maxsim::ctl
