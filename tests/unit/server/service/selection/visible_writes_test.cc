// Tests that writes with `visible` change only documents that it matches. The live collection is a fake, whose
// documents change only if a test says so.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/error_details.h"
#include "collection/filters/filter_text.h"
#include "server/service/documents.h"
#include "server/service/selection/filter_message.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"
#include "tests/support/requests.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;

class VisibleWritesTest : public testing::Test {
 protected:
  // Documents 0 to 3 are acme's, 4 to 7 are not.
  VisibleWritesTest() {
    const test::RandomDocuments documents = test::SmallDocuments(1, 8, ScalarType::kF16, kDim);
    test::CorpusOptions options;
    options.fields = *collection::ParseFields("owner:keyword");
    for (int i = 0; i < 8; ++i) {
      options.payload_texts.emplace_back(i < 4 ? R"({"owner":"acme"})" : R"({"owner":"other"})");
    }
    test::BuildCorpus(folder_ / "docs", documents, options);
    store_.SetOpenLive(
        [this](const store::LiveRequest&) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> { return live_; });
    const auto loaded = store_.Load("docs", folder_ / "docs", store::Residency::kAuto, store::Replication::kAuto, "",
                                    nullptr, /*live=*/true);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    service_.SetState(ServingState::kServing);
  }

  static v1::Filter Acme() { return FilterMessageOf(*collection::ParseFilter("owner = \"acme\"")); }

  static v1::UpsertRequest UpsertOf(const std::vector<std::pair<std::string, std::string>>& documents) {
    v1::UpsertRequest request;
    request.set_collection("docs");
    *request.mutable_visible() = Acme();
    for (const auto& [id, payload] : documents) {
      v1::Document& document = *request.add_documents();
      document.set_string_id(id);
      document.set_payload(payload);
      *document.mutable_tokens() = test::ToProto(test::RandomTokens(5, ScalarType::kF32, kDim, 3));
    }
    return request;
  }

  absl::Status Upsert(v1::UpsertRequest request) {
    std::optional<absl::Status> answer;
    service_.Upsert(std::move(request), {.method = "Upsert"},
                    [&](const absl::StatusOr<v1::UpsertResponse>& response) { answer = response.status(); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  absl::StatusOr<v1::DeleteResponse> Delete(const std::vector<std::string>& ids, uint64_t version = 0) {
    v1::DeleteRequest request;
    request.set_collection("docs");
    request.set_version(version);
    *request.mutable_visible() = Acme();
    for (const std::string& id : ids) request.mutable_string_ids()->add_ids(id);
    return Delete(request);
  }

  // Deletes acme's documents that match a filter in text form.
  absl::StatusOr<v1::DeleteResponse> DeleteMatching(const std::string& filter, uint64_t version = 0) {
    v1::DeleteRequest request;
    request.set_collection("docs");
    request.set_version(version);
    request.set_filter_text(filter);
    *request.mutable_visible() = Acme();
    return Delete(request);
  }

  absl::StatusOr<v1::DeleteResponse> Delete(const v1::DeleteRequest& request) {
    std::optional<absl::StatusOr<v1::DeleteResponse>> answer;
    service_.Delete(request, {.method = "Delete"},
                    [&](absl::StatusOr<v1::DeleteResponse> response) { answer = std::move(response); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  std::vector<std::string> WrittenIds() const {
    std::vector<std::string> ids;
    for (const store::Write& write : live_->written) ids.push_back(write.string_id);
    return ids;
  }

  static constexpr int32_t kDim = 16;

  test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  store::CollectionStore store_{&backend_, {}};
  TextEncoding texts_;
  Metrics metrics_;
  std::shared_ptr<test::FakeLiveDocuments> live_ = std::make_shared<test::FakeLiveDocuments>();
  DocumentService service_{&store_, &texts_, &metrics_, RequestLimits()};
};

TEST_F(VisibleWritesTest, DocumentsThatMatchAreWritten) {
  const absl::Status status =
      Upsert(UpsertOf({{"new", R"( {"owner": "acme"} )"}, {"doc-2", R"({"owner":"acme","n":1})"}}));
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(live_->written.size(), 2u);
  EXPECT_EQ(live_->written[1].string_id, "doc-2");
}

TEST_F(VisibleWritesTest, NothingIsWrittenIfADocumentDoesNotMatch) {
  for (const char* payload : {R"({"owner":"other"})", R"({"owner":null})", "{}", ""}) {
    const absl::Status status = Upsert(UpsertOf({{"new", R"({"owner":"acme"})"}, {"newer", payload}}));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << payload << ": " << status;
    EXPECT_EQ(client::FieldOf(status), "documents[1].payload");
  }
  EXPECT_TRUE(live_->written.empty());
}

TEST_F(VisibleWritesTest, NothingIsWrittenIfADocumentOfSomebodyElseWouldBeReplaced) {
  const absl::Status status = Upsert(UpsertOf({{"new", R"({"owner":"acme"})"}, {"doc-4", R"({"owner":"acme"})"}}));
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_EQ(client::FieldOf(status), "documents[1]");
  EXPECT_TRUE(live_->written.empty());
}

TEST_F(VisibleWritesTest, AWriteOfSomebodyElseCannotComeBetweenTheCheckAndTheWrite) {
  store::LiveDocuments::Done kept;
  live_->on_submit = [&](std::vector<store::Write>, store::LiveDocuments::Done done) { kept = std::move(done); };
  v1::UpsertRequest first = UpsertOf({{"new", R"({"owner":"acme"})"}});
  service_.Upsert(first, {.method = "Upsert"}, [](const absl::StatusOr<v1::UpsertResponse>&) {});
  v1::UpsertRequest other = UpsertOf({{"new", R"({"owner":"other"})"}});
  *other.mutable_visible() = FilterMessageOf(*collection::ParseFilter("owner = \"other\""));
  live_->on_submit = nullptr;
  const absl::Status refused = Upsert(other);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(live_->written.empty());
  kept(store::WriteResults{.results = {{store::WriteResult::Outcome::kApplied, 8}}, .sequence = 8});
  kept = nullptr;
  EXPECT_TRUE(Upsert(other).ok());  // The fake collection does not hold the first document.
}

TEST_F(VisibleWritesTest, WithoutVisibleAllMayBeWritten) {
  v1::UpsertRequest request = UpsertOf({{"doc-4", ""}});
  request.clear_visible();
  EXPECT_TRUE(Upsert(std::move(request)).ok());
  EXPECT_EQ(live_->written.size(), 1u);
}

TEST_F(VisibleWritesTest, DocumentsOfSomebodyElseAreNotFoundByDeletesAndStay) {
  const auto answer = Delete({"doc-4", "doc-1", "no-such", "doc-3"}, /*version=*/5);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(live_->written.size(), 2u);
  EXPECT_EQ(live_->written[0].string_id, "doc-1");
  EXPECT_EQ(live_->written[1].string_id, "doc-3");
  EXPECT_EQ(live_->written[1].version, 5u);
  ASSERT_EQ(answer->results_size(), 4);
  EXPECT_EQ(answer->results(0).outcome(), v1::WRITE_OUTCOME_NOT_FOUND);
  EXPECT_EQ(answer->results(1).outcome(), v1::WRITE_OUTCOME_APPLIED);
  EXPECT_EQ(answer->results(3).outcome(), v1::WRITE_OUTCOME_APPLIED);
  // The results for a hidden document and for an unknown one are the same.
  EXPECT_EQ(answer->results(0).SerializeAsString(), answer->results(2).SerializeAsString());
}

TEST_F(VisibleWritesTest, ADeleteOfNothingVisibleIsAnsweredWithoutAWrite) {
  const auto answer = Delete({"doc-4"});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(live_->written.empty());
  ASSERT_EQ(answer->results_size(), 1);
  EXPECT_EQ(answer->results(0).outcome(), v1::WRITE_OUTCOME_NOT_FOUND);
  EXPECT_EQ(answer->results(0).sequence(), 0u);
  EXPECT_EQ(answer->sequence(), 7u);
}

TEST_F(VisibleWritesTest, ADeleteWithAFilterFindsVisibleDocumentsAlone) {
  const auto answer = DeleteMatching(R"(owner in ("acme", "other"))", /*version=*/5);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(WrittenIds(), ElementsAre("doc-0", "doc-1", "doc-2", "doc-3"));
  EXPECT_EQ(live_->written[0].version, 5u);
  EXPECT_EQ(answer->num_deleted(), 4u);
  EXPECT_EQ(answer->num_missing(), 0u);
  EXPECT_EQ(answer->num_stale(), 0u);
  EXPECT_FALSE(answer->has_more());
}

TEST_F(VisibleWritesTest, AFilterOfSomebodyElsesDocumentsAndOneOfNoneGiveTheSameBytes) {
  const auto foreign = DeleteMatching(R"(owner = "other")");
  const auto none = DeleteMatching(R"(owner = "nobody")");
  ASSERT_TRUE(foreign.ok() && none.ok()) << foreign.status() << none.status();
  EXPECT_TRUE(live_->written.empty());
  EXPECT_EQ(foreign->num_deleted(), 0u);
  EXPECT_EQ(foreign->SerializeAsString(), none->SerializeAsString());
}

TEST_F(VisibleWritesTest, VersionsOfSomebodyElsesDocumentsAreNotLookedUp) {
  live_->versions = {{"doc-1", 9}, {"doc-4", 9}, {"doc-5", 9}};
  int num_lookups = 0;
  live_->on_version = [&] { ++num_lookups; };
  const auto answer = DeleteMatching("exists(owner)", /*version=*/5);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(num_lookups, 4);
  EXPECT_THAT(WrittenIds(), ElementsAre("doc-0", "doc-2", "doc-3"));
  EXPECT_EQ(answer->num_stale(), 0u);
}

TEST_F(VisibleWritesTest, AnIdThatIsFreeBeforeItIsClaimedIsNotDeleted) {
  // Somebody else may have written it again.
  bool is_gone = false;
  live_->on_version = [&] {
    if (!std::exchange(is_gone, true)) live_->DeleteNow("doc-1");
  };
  const auto answer = DeleteMatching("exists(owner)", /*version=*/5);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(WrittenIds(), ElementsAre("doc-0", "doc-2", "doc-3"));
  EXPECT_EQ(answer->num_deleted(), 3u);
  EXPECT_EQ(answer->num_missing(), 1u) << "as if another call had deleted it";
}

TEST_F(VisibleWritesTest, ADeleteClaimsTheIdsThatItDeletesAndNoOthers) {
  store::LiveDocuments::Done kept;
  live_->on_submit = [&](std::vector<store::Write>, store::LiveDocuments::Done done) { kept = std::move(done); };
  service_.Upsert(UpsertOf({{"doc-1", R"({"owner":"acme"})"}}), {.method = "Upsert"},
                  [](const absl::StatusOr<v1::UpsertResponse>&) {});
  live_->on_submit = nullptr;
  v1::DeleteRequest request;
  request.set_collection("docs");
  request.mutable_string_ids()->add_ids("doc-1");
  // A client that may not see the document must not learn that the document is being written.
  *request.mutable_visible() = FilterMessageOf(*collection::ParseFilter("owner = \"other\""));
  const auto hidden = Delete(request);
  ASSERT_TRUE(hidden.ok()) << hidden.status();
  EXPECT_EQ(hidden->results(0).outcome(), v1::WRITE_OUTCOME_NOT_FOUND);
  // A client with another filter, who may see it, comes again.
  *request.mutable_visible() = FilterMessageOf(*collection::ParseFilter(R"(owner in ("acme", "third"))"));
  EXPECT_TRUE(absl::IsResourceExhausted(Delete(request).status()));
  request.clear_ids();
  request.set_filter_text("exists(owner)");
  const absl::Status refused = Delete(request).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(client::ReasonOf(refused), client::kReasonNothingWritten);
  EXPECT_TRUE(live_->written.empty());
  kept(store::WriteResults{.results = {{store::WriteResult::Outcome::kApplied, 8}}, .sequence = 8});
  kept = nullptr;
  EXPECT_TRUE(Delete(request).ok());
  EXPECT_THAT(WrittenIds(), ElementsAre("doc-0", "doc-1", "doc-2", "doc-3"));
}

}  // namespace
}  // namespace maxsim::service
