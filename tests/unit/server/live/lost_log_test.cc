// Tests generations whose log was deleted or moved away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "collection/log/collection_log.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

using testing::HasSubstr;

class LostLogTest : public LiveTest {
 protected:
  LostLogTest() {
    Create();
    Open();
  }
  void WriteSome(int64_t count) {
    for (int64_t n = 0; n < count; ++n) {
      MustWrite(List(Upsert(absl::StrCat("d", n), n)));
      expected_[absl::StrCat("d", n)] = n;
    }
  }
  void Remove(const std::string& id) {
    MustWrite(List(Delete(id)));
    expected_.erase(id);
  }
  // Deletes the log, and with it all writes since the last compaction.
  void LoseLog() {
    live_.reset();
    store_.reset();
    std::filesystem::remove_all(std::filesystem::path(path_) / collection::kLogFolderName);
  }

  Documents expected_;
};

TEST_F(LostLogTest, IsMissedByALoadWithoutLive) {
  WriteSome(20);
  MustCompact();
  LoseLog();
  const absl::Status status = TryOpen(path_, /*live=*/false);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("up to sequence 20, but the folder log is missing"));
  EXPECT_FALSE(collection::HasLog(path_));
}

// The collection was never compacted, so only the lost log had its documents. It must not be loaded as empty.
TEST_F(LostLogTest, OfACollectionThatWasNeverCompactedIsRefused) {
  WriteSome(20);
  LoseLog();
  for (const bool is_live : {true, false}) {
    const absl::Status status = TryOpen(path_, is_live);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("was never compacted, and the folder log is missing"));
    EXPECT_FALSE(collection::HasLog(path_));
  }
}

// After the folder has been moved away, the open log could still accept writes, but the next start at the folder's path
// would not find them. So such writes must be refused.
TEST_F(LostLogTest, RefusesWritesOnceTheFolderIsMovedAndTakesThemOnceItIsBack) {
  WriteSome(5);
  const std::string elsewhere = folder_ / "elsewhere";
  std::filesystem::rename(path_, elsewhere);
  const auto refused = Write(List(Upsert("lost", 1)));
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("was deleted or moved while it was open"));
  std::filesystem::rename(elsewhere, path_);
  ASSERT_TRUE(Eventually([&] { return live().state().status.ok(); }));
  MustWrite(List(Upsert("found", 2)));
  Reopen();
  EXPECT_EQ(Now().count("found"), 1u);
}

TEST_F(LostLogTest, RefusesWritesOnceItsFilesAreDeleted) {
  WriteSome(5);
  std::filesystem::remove_all(std::filesystem::path(path_) / collection::kLogFolderName);
  const auto refused = Write(List(Upsert("lost", 1)));
  EXPECT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(path_));
}

TEST_F(LostLogTest, IsBegunAnewBehindTheGenerationByALoadWithLive) {
  WriteSome(20);
  MustCompact();
  MustWrite(List(Upsert("lost", 1)));
  LoseLog();
  Open();
  EXPECT_EQ(Now(), expected_);
  EXPECT_EQ(Find()->sequence(), 20u);
  EXPECT_EQ(MustWrite(List(Upsert("d20", 20))).sequence, 21u);
  expected_["d20"] = 20;
  Remove("d3");
  ASSERT_TRUE(store_->Reload("c", nullptr).ok());
  EXPECT_EQ(Now(), expected_);
  Reopen();
  EXPECT_EQ(Now(), expected_);
  MustCompact();
  EXPECT_EQ(Find()->manifest().log_sequence, 22u);
  EXPECT_EQ(Now(), expected_);
  Reopen();
  EXPECT_EQ(Now(), expected_);
}

TEST_F(LostLogTest, BringsDeletedDocumentsBackAndRefusesReplacedOnes) {
  WriteSome(100);
  MustCompact();
  Remove("d7");
  MustCompact();
  ASSERT_EQ(live().state().num_deleted_documents, 1u) << "of the shard that was kept";
  LoseLog();
  Open();
  expected_["d7"] = 7;
  EXPECT_EQ(Now(), expected_);

  MustWrite(List(Upsert("d9", 1)));
  MustCompact();
  LoseLog();
  const absl::Status status = TryOpen(path_);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("document id \"d9\" appears twice"));
}

}  // namespace
}  // namespace maxsim::live
