// Tests which calls that count documents are refused, and how many such calls may run at a time.
// filtered_rerank_test.cc and filtered_live_test.cc test the counts themselves.
#include "server/service/documents/document_counts.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/status.h"
#include "server/service/call/status.h"
#include "server/service/documents.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;

class DocumentCountsTest : public testing::Test {
 protected:
  DocumentCountsTest() {
    const test::RandomDocuments documents = test::SmallDocuments(1, 12, ScalarType::kF16, 16);
    test::CorpusOptions options;
    test::BuildCorpus(folder_ / "bare", documents, options);
    options.fields = *collection::ParseFields("lang:keyword,year:integer");
    for (int i = 0; i < 12; ++i) {
      options.payload_texts.push_back("{\"lang\":\"" +
                                      std::string(i % 3 == 0   ? "de"
                                                  : i % 3 == 1 ? "en"
                                                               : "fr") +
                                      "\",\"year\":" + std::to_string(2000 + i) + "}");
    }
    test::BuildCorpus(folder_ / "docs", documents, options);
    for (const char* const name : {"bare", "docs"}) {
      const auto loaded = store_.Load(name, folder_ / name, store::Residency::kAuto);
      EXPECT_TRUE(loaded.ok()) << loaded.status();
    }
    service_.SetState(ServingState::kServing);
    request_.set_collection("docs");
    request_.set_field("lang");
  }

  absl::StatusOr<v1::CountResponse> Count(const v1::CountRequest& request, CallContext context = {.method = "Count"}) {
    std::optional<absl::StatusOr<v1::CountResponse>> answer;
    service_.Count(request, std::move(context),
                   [&](absl::StatusOr<v1::CountResponse> response) { answer = std::move(response); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  absl::StatusOr<v1::FacetsResponse> Facets(CallContext context = {.method = "Facets"}) {
    std::optional<absl::StatusOr<v1::FacetsResponse>> answer;
    service_.Facets(request_, std::move(context),
                    [&](absl::StatusOr<v1::FacetsResponse> response) { answer = std::move(response); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  // Expects that Facets returns INVALID_ARGUMENT with this message, about this field of the request.
  void ExpectRefused(const std::string& field, const std::string& message) {
    const absl::Status status = Facets().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(client::FieldOf(status), field);
    EXPECT_EQ(status.message(), message);
  }

  test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  store::CollectionStore store_{&backend_, {}};
  TextEncoding texts_;
  Metrics metrics_;
  DocumentService service_{&store_, &texts_, &metrics_, {}};
  v1::FacetsRequest request_;
};

TEST_F(DocumentCountsTest, ValuesAreOrderedByCountAndThenByValue) {
  request_.set_filter_text("year != 2000");
  const auto answer = Facets();
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->values_size(), 3);
  EXPECT_EQ(answer->values(0).value(), "en");
  EXPECT_EQ(answer->values(0).count(), 4u);
  EXPECT_EQ(answer->values(1).value(), "fr");
  EXPECT_EQ(answer->values(2).value(), "de");
  EXPECT_EQ(answer->values(2).count(), 3u);
  EXPECT_EQ(answer->num_values(), 3u);
  EXPECT_EQ(answer->num_documents(), 11u);
  EXPECT_EQ(answer->generation(), 1u);
  EXPECT_EQ(answer->sequence(), 0u);
}

TEST_F(DocumentCountsTest, AllDocumentsCountWithoutAFilterAndWithoutFields) {
  v1::CountRequest request;
  request.set_collection("bare");
  const auto answer = Count(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->count(), 12u);
  EXPECT_EQ(answer->generation(), 1u);
}

TEST_F(DocumentCountsTest, WrongFieldsAreNamed) {
  request_.set_field("colour");
  ExpectRefused("field",
                "field: is \"colour\", which collection \"docs\" does not declare; its fields of kind keyword "
                "and keywords are: lang");
  request_.set_field("year");
  ExpectRefused("field",
                "field: is \"year\", which is of kind integer; only the values of keyword and keywords are "
                "counted");
  request_.set_collection("bare");
  ExpectRefused("field", "field: is \"year\", but collection \"bare\" has no fields");
  request_.set_collection("nowhere");
  EXPECT_TRUE(absl::IsNotFound(Facets().status())) << Facets().status();
  request_.set_collection("");
  ExpectRefused("collection", "collection: has 0 bytes; must have 1 to 128");
}

TEST_F(DocumentCountsTest, LimitsHaveAnEnd) {
  request_.set_limit(kMaxFacetValues);
  EXPECT_TRUE(Facets().ok());
  request_.set_limit(kMaxFacetValues + 1);
  ExpectRefused("limit", "limit: is 65537; must be at most 65536");
  EXPECT_EQ(client::LimitOf(Facets().status()), kMaxFacetValues);
  request_.set_limit(2);
  const auto two = Facets();
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->values_size(), 2);
  EXPECT_EQ(two->num_values(), 3u);
  DocumentService narrow(&store_, &texts_, &metrics_, {.max_answer_bytes = 10});
  narrow.SetState(ServingState::kServing);
  narrow.Facets(request_, {.method = "Facets"}, [](const absl::StatusOr<v1::FacetsResponse>& answer) {
    EXPECT_EQ(client::LimitKeyOf(answer.status()), "limits.max_answer_bytes") << answer.status();
  });
}

TEST_F(DocumentCountsTest, WrongFiltersAndSnapshotsAreNamed) {
  v1::CountRequest request;
  request.set_collection("docs");
  request.set_filter_text("colour = 1");
  EXPECT_EQ(client::FieldOf(Count(request).status()), "filter_text");
  request.set_filter_text("lang = ");
  EXPECT_EQ(client::FieldOf(Count(request).status()), "filter_text");
  request.mutable_filter()->mutable_all_of();
  EXPECT_EQ(client::FieldOf(Count(request).status()), "filter");
  request.clear_matching();
  request.set_generation(1);
  EXPECT_TRUE(Count(request).ok());
  request.set_generation(2);
  EXPECT_TRUE(absl::IsFailedPrecondition(Count(request).status())) << Count(request).status();
  request.clear_generation();
  request.set_min_sequence(1);
  EXPECT_EQ(client::FieldOf(Count(request).status()), "min_sequence");
}

TEST_F(DocumentCountsTest, ACallThatNobodyAwaitsEnds) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(Facets({.method = "Facets", .deadline = absl::InfinitePast()}).status()));
  v1::CountRequest request;
  request.set_collection("docs");
  request.set_filter_text("exists(lang)");
  const auto cancelled = std::make_shared<std::atomic<bool>>(true);
  EXPECT_TRUE(absl::IsCancelled(Count(request, {.method = "Count", .cancelled = cancelled}).status()));
  service_.SetState(ServingState::kDraining);
  EXPECT_TRUE(absl::IsUnavailable(Count(request).status()));
  EXPECT_TRUE(absl::IsUnavailable(Facets().status()));
}

TEST_F(DocumentCountsTest, FewCallsThatLookAtAllDocumentsRunAtATime) {
  ConcurrencyLimit calls = PassLimit(1);
  auto first = calls.Take();
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status full = calls.Take().status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_TRUE(client::RetryAfter(full).has_value());
  first->reset();
  EXPECT_TRUE(calls.Take().ok());
}

}  // namespace
}  // namespace maxsim::service
