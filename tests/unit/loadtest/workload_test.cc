#include "loadtest/run/workload.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "client/grpc_support.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/loadtest/modelled_server.h"

namespace maxsim::loadtest {
namespace {

using testing::HasSubstr;

WorkloadOptions Small() {
  WorkloadOptions options;
  options.collection = "docs";
  options.num_candidates = 20;
  options.int_ids = 300;
  options.pool_requests = 50;
  return options;
}

v1::RerankRequest Message(const PreparedRequest& request) {
  v1::RerankRequest message;
  grpc::ByteBuffer buffer = request.encoded().Buffer();
  EXPECT_TRUE(client::ParseMessage(buffer, message));
  return message;
}

std::unique_ptr<Workload> Prepare(const WorkloadOptions& options, const v1::GetInfoResponse& info = Info()) {
  absl::StatusOr<std::unique_ptr<Workload>> workload = Workload::Prepare(options, info);
  EXPECT_TRUE(workload.ok()) << workload.status();
  return *std::move(workload);
}

std::string Refused(const WorkloadOptions& options, const v1::GetInfoResponse& info = Info()) {
  const auto workload = Workload::Prepare(options, info);
  EXPECT_FALSE(workload.ok());
  return std::string(workload.status().message());
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) { std::ofstream(path_, std::ios::binary) << content; }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_ =
      testing::TempDir() + "/loadtest-" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST(WorkloadTest, QueriesNameDistinctIdsThatThereAre) {
  const std::unique_ptr<Workload> workload = Prepare(Small());
  ASSERT_EQ(workload->size(), 50u);
  std::set<int64_t> used;
  for (size_t i = 0; i < workload->size(); ++i) {
    const v1::RerankRequest request = Message((*workload)[i]);
    EXPECT_EQ(request.collection(), "docs");
    EXPECT_EQ(request.top_k(), 100u);
    const auto& ids = request.candidates().int_ids().ids();
    const std::set<int64_t> distinct(ids.begin(), ids.end());
    EXPECT_EQ(ids.size(), 20);
    EXPECT_EQ(distinct.size(), 20u);
    EXPECT_TRUE(*distinct.begin() >= 0 && *distinct.rbegin() < 300);
    used.insert(distinct.begin(), distinct.end());
    ASSERT_EQ(request.queries_size(), 1);
    EXPECT_EQ(request.queries(0).tokens().num_tokens(), 32u);
    EXPECT_EQ(request.queries(0).tokens().data().size(), 32u * 8 * 2);
  }
  EXPECT_GT(used.size(), 280u) << "1000 uniform draws of 300";
}

TEST(WorkloadTest, ASeedMakesTheSameRequestsAndAnotherOthers) {
  const auto bytes = [](uint64_t seed) {
    WorkloadOptions options = Small();
    options.seed = seed;
    const std::unique_ptr<Workload> workload = Prepare(options);
    std::string all;
    for (size_t i = 0; i < workload->size(); ++i) all += Message((*workload)[i]).SerializeAsString();
    return all;
  };
  EXPECT_EQ(bytes(1), bytes(1));
  EXPECT_NE(bytes(1), bytes(2));
}

TEST(WorkloadTest, ZipfMakesSomeIdsPopular) {
  WorkloadOptions options = Small();
  options.num_candidates = 1;
  options.zipf_exponent = 1;
  options.pool_requests = 20'000;
  const std::unique_ptr<Workload> workload = Prepare(options);
  std::map<int64_t, int> counts;
  for (size_t i = 0; i < workload->size(); ++i) ++counts[Message((*workload)[i]).candidates().int_ids().ids(0)];
  std::vector<int> sorted;
  for (const auto& [id, count] : counts) sorted.push_back(count);
  std::sort(sorted.rbegin(), sorted.rend());
  double harmonic = 0;
  for (int rank = 1; rank <= 300; ++rank) harmonic += 1.0 / rank;
  for (const size_t rank : {1, 2, 5}) {
    const double expected = 20'000 / (static_cast<double>(rank) * harmonic);
    EXPECT_NEAR(sorted[rank - 1], expected, 5 * std::sqrt(expected)) << rank;
  }
}

TEST(WorkloadTest, UnitVectorsAreOfLengthOne) {
  WorkloadOptions options = Small();
  options.dtype = ScalarType::kF32;
  options.query_tokens = *TokenCounts::Parse("uniform:3:9");
  const std::unique_ptr<Workload> workload = Prepare(options);
  std::set<uint32_t> lengths;
  for (size_t i = 0; i < workload->size(); ++i) {
    const v1::TokenMatrix tokens = Message((*workload)[i]).queries(0).tokens();
    lengths.insert(tokens.num_tokens());
    ASSERT_EQ(tokens.data().size(), tokens.num_tokens() * 8u * 4);
    for (uint32_t row = 0; row < tokens.num_tokens(); ++row) {
      float values[8];
      std::memcpy(values, tokens.data().data() + row * sizeof(values), sizeof(values));
      double square = 0;
      for (const float value : values) square += static_cast<double>(value) * value;
      EXPECT_NEAR(square, 1, 1e-5);
    }
  }
  EXPECT_EQ(lengths, (std::set<uint32_t>{3, 4, 5, 6, 7, 8, 9}));
}

TEST(WorkloadTest, QueriesOfARequestShareTheirCandidatesOrNot) {
  WorkloadOptions options = Small();
  options.queries_per_request = 3;
  v1::RerankRequest request = Message((*Prepare(options))[0]);
  EXPECT_EQ(request.queries_size(), 3);
  EXPECT_EQ(request.candidates().int_ids().ids_size(), 20);
  EXPECT_FALSE(request.queries(1).has_candidates());
  EXPECT_NE(request.queries(0).SerializeAsString(), request.queries(1).SerializeAsString());

  options.shared_candidates = false;
  request = Message((*Prepare(options))[0]);
  EXPECT_FALSE(request.has_candidates());
  EXPECT_EQ(request.queries(2).candidates().int_ids().ids_size(), 20);
  EXPECT_NE(request.queries(0).candidates().SerializeAsString(), request.queries(1).candidates().SerializeAsString());
}

TEST(WorkloadTest, InlineDocumentsAndTheWholeCollectionAreCandidatesToo) {
  WorkloadOptions options = Small();
  options.int_ids = 0;
  options.candidates = CandidateKind::kInline;
  options.num_candidates = 7;
  options.document_tokens = TokenCounts(11);
  const v1::RerankRequest request = Message((*Prepare(options))[0]);
  ASSERT_EQ(request.candidates().inline_documents().documents_size(), 7);
  EXPECT_EQ(request.candidates().inline_documents().documents(6).num_tokens(), 11u);
  EXPECT_EQ(request.candidates().inline_documents().documents(6).data().size(), 11u * 8 * 2);
  EXPECT_EQ(Prepare(options)->num_candidates(), 7u);
  options.candidates = CandidateKind::kWholeCollection;
  EXPECT_TRUE(Message((*Prepare(options))[0]).candidates().has_whole_collection());
  EXPECT_EQ(Prepare(options)->num_candidates(), 500u);
}

TEST(WorkloadTest, AFilterIsInEveryRequestAndInTheDescription) {
  WorkloadOptions options = Small();
  EXPECT_EQ(Message((*Prepare(options))[0]).matching_case(), v1::RerankRequest::MATCHING_NOT_SET);
  options.filter = "year >= 2020";
  const std::unique_ptr<Workload> workload = Prepare(options);
  EXPECT_EQ(Message((*workload)[49]).filter_text(), "year >= 2020");
  EXPECT_THAT(workload->description(), HasSubstr(" that match year >= 2020; "));
}

TEST(WorkloadTest, IdsComeFromAFileOrFromAPrefix) {
  WorkloadOptions options = Small();
  options.num_candidates = 3;
  options.id_prefix = "doc-";
  EXPECT_THAT(Message((*Prepare(options, Info(v1::ID_TYPE_STRING)))[0]).candidates().string_ids().ids(0),
              testing::StartsWith("doc-"));
  options.id_prefix = "";
  EXPECT_THAT(Message((*Prepare(options, Info(v1::ID_TYPE_STRING)))[0]).candidates().string_ids().ids(0),
              testing::MatchesRegex("[0-9]+"));
  options.id_prefix.reset();
  options.int_ids = 0;
  const TemporaryFile file("17\n\n  4 \r\n-2041\n");
  options.ids_file = file.path();
  const v1::RerankRequest numbers = Message((*Prepare(options))[0]);
  EXPECT_THAT(numbers.candidates().int_ids().ids(), testing::UnorderedElementsAre(17, 4, -2041));
  const v1::RerankRequest texts = Message((*Prepare(options, Info(v1::ID_TYPE_STRING)))[0]);
  EXPECT_THAT(texts.candidates().string_ids().ids(), testing::UnorderedElementsAre("17", "  4 ", "-2041"));
}

TEST(WorkloadTest, AnIdThatIsThereTwiceIsRefusedWithBothLines) {
  WorkloadOptions options = Small();
  options.int_ids = 0;
  options.num_candidates = 1;
  const TemporaryFile file("17\r\n4\n\n 017\n");
  options.ids_file = file.path();
  EXPECT_THAT(Refused(options), HasSubstr(file.path() + ":4: the id \"017\" is already on line 1"));
  // These ids differ as strings.
  EXPECT_EQ(Prepare(options, Info(v1::ID_TYPE_STRING))->size(), 50u);
  std::ofstream(file.path(), std::ios::app) << "x\n17\n";
  EXPECT_THAT(Refused(options, Info(v1::ID_TYPE_STRING)), HasSubstr(":6: the id \"17\" is already on line 1"));
}

TEST(WorkloadTest, PreparingIsSeenAndCanBeEnded) {
  std::vector<size_t> seen;
  const auto whole = Workload::Prepare(Small(), Info(), [&seen](size_t num_prepared) {
    seen.push_back(num_prepared);
    return true;
  });
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(seen.size(), 50u);
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], i);
  int calls = 0;
  const auto ended = Workload::Prepare(Small(), Info(), [&calls](size_t) { return ++calls < 10; });
  EXPECT_EQ(ended.status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(ended.status().message()), HasSubstr("9 requests were prepared"));
  EXPECT_EQ(calls, 10);
}

TEST(WorkloadTest, SteepPopularityOfVeryManyIdsIsPreparedAsFastAsAnyOther) {
  // If each request went over all ids, preparing it would take hours and 16 TB of memory.
  WorkloadOptions options = Small();
  options.int_ids = uint64_t{1} << 40;
  options.zipf_exponent = 5;
  options.num_candidates = 300;
  const std::unique_ptr<Workload> workload = Prepare(options);
  ASSERT_EQ(workload->size(), 50u);
  for (size_t i = 0; i < workload->size(); ++i) {
    const v1::RerankRequest request = Message((*workload)[i]);
    const auto& ids = request.candidates().int_ids().ids();
    EXPECT_EQ(std::set<int64_t>(ids.begin(), ids.end()).size(), 300u);
  }
}

TEST(WorkloadTest, ThePoolEndsAtItsBoundOnBytes) {
  WorkloadOptions options = Small();
  const uint64_t one = Prepare(options)->total_bytes() / 50;
  options.pool_bytes = 10 * one;
  EXPECT_NEAR(static_cast<double>(Prepare(options)->size()), 10, 1);
  options.pool_bytes = 1;
  EXPECT_EQ(Prepare(options)->size(), 4u);
  options.pool_requests = 2;
  EXPECT_EQ(Prepare(options)->size(), 2u);
}

TEST(WorkloadTest, WhatTheServerWouldRefuseIsRefusedWithItsLimit) {
  WorkloadOptions options = Small();
  options.collection = "books";
  EXPECT_THAT(Refused(options), HasSubstr("no \"books\"; it has docs"));
  options = Small();
  options.queries_per_request = 17;
  EXPECT_THAT(Refused(options), HasSubstr("--queries-per-request: 17 is more than the server's"));
  options = Small();
  options.top_k = 201;
  EXPECT_THAT(Refused(options), HasSubstr("limits.max_top_k, 200"));
  options = Small();
  options.query_tokens = *TokenCounts::Parse("uniform:1:129");
  EXPECT_THAT(Refused(options), HasSubstr("--query-tokens: 129"));
  options = Small();
  options.num_candidates = options.int_ids = 401;
  EXPECT_THAT(Refused(options), HasSubstr("limits.max_candidates_per_query, 400"));
  options.num_candidates = 301;
  options.int_ids = 300;
  EXPECT_THAT(Refused(options), HasSubstr("301 is more than the 300 ids"));
  options = Small();
  options.candidates = CandidateKind::kInline;
  options.num_candidates = 65;
  EXPECT_THAT(Refused(options), HasSubstr("limits.max_inline_documents, 64"));
  options.num_candidates = 64;
  options.document_tokens = TokenCounts(513);
  EXPECT_THAT(Refused(options), HasSubstr("--document-tokens: 513"));
  options.document_tokens = TokenCounts(512);  // 64 x 512 x 8 x 2 bytes = 512 KiB per list: two lists exceed the limit
  options.queries_per_request = 2;
  options.shared_candidates = false;
  EXPECT_THAT(Refused(options), HasSubstr("limits.max_request_bytes, 1048576"));
  EXPECT_THAT(Refused(Small(), Info(v1::ID_TYPE_STRING)), HasSubstr("the collection has string ids"));
  v1::GetInfoResponse loading = Info();
  loading.mutable_collections(0)->set_state(v1::COLLECTION_STATE_LOADING);
  EXPECT_THAT(Refused(Small(), loading), HasSubstr("not ready"));
}

TEST(WorkloadTest, WrongFilesAreNamed) {
  WorkloadOptions options = Small();
  options.int_ids = 0;
  options.ids_file = "/nowhere/ids.txt";
  EXPECT_THAT(Refused(options), HasSubstr("/nowhere/ids.txt"));
  const TemporaryFile file("1\n2\nthree\n");
  options.ids_file = file.path();
  EXPECT_THAT(Refused(options), HasSubstr(":3: \"three\" is not a 64-bit integer"));
  options = Small();
  options.queries_file = "/nowhere/queries.npy";
  EXPECT_THAT(Refused(options), HasSubstr("/nowhere/queries.npy"));
}

TEST(WorkloadTest, RecordedQueriesAreSentAsTheyAreInTurn) {
  WorkloadOptions options = Small();
  options.queries_file = "demo/query_tokens.npy";
  options.query_lengths_file = "demo/query_lengths.npy";
  EXPECT_THAT(Refused(options), HasSubstr("the dimension is 128, but the collection's is 8"));
  v1::GetInfoResponse info = Info();
  info.mutable_collections(0)->set_dim(128);
  const std::unique_ptr<Workload> workload = Prepare(options, info);
  const v1::TokenMatrix first = Message((*workload)[0]).queries(0).tokens();
  EXPECT_EQ(first.dtype(), v1::DATA_TYPE_F16);
  EXPECT_EQ(first.num_tokens(), 12u);  // as the README's first question has
  EXPECT_NE(Message((*workload)[1]).queries(0).SerializeAsString(),
            Message((*workload)[0]).queries(0).SerializeAsString());
  EXPECT_EQ(Message((*workload)[15]).queries(0).SerializeAsString(),
            Message((*workload)[0]).queries(0).SerializeAsString())
      << "there are 15";
}

}  // namespace
}  // namespace maxsim::loadtest
