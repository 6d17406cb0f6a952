// Tests how the store opens, serves, reloads and closes live collections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/store/collection/changes.h"
#include "server/store/collection_store.h"
#include "server/store/memory/memory_ledger.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;

// A fake live collection that serves generations without changes, and records the calls that it gets.
class FakeLive final : public LiveDocuments {
 public:
  explicit FakeLive(std::vector<std::string>* events) : events_(*events) {}
  ~FakeLive() override { events_.emplace_back("closed"); }

  void Submit(std::vector<Write> writes, const WriteCaller&, Done done) override {
    done(absl::UnimplementedError("no writes"));
  }
  absl::Status Compact(const StopSignal* stop, bool* changed) override { return absl::UnimplementedError("compact"); }
  absl::StatusOr<uint64_t> SnapshotTo(const std::string& folder, const StopSignal* stop) override { return 0; }
  LiveState state() const override { return {}; }
  absl::StatusOr<uint64_t> VersionOf(std::string_view id) const override { return 0; }
  absl::StatusOr<uint64_t> VersionOf(int64_t id) const override { return 0; }
  absl::Status ReadBehind(uint64_t, const collection::CollectionLog::Visitor&) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> VersionOfWrite(uint64_t) const override { return 0; }
  absl::StatusOr<collection::Tombstones> TombstonesOf(const collection::Manifest& manifest) const override {
    if (!manifest_status.ok()) return manifest_status;
    return tombstones;
  }
  absl::Status Serve(std::shared_ptr<const Generation> generation, Publish publish, const StopSignal* stop) override {
    if (!serve_status.ok()) return serve_status;
    events_.push_back("serve " + std::to_string(generation->manifest().generation));
    changes_ = std::make_shared<Changes>(std::move(generation));
    publish_ = std::move(publish);
    publish_(changes_->Snapshot(sequence));
    return absl::OkStatus();
  }
  void Stop() override { events_.emplace_back("stop"); }

  // Publishes a later snapshot.
  void Advance() { publish_(changes_->Snapshot(++sequence)); }

  collection::Tombstones tombstones;
  absl::Status manifest_status;
  absl::Status serve_status;
  uint64_t sequence = 1;

 private:
  std::vector<std::string>& events_;
  std::shared_ptr<Changes> changes_;
  Publish publish_;
};

class LiveStoreTest : public testing::Test {
 protected:
  LiveStoreTest() {
    Publish(1, 100);
    store_.SetOpenLive([this](const LiveRequest& request) -> absl::StatusOr<std::shared_ptr<LiveDocuments>> {
      requests_.push_back(request);
      if (!open_status_.ok()) return open_status_;
      auto live = std::make_shared<FakeLive>(&events_);
      live->tombstones = tombstones_;
      live->serve_status = serve_status_;
      live_ = live.get();
      return live;
    });
  }

  collection::Manifest Publish(uint64_t seed, int64_t count) {
    return test::BuildCorpus(folder_.path(), test::SmallDocuments(seed, count), {.max_shard_bytes = 10'000});
  }
  absl::StatusOr<std::shared_ptr<const Collection>> Load(bool live) {
    return store_.Load("a", folder_.path(), Residency::kAuto, Replication::kAuto, "", nullptr, live);
  }

  const test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  std::vector<std::string> events_;
  std::vector<LiveRequest> requests_;
  absl::Status open_status_;
  absl::Status serve_status_;
  collection::Tombstones tombstones_;
  FakeLive* live_ = nullptr;
  CollectionStore store_{&backend_, {}};
};

TEST_F(LiveStoreTest, IsOpenedWhereItIsAskedForOrHasALog) {
  ASSERT_TRUE(Load(false).ok());
  EXPECT_TRUE(requests_.empty());
  EXPECT_EQ(store_.FindLive("a").status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(store_.Unload("a").ok());

  ASSERT_TRUE(Load(true).ok());
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_TRUE(requests_[0].create);
  EXPECT_EQ(requests_[0].name, "a");
  EXPECT_EQ(requests_[0].path, folder_.path());
  EXPECT_EQ(requests_[0].manifest.generation, 1);
  EXPECT_EQ((*store_.FindLive("a")).get(), live_);
  ASSERT_TRUE(store_.Unload("a").ok());

  std::filesystem::create_directory(folder_ / collection::kLogFolderName);
  test::WriteFile(folder_ / "log/CURRENT", "MANIFEST-000001\n");
  ASSERT_TRUE(Load(false).ok());
  ASSERT_EQ(requests_.size(), 2u);
  EXPECT_FALSE(requests_[1].create);
  EXPECT_EQ(events_, (std::vector<std::string>{"serve 1", "stop", "closed", "serve 1"}));
}

TEST_F(LiveStoreTest, FindGivesWhatWasPublishedLast) {
  const auto first = *Load(true);
  EXPECT_EQ(first->sequence(), 1u);
  live_->Advance();
  EXPECT_EQ((*store_.Find("a"))->sequence(), 2u);
  EXPECT_EQ(first->sequence(), 1u);
  EXPECT_EQ(store_.List()[0].live.get(), live_);
}

TEST_F(LiveStoreTest, AReloadCannotChooseAGeneration) {
  ASSERT_TRUE(Load(true).ok());
  bool changed = true;
  const absl::Status status = store_.Reload("a", &changed, nullptr, {.generation = 1, .revision = 7}).status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no generation 1 can be chosen: the collection is live"));
  EXPECT_TRUE(store_.Reload("a", &changed, nullptr, {.revision = 7}).ok());
  EXPECT_FALSE(changed);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "collection.served.json"));
}

TEST_F(LiveStoreTest, AReloadTakesOverTheShardsThatStayed) {
  const auto first = *Load(true);
  const int64_t loads = backend_.num_loads();
  // The next generation has the same shards.
  collection::Manifest manifest = first->manifest();
  manifest.generation = 2;
  manifest.created_at = "2026-01-01T00:00:00Z";
  ASSERT_TRUE(collection::PublishManifest(manifest, folder_.path()).ok());
  bool changed = false;
  const auto second = store_.Reload("a", &changed);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(changed);
  EXPECT_EQ((*second)->manifest().generation, 2);
  EXPECT_EQ(backend_.num_loads(), loads) << "no shard is loaded again";
  EXPECT_EQ((*second)->string_id(99), "doc-99");
  EXPECT_FALSE((*second)->SharesDocumentsWith(*first));

  manifest.generation = 3;
  const collection::ShardEntry last = manifest.shards.back();
  manifest.shards.pop_back();
  manifest.num_documents -= last.num_documents;
  manifest.num_tokens -= last.num_tokens;
  manifest.shards.erase(manifest.shards.begin());
  manifest.num_documents -= first->manifest().shards[0].num_documents;
  manifest.num_tokens -= first->manifest().shards[0].num_tokens;
  ASSERT_TRUE(collection::PublishManifest(manifest, folder_.path()).ok());
  const auto third = store_.Reload("a", &changed);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(backend_.num_loads(), loads);
  EXPECT_EQ((*third)->string_id(0), first->string_id(static_cast<uint64_t>(first->manifest().shards[0].num_documents)))
      << "ordinals are numbered anew";
  EXPECT_EQ(events_, (std::vector<std::string>{"serve 1", "serve 2", "serve 3"}));
}

TEST_F(LiveStoreTest, TombstonesOfTheGenerationAreLeftOut) {
  tombstones_ = collection::Tombstones(Publish(1, 100).shards.size());
  tombstones_[0] = {3};
  const auto loaded = *Load(true);
  EXPECT_EQ(loaded->num_documents(), 99u);
  EXPECT_EQ(loaded->Find("doc-3"), std::nullopt);
  EXPECT_NE(loaded->Find("doc-4"), std::nullopt);
}

TEST_F(LiveStoreTest, WhatCannotBeServedIsClosedAgain) {
  serve_status_ = absl::ResourceExhaustedError("no memory for segments");
  EXPECT_THAT(Load(true).status().message(), HasSubstr("no memory for segments"));
  EXPECT_EQ(events_, std::vector<std::string>{"closed"});
  EXPECT_EQ(store_.List()[0].state, CollectionStatus::State::kFailed);
  EXPECT_EQ(store_.FindLive("a").status().code(), absl::StatusCode::kUnavailable);
  serve_status_ = absl::OkStatus();
  EXPECT_TRUE(Load(true).ok());

  open_status_ = absl::FailedPreconditionError("the log is open in another process");
  EXPECT_THAT(
      store_.Load("b", folder_.path(), Residency::kAuto, Replication::kAuto, "", nullptr, true).status().message(),
      HasSubstr("another process"));
}

TEST_F(LiveStoreTest, AGenerationOfAnotherLogIsRefusedAndTheServedOneStays) {
  const auto first = *Load(true);
  live_->manifest_status = absl::FailedPreconditionError("generation 2 was built without the log");
  Publish(2, 50);
  bool changed = true;
  EXPECT_THAT(store_.Reload("a", &changed).status().message(), HasSubstr("without the log"));
  EXPECT_EQ(*store_.Find("a"), first);
  EXPECT_EQ((*store_.FindLive("a")).get(), live_);
}

TEST_F(LiveStoreTest, AManifestThatMissesItsLogIsRefused) {
  collection::Manifest manifest = *collection::ReadManifest(folder_.path());
  manifest.log_sequence = 7;
  manifest.generation = 2;
  ASSERT_TRUE(collection::PublishManifest(manifest, folder_.path()).ok());
  const absl::Status status = Load(false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("up to sequence 7"));
  EXPECT_THAT(status.message(), HasSubstr("load it with live: true, and a new log begins"));
}

}  // namespace
}  // namespace maxsim::store
