// Tests calls with an in_slots filter. They see only the documents of these slots, and are refused if the server does
// not hold all of the slots.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/error_details.h"
#include "client/slot_message.h"
#include "collection/partition/repartition.h"
#include "collection/slot_layout.h"
#include "collection/slots.h"
#include "server/service/documents.h"
#include "server/service/explain.h"
#include "server/service/layout/count_owned.h"
#include "server/service/request/info.h"
#include "server/service/request/translate.h"
#include "server/service/selection/filter_message.h"
#include "server/service/selection/selected_documents.h"
#include "server/store/collection/slot_masks.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"
#include "tests/support/requests.h"

namespace maxsim::service {
namespace {

using collection::Filter;
using collection::SlotRange;
using testing::ElementsAre;
using testing::UnorderedElementsAreArray;

// A server with the first half of a collection's slots. The parameter says whether the collection declares fields.
class SlotsHeldTest : public testing::TestWithParam<bool> {
 protected:
  static constexpr int32_t kDim = 16;
  static constexpr SlotRange kHeld = {0, collection::kNumSlots / 2};
  static constexpr SlotRange kSome = {100, 1500};

  SlotsHeldTest() {
    constexpr int kNumDocuments = 60;
    test::CorpusOptions options;
    if (GetParam()) options.fields = *collection::ParseFields("owner:keyword");
    for (int i = 0; i < kNumDocuments; ++i) {
      options.payload_texts.emplace_back(i % 2 == 0 ? R"({"owner":"acme"})" : R"({"owner":"other"})");
      const std::string id = test::CorpusId(options, i);
      const int32_t slot = collection::SlotOf(id);
      if (!kHeld.contains(slot)) continue;
      held_.push_back(id);
      (kSome.contains(slot) ? some_ : rest_).push_back(id);
    }
    test::BuildCorpus(folder_ / "whole", test::SmallDocuments(1, kNumDocuments, ScalarType::kF16, kDim), options);
    const auto halves = collection::SplitCollection(folder_ / "whole", 2, {.output = folder_ / "halves"});
    EXPECT_TRUE(halves.ok()) << halves.status();
    path_ = collection::PartitionFolderName(folder_ / "halves", SlotRange(), 0, 2);
    store_.SetOpenLive(
        [this](const store::LiveRequest&) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> { return live_; });
    const auto loaded = store_.Load("docs", path_, store::Residency::kAuto, store::Replication::kAuto, "", nullptr,
                                    /*live=*/true);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->manifest().slots(), kHeld);
    service_.SetState(ServingState::kServing);
  }

  template <typename Response, typename Request>
  absl::StatusOr<Response> Ask(void (DocumentService::*method)(const Request&, CallContext, Done<Response>),
                               const Request& request) {
    std::optional<absl::StatusOr<Response>> answer;
    (service_.*method)(request, {.method = "Test"},
                       [&](absl::StatusOr<Response> response) { answer = std::move(response); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  template <typename Request>
  static Request RequestOf(const Filter& visible) {
    Request request;
    request.set_collection("docs");
    *request.mutable_visible() = FilterMessageOf(visible);
    return request;
  }

  absl::StatusOr<Translated> Rerank(const v1::RerankRequest& request) {
    return Translate(request, *store_.Find("docs"), {});
  }
  v1::RerankRequest RerankOf(const Filter& visible, const std::vector<std::string>& ids) {
    v1::RerankRequest request = test::MakeRequest("docs", test::MakeQuery(2, ScalarType::kF16, kDim, 4), ids, 1);
    if (ids.empty()) request.mutable_candidates()->mutable_whole_collection();
    *request.mutable_visible() = FilterMessageOf(visible);
    return request;
  }

  v1::UpsertRequest UpsertOf(const Filter& visible, const std::string& id) {
    auto request = RequestOf<v1::UpsertRequest>(visible);
    v1::Document& document = *request.add_documents();
    document.set_string_id(id);
    document.set_payload(R"({"owner":"acme"})");
    *document.mutable_tokens() = test::ToProto(test::RandomTokens(5, ScalarType::kF32, kDim, 3));
    return request;
  }
  absl::Status Upsert(const v1::UpsertRequest& request) {
    std::optional<absl::Status> answer;
    service_.Upsert(request, {.method = "Upsert"},
                    [&](const absl::StatusOr<v1::UpsertResponse>& response) { answer = response.status(); });
    return answer.value_or(absl::InternalError("no answer"));
  }

  std::vector<std::string> TakeWrittenIds() {
    std::vector<std::string> ids;
    for (const store::Write& write : live_->written) ids.push_back(write.string_id);
    live_->written.clear();
    return ids;
  }

  test::TemporaryFolder folder_;
  std::string path_;  // the collection's folder
  test::FakeBackend backend_;
  const std::shared_ptr<test::FakeLiveDocuments> live_ = std::make_shared<test::FakeLiveDocuments>();
  store::CollectionStore store_{&backend_, {}};
  TextEncoding texts_;
  Metrics metrics_;
  DocumentService service_{&store_, &texts_, &metrics_, {}};
  std::vector<std::string> held_;  // ids of the documents in kHeld
  std::vector<std::string> some_;  // of those in kSome
  std::vector<std::string> rest_;  // of the others in kHeld
};

TEST_P(SlotsHeldTest, CallsSeeTheDocumentsOfTheSlots) {
  const Filter visible = Filter::InSlots(kSome);
  ASSERT_FALSE(some_.empty() || rest_.empty());
  EXPECT_EQ(Ask(&DocumentService::Count, RequestOf<v1::CountRequest>(visible))->count(), some_.size());

  auto scroll = RequestOf<v1::ScrollRequest>(visible);
  const auto page = Ask(&DocumentService::Scroll, scroll);
  ASSERT_TRUE(page.ok()) << page.status();
  std::vector<std::string> ids;
  for (const v1::StoredDocument& document : page->documents()) ids.push_back(document.string_id());
  EXPECT_THAT(ids, UnorderedElementsAreArray(some_));

  auto get = RequestOf<v1::GetRequest>(visible);
  for (const std::string& id : held_) get.mutable_string_ids()->add_ids(id);
  const auto read = Ask(&DocumentService::Get, get);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(static_cast<size_t>(read->documents_size()), some_.size());
  EXPECT_THAT(read->missing_string_ids().ids(), UnorderedElementsAreArray(rest_));

  const auto whole = Rerank(RerankOf(visible, {}));
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->answer.queries[0].candidates->num_documents, some_.size());
  const auto listed = Rerank(RerankOf(visible, held_));
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_THAT(listed->answer.queries[0].candidates->missing_string_ids, UnorderedElementsAreArray(rest_));

  if (!GetParam()) return;
  auto facets = RequestOf<v1::FacetsRequest>(visible);
  facets.set_field("owner");
  EXPECT_EQ(Ask(&DocumentService::Facets, facets)->num_documents(), some_.size());
}

TEST_P(SlotsHeldTest, WritesStayWithinTheSlots) {
  const Filter visible = Filter::InSlots(kSome);
  auto matching = RequestOf<v1::DeleteRequest>(visible);
  *matching.mutable_filter() = FilterMessageOf(Filter::Everything());
  // A client's own filter may not ask for more than is here.
  EXPECT_EQ(client::FieldOf(Ask(&DocumentService::Delete, matching).status()), "filter");
  *matching.mutable_filter() = FilterMessageOf(Filter::InSlots(kHeld));
  const auto deleted = Ask(&DocumentService::Delete, matching);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_THAT(TakeWrittenIds(), UnorderedElementsAreArray(some_));
  EXPECT_EQ(deleted->num_deleted(), some_.size());

  auto listed = RequestOf<v1::DeleteRequest>(visible);
  for (const std::string& id : held_) listed.mutable_string_ids()->add_ids(id);
  ASSERT_TRUE(Ask(&DocumentService::Delete, listed).ok());
  EXPECT_THAT(TakeWrittenIds(), UnorderedElementsAreArray(some_));

  EXPECT_TRUE(Upsert(UpsertOf(visible, some_.front())).ok());
  EXPECT_EQ(TakeWrittenIds().size(), 1u);
  EXPECT_TRUE(absl::IsInvalidArgument(Upsert(UpsertOf(visible, rest_.front()))));
  EXPECT_TRUE(TakeWrittenIds().empty());
}

// A router restricts a delete with a filter to slots. The server then claims and looks up no ids, as for a delete
// without the restriction, so a write of the same id is not refused.
TEST_P(SlotsHeldTest, ADeleteThatOnlySlotsRestrictClaimsNothing) {
  store::LiveDocuments::Done kept;
  live_->on_submit = [&](std::vector<store::Write>, store::LiveDocuments::Done done) { kept = std::move(done); };
  auto request = RequestOf<v1::DeleteRequest>(Filter::InSlots(kSome));
  *request.mutable_filter() = FilterMessageOf(Filter::InSlots(kHeld));
  service_.Delete(request, {.method = "Delete"}, [](const absl::StatusOr<v1::DeleteResponse>&) {});
  ASSERT_NE(kept, nullptr);
  live_->on_submit = nullptr;
  EXPECT_TRUE(Upsert(UpsertOf(Filter::Not(Filter::InSlots({0, 1})), some_.front())).ok());
  kept(store::WriteResults{.results = std::vector<store::WriteResult>(some_.size()), .sequence = 8});
}

TEST_P(SlotsHeldTest, AllSlotsThatAreHeldCostNothing) {
  const Filter visible = Filter::InSlots(kHeld);
  const auto whole = Rerank(RerankOf(visible, {}));
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->job->queries[0].candidates->kind, engine::CandidateSet::Kind::kWholeCollection);
  const auto collection = *store_.Find("docs");
  const auto selected = FindVisible(FilterMessageOf(visible), *collection, nullptr);
  ASSERT_TRUE(selected.ok()) << selected.status();
  EXPECT_EQ(*selected, nullptr);
  EXPECT_EQ(Ask(&DocumentService::Count, RequestOf<v1::CountRequest>(visible))->count(), held_.size());
  EXPECT_TRUE(Upsert(UpsertOf(visible, held_.front())).ok());
  auto listed = RequestOf<v1::DeleteRequest>(visible);
  listed.mutable_string_ids()->add_ids(held_.front());
  EXPECT_TRUE(Ask(&DocumentService::Delete, listed).ok());
  EXPECT_EQ(collection->part(0).slot_masks->memory_bytes(), 0u) << "no id was hashed";
}

TEST_P(SlotsHeldTest, TheDocumentsOfOwnersWithinTheHeldSlotsAreCounted) {
  const auto counts = [&](const std::vector<int32_t>& ends) {
    const auto collection = *store_.Find("docs");
    v1::CollectionInfo info;
    info.set_num_documents(collection->num_documents());
    int32_t first = 0;
    for (const int32_t end : ends) {
      *info.mutable_live()->mutable_layout()->add_owners()->mutable_slots() = client::SlotMessageOf({first, end});
      first = end;
    }
    int checks_left = kMaxCountChecks;
    CountOwned(*collection, info, checks_left);
    std::vector<int64_t> numbers;
    for (const v1::SlotOwner& owner : info.live().layout().owners()) {
      const bool is_set = owner.counted_case() == v1::SlotOwner::kNumDocuments;
      numbers.push_back(is_set ? static_cast<int64_t>(owner.num_documents()) : -1);
    }
    return numbers;
  };
  const auto before = [&](int32_t end) {
    return std::count_if(held_.begin(), held_.end(),
                         [&](const std::string& id) { return collection::SlotOf(std::string_view(id)) < end; });
  };
  auto num_held = static_cast<int64_t>(held_.size());
  EXPECT_THAT(counts({kHeld.end, 4096}), ElementsAre(num_held, -1));
  EXPECT_THAT(counts({700, kHeld.end, 4096}), ElementsAre(before(700), num_held - before(700), -1));
  EXPECT_THAT(counts({700, kHeld.end + 1, 4096}), ElementsAre(before(700), -1, -1));
  EXPECT_THAT(counts({700, 800, kHeld.end, 4096}), ElementsAre(-1, -1, -1, -1)) << "more ranges than masks";
  const auto gone = std::find_if(held_.begin(), held_.end(),
                                 [](const std::string& id) { return collection::SlotOf(std::string_view(id)) < 700; });
  ASSERT_NE(gone, held_.end());
  live_->DeleteNow(*gone);
  held_.erase(gone);
  --num_held;
  EXPECT_THAT(counts({kHeld.end, 4096}), ElementsAre(num_held, -1));
  EXPECT_THAT(counts({700, kHeld.end, 4096}), ElementsAre(before(700), num_held - before(700), -1));
}

// Each of these collections needs one check for each of its two owners.
TEST_P(SlotsHeldTest, GetInfoHashesALimitedNumberOfIdsForAllCollectionsTogether) {
  constexpr int kNumCollections = kMaxCountChecks / 2 + 2;
  ASSERT_EQ((*store_.Find("docs"))->num_parts(), 1u);
  live_->live_state.layout = std::make_shared<const collection::SlotLayout>(collection::SlotLayout{
      .revision = 1, .owners = {{"g0", 0, 700}, {"g1", 700, uint32_t{kHeld.end}}, {"g2", uint32_t{kHeld.end}, 4096}}});
  for (int number = 1; number < kNumCollections; ++number) {
    const auto loaded = store_.Load("docs" + std::to_string(number), path_, store::Residency::kAuto,
                                    store::Replication::kAuto, "", nullptr, /*live=*/true);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
  }
  const store::DeviceSet devices(&backend_);
  const auto num_counted = [&] {
    int count = 0;
    const v1::GetInfoResponse response = BuildInfo(devices, store_, {}, 0, nullptr);
    for (const v1::CollectionInfo& info : response.collections()) {
      for (const v1::SlotOwner& owner : info.live().layout().owners()) {
        count += owner.counted_case() == v1::SlotOwner::kNumDocuments ? 1 : 0;
      }
    }
    return count;
  };
  EXPECT_EQ(num_counted(), kMaxCountChecks);
  EXPECT_EQ(num_counted(), 2 * kNumCollections) << "the next call goes on where this one stopped";
}

TEST_P(SlotsHeldTest, EachCallIsRefusedIfSlotsAreNotHeld) {
  const std::vector<std::pair<const char*, std::function<absl::Status(const Filter&)>>> calls = {
      {"a scan", [&](const Filter& visible) { return Rerank(RerankOf(visible, {})).status(); }},
      {"a list", [&](const Filter& visible) { return Rerank(RerankOf(visible, held_)).status(); }},
      {"Explain",
       [&](const Filter& visible) {
         ConcurrencyLimit limit = ExplanationLimit();
         return ComputeExplanation(RerankOf(visible, {held_.front()}), *store_.Find("docs"), {}, absl::InfiniteFuture(),
                                   &limit)
             .status();
       }},
      {"Count",
       [&](const Filter& visible) {
         return Ask(&DocumentService::Count, RequestOf<v1::CountRequest>(visible)).status();
       }},
      {"Facets",
       [&](const Filter& visible) {
         auto request = RequestOf<v1::FacetsRequest>(visible);
         request.set_field("owner");
         return Ask(&DocumentService::Facets, request).status();
       }},
      {"Scroll",
       [&](const Filter& visible) {
         return Ask(&DocumentService::Scroll, RequestOf<v1::ScrollRequest>(visible)).status();
       }},
      {"Get",
       [&](const Filter& visible) {
         auto request = RequestOf<v1::GetRequest>(visible);
         request.mutable_string_ids()->add_ids(held_.front());
         return Ask(&DocumentService::Get, request).status();
       }},
      {"Delete",
       [&](const Filter& visible) {
         auto request = RequestOf<v1::DeleteRequest>(visible);
         request.mutable_string_ids()->add_ids(held_.front());
         return Ask(&DocumentService::Delete, request).status();
       }},
      {"Delete with a filter",
       [&](const Filter& visible) {
         auto request = RequestOf<v1::DeleteRequest>(visible);
         *request.mutable_filter() = FilterMessageOf(Filter::InSlots(kHeld));
         return Ask(&DocumentService::Delete, request).status();
       }},
      {"Upsert", [&](const Filter& visible) { return Upsert(UpsertOf(visible, held_.front())); }}};
  const std::vector<Filter> refused = {
      Filter::InSlots({0, kHeld.end + 1}), Filter::Everything(),
      Filter::Or({Filter::InSlots(kHeld), Filter::Not(Filter::And({Filter::InSlots({kHeld.end, kHeld.end + 1})}))})};
  for (const auto& [name, call] : calls) {
    const bool needs_fields = std::string(name) == "Facets";
    if (needs_fields && !GetParam()) continue;
    EXPECT_FALSE(absl::IsFailedPrecondition(call(Filter::InSlots(kHeld)))) << name;
    live_->written.clear();
    for (const Filter& visible : refused) {
      const absl::Status status = call(visible);
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << name << ": " << status;
      EXPECT_EQ(client::ReasonOf(status), client::kReasonOtherSlots) << name;
      EXPECT_EQ(client::FieldOf(status), "visible") << name;
      EXPECT_TRUE(live_->written.empty()) << name;
    }
  }
  EXPECT_EQ(std::string(calls.front().second(refused.front()).message()),
            "visible: asks for slots 0 .. 2048, but this server holds only slots 0 .. 2047 of collection \"docs\"");
  v1::RerankRequest request = RerankOf(Filter::InSlots(kHeld), {});
  *request.mutable_filter() = FilterMessageOf(Filter::Everything());
  EXPECT_EQ(client::ReasonOf(Rerank(request).status()), client::kReasonOtherSlots);
  EXPECT_EQ(client::FieldOf(Rerank(request).status()), "filter");
}

INSTANTIATE_TEST_SUITE_P(All, SlotsHeldTest, testing::Bool(),
                         [](const auto& one) { return std::string(one.param ? "fields" : "no_fields"); });

}  // namespace
}  // namespace maxsim::service
