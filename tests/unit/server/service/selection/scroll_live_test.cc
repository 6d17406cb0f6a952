// Tests that the pages of a live collection are those of a sorted map, although documents are written, deleted and
// compacted and the server restarts between pages. A document that stays must be returned exactly once. A delete with a
// filter must delete the documents that Scroll lists for the filter.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collection/filters/filter_text.h"
#include "server/service/documents.h"
#include "server/service/selection/filter_message.h"
#include "tests/support/collection/filter_meaning.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::service {
namespace {

using collection::Filter;
using collection::RandomFilters;

struct ModelDocument {
  std::shared_ptr<const collection::FilterMeaning> meaning;
  std::string payload;
  int64_t value = 0;
  uint64_t version = 0;
};

// The parameter says whether the collection has codes. With codes, filters are evaluated to bit masks only.
class ScrollLiveTest : public live::LiveTest, public testing::WithParamInterface<bool> {
 protected:
  ScrollLiveTest() : seed_(test::TestSeed()), trace_(__FILE__, __LINE__, test::SeedTrace(seed_)), random_(seed_) {
    if (GetParam()) codes_ = collection::CodesFormat{.planes = 4, .factors = true, .rotation_seed = 7};
    fields_ = RandomFilters::fields();
    Create();
    Open();
    service_ = std::make_unique<DocumentService>(store_.get(), &texts_, &metrics_, RequestLimits());
    service_->SetState(ServingState::kServing);
  }

  // Ids share prefixes, have bytes above 127 and different lengths, so that only an order by bytes is right.
  std::string RandomId() {
    static const std::vector<std::string> beginnings = {"", "a", "a/", "d", "\xc3\xa9", "z", "\xf0\x9f\x98\x80"};
    return beginnings[random_.Below(beginnings.size())] + std::to_string(random_.Below(40));
  }

  void WriteSome() {
    std::vector<store::Write> writes;
    for (uint64_t count = 1 + random_.Below(20); count > 0; --count) {
      const std::string id = RandomId();
      if (random_.Below(4) == 0) {
        writes.push_back(live::Delete(id));
        model_.erase(id);
        continue;
      }
      const auto value = static_cast<int64_t>(random_.Below(10'000));
      const uint64_t version = random_.Below(3) == 0 ? ++last_version_ : 0;
      store::Write& write = writes.emplace_back(live::Upsert(id, value, version));
      write.payload = random_.Payload();
      model_[id] = {std::make_shared<const collection::FilterMeaning>(write.payload), write.payload, value, version};
    }
    MustWrite(std::move(writes));
  }

  void ChangeSomething() {
    if (random_.Below(2) == 0) WriteSome();
    if (random_.Below(12) == 0) MustCompact();
    if (random_.Below(30) == 0) {
      service_.reset();
      Reopen();
      service_ = std::make_unique<DocumentService>(store_.get(), &texts_, &metrics_, RequestLimits());
      service_->SetState(ServingState::kServing);
    }
  }

  absl::StatusOr<v1::ScrollResponse> Scroll(const v1::ScrollRequest& request) {
    std::optional<absl::StatusOr<v1::ScrollResponse>> answer;
    service_->Scroll(request, {.method = "Scroll"},
                     [&](absl::StatusOr<v1::ScrollResponse> response) { answer = std::move(response); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  absl::StatusOr<v1::DeleteResponse> Delete(const v1::DeleteRequest& request) {
    std::promise<absl::StatusOr<v1::DeleteResponse>> answer;
    service_->Delete(request, {.method = "Delete"},
                     [&](absl::StatusOr<v1::DeleteResponse> response) { answer.set_value(std::move(response)); });
    return answer.get_future().get();
  }

  // Compares a page with the page that the model has at this moment.
  void ExpectPage(const v1::ScrollRequest& request, const std::optional<Filter>& filter,
                  const v1::ScrollResponse& page) {
    auto next = request.has_after_string_id() ? model_.upper_bound(request.after_string_id()) : model_.begin();
    const auto skip = [&] {
      while (next != model_.end() && filter.has_value() && !next->second.meaning->Matches(*filter)) ++next;
    };
    skip();
    int idx = 0;
    for (; idx < static_cast<int>(request.limit()) && next != model_.end(); ++idx, ++next, skip()) {
      ASSERT_LT(idx, page.documents_size());
      const v1::StoredDocument& document = page.documents(idx);
      EXPECT_EQ(document.string_id(), next->first);
      EXPECT_EQ(document.payload(), request.return_payloads() ? next->second.payload : "");
      EXPECT_EQ(document.num_tokens(), static_cast<uint32_t>(live::NumTokens(next->second.value)));
      EXPECT_EQ(document.version(), next->second.version);
      EXPECT_EQ(document.has_tokens(), request.return_tokens());
    }
    EXPECT_EQ(page.documents_size(), idx);
    EXPECT_EQ(page.has_more(), next != model_.end());
    EXPECT_EQ(page.sequence(), Find()->sequence());
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  RandomFilters random_;
  std::map<std::string, ModelDocument> model_;
  uint64_t last_version_ = 0;
  TextEncoding texts_;
  Metrics metrics_;
  std::unique_ptr<DocumentService> service_;
};

TEST_P(ScrollLiveTest, PagesAreThoseOfASortedMap) {
  int num_pages = 0;
  for (int round = 0; round < (test::kSanitized ? 20 : 60); ++round) {
    SCOPED_TRACE(round);
    std::optional<Filter> filter;
    if (random_.Below(3) != 0) filter = random_.Tree(1 + static_cast<int>(random_.Below(3)));
    v1::ScrollRequest request;
    request.set_collection("c");
    request.set_limit(static_cast<uint32_t>(1 + random_.Below(random_.Below(2) == 0 ? 10 : 120)));
    request.set_return_payloads(random_.Below(2) == 0);
    request.set_return_tokens(random_.Below(4) == 0);
    if (filter.has_value() && random_.Below(2) == 0) {
      request.set_filter_text(collection::FormatFilter(*filter));
    } else if (filter.has_value()) {
      *request.mutable_filter() = FilterMessageOf(*filter);
    }
    // Counts how often each document is returned. Documents that are deleted or stop matching are removed from the map.
    std::map<std::string, int> stayed;
    for (const auto& [id, document] : model_) {
      if (!filter.has_value() || document.meaning->Matches(*filter)) stayed[id] = 0;
    }
    for (bool has_more = true; has_more; ++num_pages) {
      ChangeSomething();
      std::erase_if(stayed, [&](const auto& one) {
        const auto found = model_.find(one.first);
        return found == model_.end() || (filter.has_value() && !found->second.meaning->Matches(*filter));
      });
      const absl::StatusOr<v1::ScrollResponse> page = Scroll(request);
      ASSERT_TRUE(page.ok()) << page.status();
      ASSERT_NO_FATAL_FAILURE(ExpectPage(request, filter, *page));
      for (const v1::StoredDocument& document : page->documents()) {
        if (const auto found = stayed.find(document.string_id()); found != stayed.end()) ++found->second;
      }
      has_more = page->has_more();
      if (has_more) request.set_after_string_id(page->documents(page->documents_size() - 1).string_id());
    }
    for (const auto& [id, count] : stayed) EXPECT_EQ(count, 1) << id;
  }
  EXPECT_GT(num_pages, 100);
}

TEST_P(ScrollLiveTest, DocumentsThatStayComeOnceWhileOthersAreWritten) {
  constexpr int kStaying = 300;
  std::vector<store::Write> writes;
  for (int i = 0; i < kStaying; ++i) writes.push_back(live::Upsert("s" + std::to_string(i), i));
  MustWrite(std::move(writes));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int64_t round = 0; !stop; ++round) {
      std::vector<store::Write> some;
      for (int i = 0; i < 50; ++i) some.push_back(live::Upsert("s" + std::to_string(i) + "x", round));
      MustWrite(std::move(some));
      std::vector<store::Write> deletes;
      for (int i = 0; i < 50; i += 2) deletes.push_back(live::Delete("s" + std::to_string(i) + "x"));
      MustWrite(std::move(deletes));
      if (round % 8 == 7) MustCompact();
    }
  });
  for (int round = 0; round < (test::kSanitized ? 5 : 20); ++round) {
    v1::ScrollRequest request;
    request.set_collection("c");
    request.set_limit(7);
    std::map<std::string, int> seen;
    for (bool has_more = true; has_more;) {
      const absl::StatusOr<v1::ScrollResponse> page = Scroll(request);
      if (absl::IsUnavailable(page.status())) continue;  // one document was replaced again and again while it was read
      ASSERT_TRUE(page.ok()) << page.status();
      for (const v1::StoredDocument& document : page->documents()) ++seen[document.string_id()];
      has_more = page->has_more();
      if (has_more) request.set_after_string_id(page->documents(page->documents_size() - 1).string_id());
    }
    for (int i = 0; i < kStaying; ++i) EXPECT_EQ(seen["s" + std::to_string(i)], 1) << i;
    for (const auto& [id, count] : seen) EXPECT_EQ(count, 1) << id;
  }
  stop = true;
  writer.join();
}

TEST_P(ScrollLiveTest, ADeleteWithAFilterDeletesWhatAPageLists) {
  int num_deleting = 0;
  int num_keeping = 0;
  for (int round = 0; round < (test::kSanitized ? 20 : 80); ++round) {
    SCOPED_TRACE(round);
    ChangeSomething();
    WriteSome();
    const Filter filter = random_.Tree(1 + static_cast<int>(random_.Below(3)));
    SCOPED_TRACE(collection::FormatFilter(filter));
    v1::DeleteRequest request;
    request.set_collection("c");
    if (random_.Below(2) == 0) {
      request.set_filter_text(collection::FormatFilter(filter));
    } else {
      *request.mutable_filter() = FilterMessageOf(filter);
    }
    // Later upserts have higher versions, so the versions of these deletes make none of them stale.
    if (last_version_ > 0 && random_.Below(2) == 0) request.set_version(1 + random_.Below(last_version_));
    const uint64_t before = Find()->sequence();
    request.set_min_sequence(before);

    v1::ScrollRequest listing;
    listing.set_collection("c");
    listing.set_limit(1000);
    listing.set_filter_text(collection::FormatFilter(filter));
    const absl::StatusOr<v1::ScrollResponse> listed = Scroll(listing);
    ASSERT_TRUE(listed.ok()) << listed.status();
    ASSERT_FALSE(listed->has_more());
    uint64_t num_deleted = 0;
    for (const v1::StoredDocument& document : listed->documents()) {
      if (request.version() != 0 && document.version() >= request.version()) {
        ++num_keeping;
        continue;
      }
      ++num_deleted;
      ASSERT_EQ(model_.erase(document.string_id()), 1u);
    }
    for (const bool again : {false, true}) {
      const absl::StatusOr<v1::DeleteResponse> answer = Delete(request);
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer->num_deleted(), again ? 0 : num_deleted);
      EXPECT_EQ(answer->num_missing(), 0u);
      EXPECT_EQ(answer->num_stale(), 0u);
      EXPECT_EQ(answer->results_size(), 0);
      EXPECT_FALSE(answer->has_more());
      EXPECT_EQ(answer->sequence(), before + num_deleted);
    }
    num_deleting += num_deleted > 0 ? 1 : 0;
    v1::ScrollRequest all;
    all.set_collection("c");
    all.set_limit(1000);
    const absl::StatusOr<v1::ScrollResponse> left = Scroll(all);
    ASSERT_TRUE(left.ok()) << left.status();
    ASSERT_NO_FATAL_FAILURE(ExpectPage(all, std::nullopt, *left));
  }
  EXPECT_GT(num_deleting, 10);
  EXPECT_GT(num_keeping, 0);
}

TEST_P(ScrollLiveTest, TwoDeletesAtOnceDeleteEachDocumentOnce) {
  for (int round = 0; round < (test::kSanitized ? 3 : 10); ++round) {
    std::vector<store::Write> writes;
    for (int i = 0; i < 200; ++i) {
      writes.push_back(live::Upsert("s" + std::to_string(i), i));
      writes.back().payload = i % 2 == 0 ? R"({"year":1999})" : R"({"year":2020})";
    }
    MustWrite(std::move(writes));
    v1::DeleteRequest request;
    request.set_collection("c");
    request.set_filter_text("year = 1999");
    std::vector<std::future<absl::StatusOr<v1::DeleteResponse>>> answers;
    for (int i = 0; i < kMaxMatchingDeletes; ++i) {
      answers.push_back(std::async(std::launch::async, [&] { return Delete(request); }));
    }
    uint64_t num_deleted = 0;
    for (std::future<absl::StatusOr<v1::DeleteResponse>>& one : answers) {
      const absl::StatusOr<v1::DeleteResponse> answer = one.get();
      ASSERT_TRUE(answer.ok()) << answer.status();
      num_deleted += answer->num_deleted();
      // A call counts a document as missing if it found the document before the other call deleted it.
      const uint64_t num_found = answer->num_deleted() + answer->num_missing();
      EXPECT_TRUE(num_found == 0 || num_found == 100) << num_found;
      EXPECT_EQ(answer->num_stale(), 0u);
    }
    EXPECT_EQ(num_deleted, 100u);
    EXPECT_EQ(Find()->num_documents(), 100u);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScrollLiveTest, testing::Values(false, true));

}  // namespace
}  // namespace maxsim::service
