// Tests UpgradeCollection: the upgrade of a collection's log without a server.
#include "collection/upgrade/upgrade.h"

#include <string>
#include <vector>

#include "base/stop.h"
#include "collection/log/version_memory.h"
#include "gtest/gtest.h"
#include "tests/unit/collection/log/version_fixture.h"

namespace maxsim::collection {
namespace {

class UpgradeTest : public VersionMemoryTest {
 protected:
  // Makes a collection without shards. Its log has format 1, a document "held" of version 4, and version 9 of a deleted
  // id "deleted".
  void CreateOld() {
    Create(kRememberedBytes);
    ASSERT_TRUE(Upsert("held", 4).ok());
    MakeOld({{"deleted", 9}, {"held", 4}});
    Manifest manifest;
    manifest.name = "x";
    manifest.generation = 1;
    manifest.dim = SmallLogFormat().dim;
    manifest.storage = SmallLogFormat().storage;
    manifest.id_type = SmallLogFormat().id_type;
    manifest.has_payloads = true;
    manifest.log_sequence = 0;
    const absl::Status published = PublishManifest(manifest, folder_.path(), nullptr);
    ASSERT_TRUE(published.ok()) << published;
  }
  // Returns what ReadFormats says about the log.
  FormatInUse Log() {
    const auto formats = ReadFormats(folder_.path());
    EXPECT_TRUE(formats.ok()) << formats.status();
    if (!formats.ok() || formats->size() != 2) return {};
    EXPECT_EQ(formats->front().kind, "manifest");
    return formats->back();
  }
  // Checks that the log forgets the version of "deleted" and not that of "held".
  void CheckVersions() {
    Open();
    EXPECT_EQ(VersionOf("deleted"), 9);
    EXPECT_EQ(VersionOf("held"), 4);
    SetMeta(kRememberedBytesKey, Cat(kSmallMemory));
    const std::vector<std::string> ids(kSmallMemory / kBytesPerVersion + 1, "other");
    ASSERT_TRUE(Delete(ids, 5).ok());
    EXPECT_EQ(VersionOf("deleted"), 0);
    EXPECT_EQ(VersionOf("held"), 4);
  }
};

TEST_F(UpgradeTest, MarksTheVersionsOfIdsWithoutADocument) {
  CreateOld();
  log_.reset();
  EXPECT_EQ(Log().version, kOldLogFormatVersion);
  EXPECT_EQ(Log().current, kLogFormatVersion);
  EXPECT_TRUE(Log().needs_upgrade);
  for (int round = 0; round < 2; ++round) {
    const auto upgraded = UpgradeCollection(folder_.path());
    ASSERT_TRUE(upgraded.ok()) << upgraded.status();
    EXPECT_EQ(upgraded->back().needs_upgrade, round == 0);
    EXPECT_EQ(Log().version, kLogFormatVersion);
    EXPECT_FALSE(Log().needs_upgrade);
  }
  CheckVersions();
}

TEST_F(UpgradeTest, CompletesAnUpgradeThatWasInterrupted) {
  CreateOld();
  StopSignal stop;
  stop.Request(absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::IsUnavailable(log_->UpgradeVersions([](const LogRecord&) { return false; }, &stop)));
  log_.reset();
  EXPECT_EQ(Log().version, kLogFormatVersion);
  EXPECT_TRUE(Log().needs_upgrade);
  const auto upgraded = UpgradeCollection(folder_.path());
  ASSERT_TRUE(upgraded.ok()) << upgraded.status();
  EXPECT_FALSE(Log().needs_upgrade);
  CheckVersions();
}

TEST_F(UpgradeTest, RefusesALogThatIsOpen) {
  CreateOld();
  EXPECT_TRUE(absl::IsFailedPrecondition(UpgradeCollection(folder_.path()).status()));
  EXPECT_TRUE(Log().needs_upgrade);
}

}  // namespace
}  // namespace maxsim::collection
