// Tests that calls that read documents treat those that `visible` does not match as missing.
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
#include "server/service/explain.h"
#include "server/service/selection/filter_message.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"
#include "tests/support/requests.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;

class VisibleDocumentsTest : public testing::Test {
 protected:
  VisibleDocumentsTest() {
    const test::RandomDocuments documents = test::SmallDocuments(1, 12, ScalarType::kF16, 16);
    test::CorpusOptions options;
    options.fields = *collection::ParseFields("owner:keyword,lang:keyword");
    for (int i = 0; i < 12; ++i) {
      options.payload_texts.push_back(std::string("{\"owner\":\"") + (i % 3 == 0 ? "acme" : "other") +
                                      "\",\"lang\":\"" + (i % 2 == 0 ? "de" : "en") + "\"}");
    }
    test::BuildCorpus(folder_ / "docs", documents, options);
    const auto loaded = store_.Load("docs", folder_ / "docs", store::Residency::kAuto);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    service_.SetState(ServingState::kServing);
  }

  // The documents 0, 3, 6 and 9.
  static v1::Filter Acme() { return FilterMessageOf(*collection::ParseFilter("owner = \"acme\"")); }

  template <typename Response, typename Request>
  absl::StatusOr<Response> Ask(void (DocumentService::*method)(const Request&, CallContext, Done<Response>),
                               const Request& request) {
    std::optional<absl::StatusOr<Response>> answer;
    (service_.*method)(request, {.method = "Test"},
                       [&](absl::StatusOr<Response> response) { answer = std::move(response); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  store::CollectionStore store_{&backend_, {}};
  TextEncoding texts_;
  Metrics metrics_;
  DocumentService service_{&store_, &texts_, &metrics_, {}};
};

TEST_F(VisibleDocumentsTest, GetReportsOtherDocumentsAsMissing) {
  v1::GetRequest request;
  request.set_collection("docs");
  for (const char* id : {"doc-3", "doc-4", "no-such", "doc-9"}) request.mutable_string_ids()->add_ids(id);
  *request.mutable_visible() = Acme();
  const auto answer = Ask(&DocumentService::Get, request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->documents_size(), 2);
  EXPECT_EQ(answer->documents(0).string_id(), "doc-3");
  EXPECT_EQ(answer->documents(1).string_id(), "doc-9");
  EXPECT_THAT(answer->missing_string_ids().ids(), ElementsAre("doc-4", "no-such"));
}

TEST_F(VisibleDocumentsTest, CountsAndFacetsAreThoseOfVisibleDocuments) {
  v1::CountRequest count;
  count.set_collection("docs");
  EXPECT_EQ(Ask(&DocumentService::Count, count)->count(), 12u);
  *count.mutable_visible() = Acme();
  EXPECT_EQ(Ask(&DocumentService::Count, count)->count(), 4u);
  count.set_filter_text("lang = \"de\"");
  EXPECT_EQ(Ask(&DocumentService::Count, count)->count(), 2u);
  count.set_filter_text("owner = \"other\"");
  EXPECT_EQ(Ask(&DocumentService::Count, count)->count(), 0u);

  v1::FacetsRequest facets;
  facets.set_collection("docs");
  facets.set_field("owner");
  *facets.mutable_visible() = Acme();
  const auto answer = Ask(&DocumentService::Facets, facets);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->values_size(), 1);
  EXPECT_EQ(answer->values(0).value(), "acme");
  EXPECT_EQ(answer->values(0).count(), 4u);
  EXPECT_EQ(answer->num_values(), 1u);
  EXPECT_EQ(answer->num_documents(), 4u);
}

TEST_F(VisibleDocumentsTest, TheBytesOfTokensAreThoseOfVisibleDocuments) {
  v1::CountRequest count;
  count.set_collection("docs");
  EXPECT_EQ(Ask(&DocumentService::Count, count)->token_bytes(), 0u);
  count.set_return_token_bytes(true);
  const auto collection = store_.Find("docs");
  ASSERT_TRUE(collection.ok()) << collection.status();
  EXPECT_EQ(Ask(&DocumentService::Count, count)->token_bytes(), (*collection)->num_tokens() * 16 * 2);
  *count.mutable_visible() = Acme();
  uint64_t num_tokens = 0;
  for (const uint64_t ordinal : {0, 3, 6, 9}) {
    num_tokens += static_cast<uint64_t>((*collection)->num_document_tokens(ordinal));
  }
  EXPECT_EQ(Ask(&DocumentService::Count, count)->token_bytes(), num_tokens * 16 * 2);
}

TEST_F(VisibleDocumentsTest, ScrollListsVisibleDocumentsAlone) {
  v1::ScrollRequest request;
  request.set_collection("docs");
  request.set_limit(2);
  *request.mutable_visible() = Acme();
  std::vector<std::string> ids;
  for (int page = 0; page < 2; ++page) {
    const auto answer = Ask(&DocumentService::Scroll, request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    for (const v1::StoredDocument& document : answer->documents()) ids.push_back(document.string_id());
    EXPECT_EQ(answer->has_more(), page == 0);
    request.set_after_string_id(ids.back());
  }
  EXPECT_THAT(ids, ElementsAre("doc-0", "doc-3", "doc-6", "doc-9"));
}

TEST_F(VisibleDocumentsTest, ExplainGivesTheSameErrorForOtherDocumentsAndUnknownOnes) {
  ConcurrencyLimit limit = ExplanationLimit();
  const auto explain = [&](const std::string& id) {
    v1::RerankRequest request =
        test::MakeRequest("docs", test::MakeQuery(2, ScalarType::kF16, 16, 4), {id}, /*top_k=*/1);
    *request.mutable_visible() = Acme();
    return ComputeExplanation(request, *store_.Find("docs"), {}, absl::InfiniteFuture(), &limit);
  };
  EXPECT_FALSE(absl::IsNotFound(explain("doc-3").status())) << explain("doc-3").status();
  const absl::Status other = explain("doc-4").status();
  EXPECT_TRUE(absl::IsNotFound(other)) << other;
  EXPECT_EQ(other, explain("no-such").status());
}

TEST_F(VisibleDocumentsTest, ErrorsAreAboutTheField) {
  v1::CountRequest count;
  count.set_collection("docs");
  *count.mutable_visible() = FilterMessageOf(collection::Filter::Exists("no_such_field"));
  const absl::Status status = Ask(&DocumentService::Count, count).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(client::FieldOf(status), "visible");
  v1::GetRequest get;
  get.set_collection("docs");
  get.mutable_string_ids()->add_ids("doc-3");
  *get.mutable_visible() = count.visible();
  EXPECT_EQ(client::FieldOf(Ask(&DocumentService::Get, get).status()), "visible");
}

}  // namespace
}  // namespace maxsim::service
