// Tests what Documents.Scroll returns and refuses. scroll_live_test.cc and filtered_rerank_test.cc test that its pages
// have exactly the matching documents.
#include "server/service/documents/document_scroll.h"

#include <atomic>
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
#include "server/service/documents/document_reader.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;

constexpr int32_t kScrolledDim = 16;

class DocumentScrollTest : public testing::Test {
 protected:
  DocumentScrollTest() {
    const test::RandomDocuments documents = test::SmallDocuments(1, 12, ScalarType::kF16, kScrolledDim);
    test::CorpusOptions options;
    options.fields = *collection::ParseFields("year:integer");
    for (int i = 0; i < 12; ++i) options.payload_texts.push_back("{\"year\":" + std::to_string(2000 + i) + "}");
    test::BuildCorpus(folder_ / "docs", documents, options);
    options.id_type = collection::IdType::kInt64;
    test::BuildCorpus(folder_ / "ints", documents, options);
    for (const char* const name : {"docs", "ints"}) {
      const auto loaded = store_.Load(name, folder_ / name, store::Residency::kAuto);
      EXPECT_TRUE(loaded.ok()) << loaded.status();
    }
    service_.SetState(ServingState::kServing);
    request_.set_collection("docs");
  }

  absl::StatusOr<v1::ScrollResponse> ScrollOf(DocumentService& service, CallContext context = {.method = "Scroll"}) {
    std::optional<absl::StatusOr<v1::ScrollResponse>> answer;
    service.Scroll(request_, std::move(context),
                   [&](absl::StatusOr<v1::ScrollResponse> response) { answer = std::move(response); });
    return answer.value_or(absl::InternalError("no answer"));
  }
  absl::StatusOr<v1::ScrollResponse> Scroll() { return ScrollOf(service_); }

  // Expects that Scroll returns INVALID_ARGUMENT with this message, about this field of the request.
  void ExpectRefused(const std::string& field, const std::string& message) {
    const absl::Status status = Scroll().status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_EQ(client::FieldOf(status), field);
    EXPECT_EQ(status.message(), message);
  }

  static std::vector<std::string> StringIds(const v1::ScrollResponse& page) {
    std::vector<std::string> ids;
    for (const v1::StoredDocument& document : page.documents()) ids.push_back(document.string_id());
    return ids;
  }

  test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  store::CollectionStore store_{&backend_, {}};
  TextEncoding texts_;
  Metrics metrics_;
  DocumentService service_{&store_, &texts_, &metrics_, {}};
  v1::ScrollRequest request_;
};

TEST_F(DocumentScrollTest, StringsComeInTheOrderOfTheirBytes) {
  request_.set_limit(4);
  auto page = Scroll();
  ASSERT_TRUE(page.ok()) << page.status();
  const std::string first = page->documents(0).string_id();
  const std::string prefix = first.substr(0, first.size() - 1);  // of CorpusId
  EXPECT_THAT(StringIds(*page), ElementsAre(prefix + "0", prefix + "1", prefix + "10", prefix + "11"));
  EXPECT_TRUE(page->has_more());
  EXPECT_EQ(page->generation(), 1u);
  EXPECT_EQ(page->documents(0).payload(), "");
  EXPECT_FALSE(page->documents(0).has_tokens());
  EXPECT_GE(page->documents(0).num_tokens(), 1u);
  // A page may begin after an id that no document has.
  request_.set_after_string_id(prefix + "110");
  request_.set_limit(8);
  page = Scroll();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(StringIds(*page), ElementsAre(prefix + "2", prefix + "3", prefix + "4", prefix + "5", prefix + "6",
                                            prefix + "7", prefix + "8", prefix + "9"));
  EXPECT_FALSE(page->has_more());
  request_.set_after_string_id(prefix + "9");
  page = Scroll();
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->documents_size(), 0);
  EXPECT_FALSE(page->has_more());
}

TEST_F(DocumentScrollTest, IntegersComeInTheirOrderAndFiltersChoose) {
  request_.set_collection("ints");
  request_.set_filter_text("year >= 2004 and year != 2006");
  request_.set_after_int_id(test::CorpusIntId(4));
  request_.set_limit(2);
  request_.set_return_payloads(true);
  request_.set_return_tokens(true);
  const auto page = Scroll();
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->documents_size(), 2);
  EXPECT_EQ(page->documents(0).int_id(), test::CorpusIntId(5));
  EXPECT_EQ(page->documents(1).int_id(), test::CorpusIntId(7));
  EXPECT_EQ(page->documents(1).payload(), R"({"year":2007})");
  EXPECT_EQ(page->documents(1).tokens().dim(), static_cast<uint32_t>(kScrolledDim));
  EXPECT_TRUE(page->has_more());
}

TEST_F(DocumentScrollTest, WrongIdsAreNamed) {
  request_.set_after_int_id(3);
  ExpectRefused("after_int_id", "after_int_id: the ids of collection docs are of type string");
  request_.set_after_string_id("");
  ExpectRefused("after_string_id", "after_string_id: has 0 bytes; must have 1 to 512");
  request_.set_after_string_id(std::string(513, 'a'));
  ExpectRefused("after_string_id", "after_string_id: has 513 bytes; must have 1 to 512");
  request_.set_after_string_id("\xff");
  ExpectRefused("after_string_id", "after_string_id: is not UTF-8");
  request_.set_collection("ints");
  request_.set_after_string_id("a");
  ExpectRefused("after_string_id", "after_string_id: the ids of collection ints are of type int64");
}

TEST_F(DocumentScrollTest, WrongLimitsFiltersAndSnapshotsAreNamed) {
  request_.set_limit(kMaxScrollDocuments);
  EXPECT_TRUE(Scroll().ok());
  request_.set_limit(kMaxScrollDocuments + 1);
  ExpectRefused("limit", "limit: is 1001; must be at most 1000");
  EXPECT_EQ(client::LimitOf(Scroll().status()), kMaxScrollDocuments);
  request_.clear_limit();
  request_.set_filter_text("colour = 1");
  EXPECT_EQ(client::FieldOf(Scroll().status()), "filter_text");
  request_.mutable_filter()->mutable_all_of();
  EXPECT_EQ(client::FieldOf(Scroll().status()), "filter");
  request_.clear_matching();
  request_.set_generation(2);
  EXPECT_TRUE(absl::IsFailedPrecondition(Scroll().status())) << Scroll().status();
  request_.set_generation(1);
  request_.set_min_sequence(1);
  EXPECT_EQ(client::FieldOf(Scroll().status()), "min_sequence");
  request_.set_collection("nowhere");
  EXPECT_TRUE(absl::IsNotFound(Scroll().status())) << Scroll().status();
  request_.set_collection("");
  ExpectRefused("collection", "collection: has 0 bytes; must have 1 to 128");
}

TEST_F(DocumentScrollTest, APageEndsBeforeItIsTooLarge) {
  DocumentService narrow(&store_, &texts_, &metrics_, {.max_answer_bytes = 250});
  narrow.SetState(ServingState::kServing);
  std::vector<std::string> seen;
  for (bool has_more = true; has_more;) {
    const auto page = ScrollOf(narrow);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->ByteSizeLong(), 250u);
    ASSERT_GE(page->documents_size(), 1);
    EXPECT_LE(page->documents_size(), 3);
    for (const std::string& id : StringIds(*page)) seen.push_back(id);
    has_more = page->has_more();
    request_.set_after_string_id(seen.back());
  }
  EXPECT_EQ(seen.size(), 12u);
  request_.clear_after();
  request_.set_return_tokens(true);
  DocumentService narrower(&store_, &texts_, &metrics_, {.max_answer_bytes = 100});
  narrower.SetState(ServingState::kServing);
  const absl::Status status = ScrollOf(narrower).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(client::FieldOf(status), "return_tokens");
  EXPECT_EQ(client::LimitKeyOf(status), "limits.max_answer_bytes");
}

TEST_F(DocumentScrollTest, ACallThatNobodyAwaitsEnds) {
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(ScrollOf(service_, {.method = "Scroll", .deadline = absl::InfinitePast()}).status()));
  const auto cancelled = std::make_shared<std::atomic<bool>>(true);
  EXPECT_TRUE(absl::IsCancelled(ScrollOf(service_, {.method = "Scroll", .cancelled = cancelled}).status()));
  service_.SetState(ServingState::kDraining);
  EXPECT_TRUE(absl::IsUnavailable(Scroll().status()));
}

TEST_F(DocumentScrollTest, FewCallsReadTokensAtATime) {
  const auto collection = store_.Find("docs");
  ASSERT_TRUE(collection.ok()) << collection.status();
  ConcurrencyLimit readers(1, "calls with return_tokens", absl::Seconds(1));
  const auto first = readers.Take();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(ScrollDocuments(request_, **collection, nullptr, {}, &readers, nullptr).ok());
  request_.set_return_tokens(true);
  const absl::Status full = ScrollDocuments(request_, **collection, nullptr, {}, &readers, nullptr).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_TRUE(client::RetryAfter(full).has_value());
}

}  // namespace
}  // namespace maxsim::service
