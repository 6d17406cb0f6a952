// Tests which generation a server loads when it starts and when it is told to reload.
#include "server/store/wanted_generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "base/folder.h"
#include "collection/generations/kept_generations.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;

// A folder in which a test publishes generations, and a server that it restarts.
class WantedGenerationTest : public testing::Test {
 protected:
  WantedGenerationTest() { Publish(); }

  // Generation n has 10 n documents.
  collection::Manifest Publish() {
    ++published_;
    return test::BuildCorpus(folder_.path(), test::SmallDocuments(static_cast<uint64_t>(published_), 10 * published_));
  }

  static uint64_t FileBytes(const collection::Manifest& manifest) {
    uint64_t bytes = 0;
    for (const collection::ShardEntry& entry : manifest.shards) bytes += static_cast<uint64_t>(entry.num_bytes);
    return bytes;
  }

  void Restart() {
    store_ = nullptr;
    store_ = std::make_unique<CollectionStore>(&backend_, options_);
    const auto loaded =
        store_->Load({.name = "a", .path = folder_.path(), .residency = residency_, .at_start = true}, nullptr);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
  }

  absl::Status Reload(const ReloadTarget& target) { return store_->Reload("a", &changed_, nullptr, target).status(); }

  CollectionStatus status() const { return store_->List().at(0); }
  int64_t served() const { return status().collection->manifest().generation; }
  bool HasNote() const { return std::filesystem::exists(folder_ / collection::kServedManifestName); }

  const test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  StoreOptions options_;
  Residency residency_ = Residency::kAuto;
  std::unique_ptr<CollectionStore> store_;
  int64_t published_ = 0;
  bool changed_ = false;
};

TEST_F(WantedGenerationTest, AServerOutsideAClusterLoadsWhatIsPublished) {
  Restart();
  Publish();
  EXPECT_EQ(served(), 1);
  ASSERT_TRUE(Reload({}).ok());
  EXPECT_EQ(served(), 2);
  Publish();
  Restart();
  EXPECT_EQ(served(), 3);
  EXPECT_EQ(status().reload_revision, 0u);
  EXPECT_FALSE(HasNote());
}

TEST_F(WantedGenerationTest, AServerThatWasToldServesThatGenerationAfterARestart) {
  Restart();
  ASSERT_TRUE(Reload({.generation = 1, .revision = 7}).ok());
  EXPECT_FALSE(changed_);
  EXPECT_EQ(status().reload_revision, 7u);
  Publish();
  Restart();
  EXPECT_EQ(served(), 1) << "generation 2 is published, but no reload named it";
  EXPECT_EQ(status().collection->num_documents(), 10u);
  EXPECT_EQ(status().reload_revision, 7u);
  ASSERT_TRUE(Reload({.generation = 2, .revision = 8}).ok());
  EXPECT_TRUE(changed_);
  Publish();
  Restart();
  EXPECT_EQ(served(), 2);
  EXPECT_EQ(status().reload_revision, 8u);
}

TEST_F(WantedGenerationTest, AReloadThatNamesNoneLoadsWhatIsPublishedAndIsNotedToo) {
  Restart();
  ASSERT_TRUE(Reload({.generation = 1, .revision = 7}).ok());
  Publish();
  ASSERT_TRUE(Reload({}).ok());
  EXPECT_EQ(served(), 2);
  const uint64_t own = status().reload_revision;
  EXPECT_GT(own, 7u);
  Publish();
  Restart();
  EXPECT_EQ(served(), 2);
  EXPECT_EQ(status().reload_revision, own);
  // The clock may be set back, or a router's may be ahead.
  ASSERT_TRUE(Reload({.generation = 2, .revision = own + 1'000'000'000'000}).ok());
  ASSERT_TRUE(Reload({}).ok());
  EXPECT_EQ(served(), 3);
  EXPECT_EQ(status().reload_revision, own + 1'000'000'000'001);
}

// For example SIGHUP, for new certificates. With a later revision, a server that missed a reload would win over others.
TEST_F(WantedGenerationTest, AReloadThatFindsNothingNewKeepsTheRevision) {
  Restart();
  ASSERT_TRUE(Reload({.generation = 1, .revision = 7}).ok());
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(Reload({}).ok());
    EXPECT_FALSE(changed_);
    EXPECT_EQ(status().reload_revision, 7u);
    Restart();
  }
  ASSERT_TRUE(std::filesystem::remove(folder_ / collection::kServedManifestName));
  ASSERT_TRUE(Reload({}).ok());
  EXPECT_EQ(status().reload_revision, 7u);
}

TEST_F(WantedGenerationTest, ARollBackServesTheGenerationBeforeUntilTheNextReload) {
  Restart();
  EXPECT_EQ(status().previous_generation, 0);
  Publish();
  ASSERT_TRUE(Reload({}).ok());
  EXPECT_EQ(status().previous_generation, 1);
  ASSERT_TRUE(Reload({.generation = 1}).ok());
  EXPECT_TRUE(changed_);
  EXPECT_EQ(served(), 1);
  EXPECT_EQ(status().previous_generation, 0) << "nothing is kept before that";
  Restart();
  EXPECT_EQ(served(), 1);
  Publish();
  ASSERT_TRUE(Reload({}).ok());
  EXPECT_EQ(served(), 3);
  EXPECT_EQ(status().previous_generation, 1) << "not 2, which was given up";
  ASSERT_TRUE(Reload({.generation = 1}).ok());
  EXPECT_EQ(status().collection->num_documents(), 10u);
}

TEST_F(WantedGenerationTest, AGenerationThatTheFolderDoesNotKeepIsAnError) {
  Restart();
  Publish();
  const absl::Status status = Reload({.generation = 5, .revision = 7});
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  EXPECT_EQ(status.message(), "no generation 5 in " + folder_.path() +
                                  ", which has only 2 (collection.json), 1 (collection.previous.json)");
  EXPECT_EQ(served(), 1);
  EXPECT_FALSE(HasNote());
  EXPECT_THAT(this->status().error, HasSubstr("no generation 5")) << "routers show it";
  ASSERT_TRUE(Reload({.generation = 2, .revision = 7}).ok());
  EXPECT_EQ(this->status().error, "");
}

// It was under way while the server was cut off.
TEST_F(WantedGenerationTest, AnEarlierReloadThatArrivesLateIsRefused) {
  Restart();
  Publish();
  ASSERT_TRUE(Reload({.generation = 2, .revision = 9}).ok());
  for (int round = 0; round < 2; ++round) {
    const absl::Status status = Reload({.generation = 1, .revision = 8});
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_EQ(status.message(), "is 8, but this server has carried out a later reload, with revision 9");
    EXPECT_EQ(served(), 2);
    EXPECT_EQ(this->status().error, "") << "the collection is as it should be";
    Restart();
  }
  EXPECT_TRUE(Reload({.generation = 1, .revision = 9}).ok()) << "of the same reload";
}

// While the server was away, its folder was replaced by a copy of a later one.
TEST_F(WantedGenerationTest, IfTheFilesOfTheNotedGenerationAreGoneThePublishedOneIsLoaded) {
  Restart();
  const std::string shard = folder_ / status().collection->manifest().shards[0].file;
  ASSERT_TRUE(Reload({.generation = 1, .revision = 7}).ok());
  store_ = nullptr;
  Publish();
  ASSERT_TRUE(std::filesystem::remove(shard));
  Restart();
  EXPECT_EQ(served(), 2);
  EXPECT_EQ(status().reload_revision, 0u) << "routers use it only if it is what the others serve";
}

TEST_F(WantedGenerationTest, ADamagedFileOfTheNotedGenerationIsAnError) {
  Restart();
  const std::string shard = folder_ / status().collection->manifest().shards[0].file;
  ASSERT_TRUE(Reload({.generation = 1, .revision = 7}).ok());
  store_ = nullptr;
  Publish();
  test::WriteFile(shard, test::ReadFile(shard).substr(1));
  CollectionStore store(&backend_, {});
  EXPECT_TRUE(absl::IsDataLoss(store.Load({.name = "a", .path = folder_.path(), .at_start = true}, nullptr).status()));
}

TEST_F(WantedGenerationTest, AFolderThatWasBuiltAnewIsReadByItsOwnManifest) {
  Restart();
  ASSERT_TRUE(Reload({.generation = 1, .revision = 7}).ok());
  store_ = nullptr;
  const test::TemporaryFolder other;
  const collection::Manifest anew = test::BuildCorpus(other.path(), test::SmallDocuments(99, 33));
  for (const std::string& file : {std::string(collection::kManifestFileName), anew.shards[0].file}) {
    test::WriteFile(folder_ / file, test::ReadFile(other / file));
  }
  Restart();
  EXPECT_EQ(status().collection->num_documents(), 33u);
}

TEST_F(WantedGenerationTest, AGenerationThatHasNoRoomBesideTheOldOneIsLoadedAfterARestart) {
  residency_ = Residency::kHost;
  Restart();
  ASSERT_TRUE(Reload({.generation = 1, .revision = 7}).ok());
  const uint64_t bytes_of_second = FileBytes(Publish());
  options_.memory_budget_bytes = bytes_of_second;
  options_.filter_cache_bytes = 0;
  Restart();
  ASSERT_EQ(served(), 1);
  const absl::Status status = Reload({.generation = 2, .revision = 8});
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(served(), 1);
  EXPECT_EQ(this->status().reload_revision, 7u) << "routers send it no requests";
  Restart();
  EXPECT_EQ(served(), 2);
  EXPECT_EQ(this->status().reload_revision, 8u);
}

TEST_F(WantedGenerationTest, AClientThatLoadsAFolderGetsWhatIsPublished) {
  Restart();
  ASSERT_TRUE(Reload({.generation = 1, .revision = 7}).ok());
  Publish();
  ASSERT_TRUE(store_->Unload("a").ok());
  ASSERT_TRUE(store_->Load({.name = "a", .path = folder_.path()}, nullptr).ok());
  EXPECT_EQ(served(), 2);
  Restart();
  EXPECT_EQ(served(), 2);
}

// As in a read-only folder.
TEST_F(WantedGenerationTest, AServerThatCannotWriteTheNoteServesTheGenerationUntilItRestarts) {
  Restart();
  Publish();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  const absl::Status status = Reload({.generation = 2, .revision = 7});
  const absl::Status late = Reload({.generation = 1, .revision = 6});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(served(), 2);
  EXPECT_EQ(this->status().reload_revision, 7u);
  EXPECT_TRUE(absl::IsAborted(late)) << late;
  EXPECT_FALSE(HasNote());
  Publish();
  Restart();
  EXPECT_EQ(served(), 3);
}

}  // namespace
}  // namespace maxsim::store
