// Tests DocumentService. A fake live collection gives the answers that each test chooses.
#include "server/service/documents.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "server/encoder/encoder.h"
#include "server/service/call/status.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"
#include "tests/support/requests.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kDocumentDim = 16;

// Encodes each byte of a text as one row of ones, on the calling thread. Fails for the text "refuse".
class TestEncoder final : public encoder::Encoder {
 public:
  encoder::EncoderIdentity identity() const override { return {.model = "test", .dim = kDocumentDim}; }
  std::shared_ptr<encoder::Cancellation> Encode(encoder::EncodeRequest request, Done done) override {
    EXPECT_EQ(request.kind, encoder::TextKind::kDocument);
    std::vector<encoder::EncodedText> encoded;
    for (const std::string& text : request.texts) {
      if (text == "refuse") {
        done(absl::InvalidArgumentError("too long"));
        return nullptr;
      }
      encoder::EncodedText& one = encoded.emplace_back();
      one.num_tokens = static_cast<int32_t>(text.size());
      one.dim = kDocumentDim;
      one.values.assign(text.size() * kDocumentDim, 1.0F);
    }
    done(std::move(encoded));
    return nullptr;
  }
};

class DocumentServiceTest : public testing::Test {
 protected:
  DocumentServiceTest() {
    test::CorpusOptions options;
    options.payloads = true;
    documents_ = test::SmallDocuments(1, 10, ScalarType::kF16, kDocumentDim);
    test::BuildCorpus(folder_ / "live", documents_, options);
    test::BuildCorpus(folder_ / "fixed", documents_, options);
    store_.SetOpenLive(
        [this](const store::LiveRequest&) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> { return live_; });
    Load("live", true);
    Load("fixed", false);
    service_.SetState(ServingState::kServing);
  }

  void Load(const std::string& name, bool live) {
    const auto loaded =
        store_.Load(name, folder_ / name, store::Residency::kAuto, store::Replication::kAuto, "", nullptr, live);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
  }

  static void AddDocument(const std::string& id, v1::UpsertRequest* request) {
    v1::Document& document = *request->add_documents();
    document.set_string_id(id);
    *document.mutable_tokens() = test::ToProto(test::RandomTokens(5, ScalarType::kF32, kDocumentDim, 3));
  }

  static v1::UpsertRequest Valid(const std::string& collection = "live") {
    v1::UpsertRequest request;
    request.set_collection(collection);
    AddDocument("a", &request);
    AddDocument("b", &request);
    return request;
  }

  absl::StatusOr<v1::UpsertResponse> Upsert(v1::UpsertRequest request, CallContext context = {.method = "Upsert"}) {
    std::optional<absl::StatusOr<v1::UpsertResponse>> answer;
    num_submitted_ = 0;
    service_.Upsert(
        std::move(request), std::move(context),
        [&](absl::StatusOr<v1::UpsertResponse> response) { answer = std::move(response); },
        [this] { ++num_submitted_; });
    EXPECT_TRUE(answer.has_value());
    return answer.value_or(absl::InternalError("no answer"));
  }

  absl::StatusOr<v1::DeleteResponse> Delete(const v1::DeleteRequest& request) {
    std::optional<absl::StatusOr<v1::DeleteResponse>> answer;
    service_.Delete(request, {.method = "Delete"},
                    [&](absl::StatusOr<v1::DeleteResponse> response) { answer = std::move(response); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  void SetEncoder() { texts_.SetEncoder(std::make_unique<TestEncoder>(), uint64_t{1} << 20); }

  test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  test::RandomDocuments documents_;
  store::CollectionStore store_{&backend_, {}};
  Metrics metrics_;
  TextEncoding texts_;
  std::shared_ptr<test::FakeLiveDocuments> live_ = std::make_shared<test::FakeLiveDocuments>();
  DocumentService service_{&store_, &texts_, &metrics_, RequestLimits()};
  int num_submitted_ = 0;
};

TEST_F(DocumentServiceTest, AnUpsertIsWrittenInItsOrderAndAnswered) {
  v1::UpsertRequest request = Valid();
  AddDocument("a", &request);  // An id may come again.
  const auto response = Upsert(std::move(request));
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(live_->written.size(), 3u);
  EXPECT_EQ(live_->written[0].string_id, "a");
  EXPECT_EQ(live_->written[1].string_id, "b");
  EXPECT_EQ(live_->written[2].string_id, "a");
  ASSERT_EQ(response->results_size(), 3);
  EXPECT_EQ(response->results(1).outcome(), v1::WRITE_OUTCOME_APPLIED);
  EXPECT_EQ(response->results(1).sequence(), 9u);
  EXPECT_EQ(response->sequence(), 10u);
  EXPECT_EQ(response->encoded_tokens(), 0u);
  EXPECT_EQ(num_submitted_, 1);
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_requests_total{code=\"OK\",method=\"Upsert\"} 1"));
}

TEST_F(DocumentServiceTest, OutcomesAndErrorsOfTheCollectionAreTheAnswers) {
  live_->on_submit = [](std::vector<store::Write>, store::LiveDocuments::Done done) {
    done(store::WriteResults{
        .results = {{store::WriteResult::Outcome::kStale, 0}, {store::WriteResult::Outcome::kApplied, 4}},
        .sequence = 4});
  };
  const auto stale = Upsert(Valid());
  ASSERT_TRUE(stale.ok()) << stale.status();
  EXPECT_EQ(stale->results(0).outcome(), v1::WRITE_OUTCOME_STALE);
  EXPECT_EQ(stale->results(0).sequence(), 0u);
  live_->on_submit = [](std::vector<store::Write>, store::LiveDocuments::Done done) {
    absl::Status full = absl::ResourceExhaustedError("segments are full");
    client::SetRetryAfter(absl::Seconds(2), full);
    done(full);
  };
  const absl::Status full = Upsert(Valid()).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client::RetryAfter(full), absl::Seconds(2));
}

TEST_F(DocumentServiceTest, WhatIsWrongIsNamedAndNothingIsWritten) {
  const auto refused = [&](const v1::UpsertRequest& request) {
    const absl::Status status = Upsert(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  v1::UpsertRequest request = Valid("");
  EXPECT_EQ(refused(request), "collection: has 0 bytes; must have 1 to 128");
  request = Valid(std::string(129, 'x'));
  EXPECT_EQ(refused(request), "collection: has 129 bytes; must have 1 to 128");
  request = Valid();
  request.clear_documents();
  EXPECT_EQ(refused(request), "documents: has 0 documents; must have 1 to 10000");
  request = Valid();
  for (int i = 0; i < 9'999; ++i) request.add_documents();
  EXPECT_EQ(refused(request), "documents: has 10001 documents; must have 1 to 10000");
  request = Valid();
  request.mutable_documents(1)->mutable_tokens()->set_dim(3);
  EXPECT_EQ(refused(request), "documents[1].tokens.dim: is 3, but the collection's dimension is 16");
  EXPECT_EQ(Upsert(Valid("other")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Upsert(Valid("fixed")).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(num_submitted_, 0);
  EXPECT_TRUE(live_->written.empty());
}

TEST_F(DocumentServiceTest, ACallThatNobodyWaitsForWritesNothing) {
  const auto cancelled = std::make_shared<std::atomic<bool>>(true);
  EXPECT_EQ(Upsert(Valid(), {.method = "Upsert", .cancelled = cancelled}).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(Upsert(Valid(), {.method = "Upsert", .deadline = absl::InfinitePast()}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(live_->written.empty());
}

TEST_F(DocumentServiceTest, CallsAreRefusedWhileTheServerLoadsOrDrains) {
  for (const auto state : {ServingState::kLoading, ServingState::kDraining}) {
    service_.SetState(state);
    EXPECT_EQ(Upsert(Valid()).status().code(), absl::StatusCode::kUnavailable);
    v1::GetRequest get;
    get.set_collection("live");
    get.mutable_string_ids()->add_ids("doc-1");
    EXPECT_EQ(service_.GetNow(get, {.method = "Get"}).status().code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(live_->written.empty());
}

TEST_F(DocumentServiceTest, TextsBecomeTokensBesideThoseThatAre) {
  SetEncoder();
  v1::UpsertRequest request = Valid();
  request.mutable_documents(0)->clear_tokens();
  request.mutable_documents(0)->set_text("four");
  const auto response = Upsert(std::move(request));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->encoded_tokens(), 4u);
  ASSERT_EQ(live_->written.size(), 2u);
  EXPECT_EQ(live_->written[0].num_tokens, 4);
  EXPECT_EQ(live_->written[1].num_tokens, 3);
  const uint16_t one = 0x3c00;
  EXPECT_EQ(std::memcmp(live_->written[0].rows.data(), &one, sizeof(one)), 0);
}

TEST_F(DocumentServiceTest, TextsWantAnEncoderThatTakesThem) {
  v1::UpsertRequest request = Valid();
  request.mutable_documents(1)->clear_tokens();
  request.mutable_documents(1)->set_text("refuse");
  EXPECT_EQ(Upsert(request).status().code(), absl::StatusCode::kFailedPrecondition);
  SetEncoder();
  const absl::Status refused = Upsert(request).status();
  EXPECT_EQ(refused, InvalidField("documents.text", "too long"));
  EXPECT_TRUE(live_->written.empty());
}

TEST_F(DocumentServiceTest, DeletesAreWrittenWithTheirVersion) {
  v1::DeleteRequest request;
  request.set_collection("live");
  EXPECT_EQ(Delete(request).status(), InvalidField("ids", "none of string_ids, int_ids and a filter is set"));
  request.mutable_string_ids()->add_ids("doc-1");
  request.mutable_string_ids()->add_ids("nobody");
  request.set_version(3);
  const auto response = Delete(request);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(live_->written.size(), 2u);
  EXPECT_EQ(live_->written[0].kind, collection::LogRecord::Kind::kDelete);
  EXPECT_EQ(live_->written[1].string_id, "nobody");
  EXPECT_EQ(live_->written[1].version, 3u);
  EXPECT_EQ(response->results_size(), 2);
  EXPECT_EQ(response->sequence(), 9u);
}

TEST_F(DocumentServiceTest, ADocumentHasNoVersionOfAWriteThatNobodySeesYet) {
  live_->versions["doc-3"] = 11;  // version of a write that is in the log but not yet served
  v1::GetRequest request;
  request.set_collection("live");
  request.mutable_string_ids()->add_ids("doc-3");
  live_->written_behind = {"another"};
  EXPECT_TRUE(service_.GetNow(request, {.method = "Get"}).ok());
  EXPECT_EQ(live_->num_reads_behind, 1);
  live_->written_behind = {"doc-3"};
  live_->max_reads_behind = 4;
  EXPECT_TRUE(service_.GetNow(request, {.method = "Get"}).ok());
  EXPECT_EQ(live_->num_reads_behind, 5) << "it is read again until the write is served";
  live_->max_reads_behind = 1'000'000;
  const auto never = service_.GetNow(request, {.method = "Get"});
  EXPECT_TRUE(absl::IsUnavailable(never.status()));
  EXPECT_TRUE(client::RetryAfter(never.status()).has_value());
}

TEST_F(DocumentServiceTest, DocumentsAreReadAsTheyAreStored) {
  live_->versions["doc-3"] = 11;
  v1::GetRequest request;
  request.set_collection("live");
  for (const char* id : {"doc-3", "nobody", "doc-0"}) request.mutable_string_ids()->add_ids(id);
  request.set_return_tokens(true);
  const auto response = service_.GetNow(request, {.method = "Get"});
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->documents_size(), 2);
  EXPECT_THAT(response->missing_string_ids().ids(), ElementsAre("nobody"));
  EXPECT_EQ(response->generation(), 1u);
  EXPECT_EQ(response->sequence(), 7u);
  const v1::StoredDocument& third = response->documents(0);
  EXPECT_EQ(third.string_id(), "doc-3");
  EXPECT_EQ(third.version(), 11u);
  EXPECT_EQ(third.sequence(), 0u);
  EXPECT_EQ(third.payload(), R"({"n":3})");
  EXPECT_EQ(third.num_tokens(), static_cast<uint32_t>(documents_.length(3)));
  EXPECT_EQ(third.tokens().dtype(), v1::DATA_TYPE_F16);
  const std::string stored(static_cast<const char*>(documents_.tokens.row(documents_.offsets[3])),
                           static_cast<size_t>(documents_.length(3)) * kDocumentDim * 2);
  EXPECT_EQ(third.tokens().data(), stored);
  request.set_collection("fixed");
  request.set_return_tokens(false);
  const auto fixed = service_.GetNow(request, {.method = "Get"});
  ASSERT_TRUE(fixed.ok()) << fixed.status();
  EXPECT_FALSE(fixed->documents(0).has_tokens());
  EXPECT_EQ(fixed->documents(0).version(), 0u);
  EXPECT_EQ(fixed->sequence(), 0u);
}

TEST_F(DocumentServiceTest, AReadWaitsForNoSequenceAndKeepsTheAnswersBound) {
  v1::GetRequest request;
  request.set_collection("live");
  request.mutable_string_ids()->add_ids("doc-3");
  request.set_min_sequence(7);
  EXPECT_TRUE(service_.GetNow(request, {.method = "Get"}).ok());
  request.set_min_sequence(8);
  const absl::Status behind = service_.GetNow(request, {.method = "Get"}).status();
  EXPECT_EQ(behind.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(behind.message(), "min_sequence: is 8, but collection live has only reached 7");
  EXPECT_TRUE(client::RetryAfter(behind).has_value());
  request.set_collection("fixed");
  EXPECT_EQ(service_.GetNow(request, {.method = "Get"}).status().code(), absl::StatusCode::kInvalidArgument);
  DocumentService narrow(&store_, &texts_, &metrics_, {.max_answer_bytes = 100});
  narrow.SetState(ServingState::kServing);
  request.clear_min_sequence();
  EXPECT_TRUE(narrow.GetNow(request, {.method = "Get"}).ok());
  request.mutable_string_ids()->add_ids("doc-4");
  EXPECT_THAT(std::string(narrow.GetNow(request, {.method = "Get"}).status().message()),
              HasSubstr("(limits.max_answer_bytes)"));
}

TEST_F(DocumentServiceTest, ARepeatedCallMayFollowOneThatWasNotSubmitted) {
  live_->on_submit = [](std::vector<store::Write>, store::LiveDocuments::Done done) {
    done(absl::ResourceExhaustedError("too many bytes wait"));
  };
  int order = 0;
  int done_at = 0;
  int submitted_at = 0;
  service_.Upsert(
      Valid(), {.method = "Upsert"}, [&](const absl::StatusOr<v1::UpsertResponse>&) { done_at = ++order; },
      [&] { submitted_at = ++order; });
  EXPECT_EQ(done_at, 1);
  EXPECT_NE(submitted_at, 1);
}

}  // namespace
}  // namespace maxsim::service
