// Tests how the store switches a live collection to the one in another folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class ReplaceTest : public testing::Test {
 protected:
  ReplaceTest() {
    Make("one", 10);
    Make("two", 20);
    store_.SetOpenLive([this](const LiveRequest& request) -> absl::StatusOr<std::shared_ptr<LiveDocuments>> {
      auto live = std::make_shared<test::FakeLiveDocuments>();
      live_[request.path] = live;
      requests_[request.path] = request;
      return live;
    });
  }

  void Make(const std::string& name, int64_t count) {
    test::BuildCorpus(folder_ / name, test::SmallDocuments(1, count));
  }
  LoadSpec Spec(const std::string& name) const { return {.name = "a", .path = folder_ / name, .live = true}; }
  uint64_t NumDocuments() {
    const auto found = store_.Find("a");
    return found.ok() ? (*found)->num_documents() : 0;
  }
  std::shared_ptr<test::FakeLiveDocuments> Live(const std::string& name) { return live_[folder_ / name].lock(); }

  const test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  std::map<std::string, std::weak_ptr<test::FakeLiveDocuments>> live_;
  std::map<std::string, LiveRequest> requests_;
  CollectionStore store_{&backend_, {}};
};

absl::Status Prepared(LiveDocuments&) { return absl::OkStatus(); }

TEST_F(ReplaceTest, TheEarlierCollectionIsServedUntilTheNewOneIsPrepared) {
  ASSERT_TRUE(store_.Load(Spec("one"), nullptr).ok());
  const auto replaced = store_.Replace(
      Spec("two"),
      [&](LiveDocuments& loaded) {
        EXPECT_EQ(&loaded, Live("two").get());
        EXPECT_EQ(NumDocuments(), 10u);
        EXPECT_EQ(store_.FindLive("a")->get(), Live("one").get());
        EXPECT_EQ(store_.List().size(), 1u);
        return absl::OkStatus();
      },
      nullptr);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ((*replaced)->num_documents(), 20u);
  EXPECT_EQ(NumDocuments(), 20u);
  EXPECT_EQ(store_.FindLive("a")->get(), Live("two").get());
  EXPECT_EQ(store_.List()[0].path, folder_ / "two");
  EXPECT_EQ(Live("one"), nullptr) << "the earlier one is closed";
  EXPECT_TRUE(store_.Unload("a").ok());
  EXPECT_EQ(Live("two"), nullptr);
}

TEST_F(ReplaceTest, ACollectionWithoutAnEarlierOneIsServed) {
  ASSERT_TRUE(store_.Replace(Spec("two"), Prepared, nullptr).ok());
  EXPECT_EQ(NumDocuments(), 20u);
}

TEST_F(ReplaceTest, OneThatFailedToLoadIsReplaced) {
  test::WriteFile(folder_ / "one/collection.json", "damaged");
  ASSERT_FALSE(store_.Load(Spec("one"), nullptr).ok());
  ASSERT_TRUE(store_.Replace(Spec("two"), Prepared, nullptr).ok());
  EXPECT_EQ(NumDocuments(), 20u);
  EXPECT_THAT(store_.List()[0].error, IsEmpty());
}

TEST_F(ReplaceTest, AnErrorChangesNothing) {
  ASSERT_TRUE(store_.Load(Spec("one"), nullptr).ok());
  const auto not_caught_up = [](LiveDocuments&) { return absl::DeadlineExceededError("late"); };
  EXPECT_EQ(store_.Replace(Spec("two"), not_caught_up, nullptr).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Live("two"), nullptr);
  EXPECT_EQ(NumDocuments(), 10u);

  test::WriteFile(folder_ / "two/collection.json", "damaged");
  EXPECT_FALSE(store_.Replace(Spec("two"), Prepared, nullptr).ok());
  EXPECT_EQ(NumDocuments(), 10u);
  EXPECT_EQ(store_.List().size(), 1u);
  EXPECT_EQ(store_.List()[0].state, CollectionStatus::State::kReady);
}

TEST_F(ReplaceTest, ACollectionWithoutALogReplacesNone) {
  const absl::Status status = store_.Replace({.name = "a", .path = folder_ / "two"}, Prepared, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not a live collection"));
  EXPECT_THAT(store_.List(), IsEmpty());
}

TEST_F(ReplaceTest, TheSwapWaitsForWritesThatTheEarlierOneHasAnswered) {
  ASSERT_TRUE(store_.Load(Spec("one"), nullptr).ok());
  Live("one")->live_state.sequence = 41;
  const auto replaced = store_.Replace(
      Spec("two"),
      [&](LiveDocuments&) {
        Live("two")->live_state.sequence = 40;
        // The new one applies the last write when the earlier one takes no more.
        Live("one")->on_stop = [this] {
          EXPECT_EQ(store_.FindLive("a")->get(), Live("one").get());
          Live("two")->live_state.sequence = 41;
        };
        return absl::OkStatus();
      },
      nullptr);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ(store_.FindLive("a")->get(), Live("two").get());
}

TEST_F(ReplaceTest, TheNewCollectionReloadsItselfBeforeAndAfterTheSwap) {
  ASSERT_TRUE(store_.Load(Spec("one"), nullptr).ok());
  const auto publish = [&](int64_t count) { test::BuildCorpus(folder_ / "two", test::SmallDocuments(2, count)); };
  const auto replaced = store_.Replace(
      Spec("two"),
      [&](LiveDocuments&) {
        publish(30);
        EXPECT_TRUE(requests_[folder_ / "two"].reload(nullptr).ok());
        EXPECT_EQ(NumDocuments(), 10u) << "the earlier one is not reloaded";
        return absl::OkStatus();
      },
      nullptr);
  ASSERT_TRUE(replaced.ok()) << replaced.status();
  EXPECT_EQ(NumDocuments(), 30u);
  publish(40);
  EXPECT_TRUE(requests_[folder_ / "two"].reload(nullptr).ok());
  EXPECT_EQ(NumDocuments(), 40u);
  EXPECT_EQ(requests_[folder_ / "one"].reload(nullptr).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(NumDocuments(), 40u);
}

TEST_F(ReplaceTest, OtherSlotsAreLoadedIfTheSpecAllowsThem) {
  CollectionStore store(&backend_, {.partition = collection::SlotRange{.first = 0, .end = 100}});
  store.SetOpenLive([](const LiveRequest&) -> absl::StatusOr<std::shared_ptr<LiveDocuments>> {
    return std::make_shared<test::FakeLiveDocuments>();
  });
  LoadSpec spec = Spec("one");
  EXPECT_THAT(std::string(store.Load(spec, nullptr).status().message()), HasSubstr("cluster.partition"));
  spec.any_slots = true;
  EXPECT_TRUE(store.Load(spec, nullptr).ok());
  test::BuildCorpus(folder_ / "one", test::SmallDocuments(2, 30));
  bool changed = false;
  EXPECT_TRUE(store.Reload("a", &changed).ok()) << "a reload allows them, too";
  EXPECT_TRUE(changed);
}

TEST_F(ReplaceTest, AnAwaitedCollectionIsShownUntilItIsThere) {
  store_.Await("a", "asks others");
  store_.Await("a", "fetches it");
  ASSERT_EQ(store_.List().size(), 1u);
  EXPECT_TRUE(store_.List()[0].is_awaited);
  EXPECT_EQ(store_.List()[0].state, CollectionStatus::State::kLoading);
  EXPECT_EQ(store_.List()[0].error, "fetches it");
  for (const absl::Status& status :
       {store_.Find("a").status(), store_.FindLive("a").status(), store_.Reload("a", nullptr).status()}) {
    EXPECT_EQ(status, absl::UnavailableError("collection \"a\" is not on this server yet: fetches it"));
  }
  ASSERT_TRUE(store_.Replace(Spec("two"), Prepared, nullptr).ok());
  EXPECT_EQ(NumDocuments(), 20u);
  store_.Await("a", "fetches it");
  store_.StopAwaiting("a");
  EXPECT_FALSE(store_.List()[0].is_awaited);
  EXPECT_THAT(store_.List()[0].error, IsEmpty());
  EXPECT_EQ(NumDocuments(), 20u);
}

TEST_F(ReplaceTest, AnAwaitedCollectionCanBeLoadedAndUnloaded) {
  store_.Await("a", "fetches it");
  ASSERT_TRUE(store_.Load(Spec("one"), nullptr).ok());
  EXPECT_EQ(NumDocuments(), 10u);
  ASSERT_TRUE(store_.Unload("a").ok());
  store_.Await("a", "fetches it");
  EXPECT_TRUE(store_.Unload("a").ok());
  EXPECT_THAT(store_.List(), IsEmpty());
  store_.Await("a", "fetches it");
  store_.StopAwaiting("a");
  store_.StopAwaiting("a");
  EXPECT_THAT(store_.List(), IsEmpty());
}

}  // namespace
}  // namespace maxsim::store
