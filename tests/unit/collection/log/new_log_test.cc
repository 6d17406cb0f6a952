// Tests new logs that begin with a given position, stream and versions.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_summary.h"
#include "collection/log/version_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/collection/log/version_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NewLogTest : public VersionMemoryTest {
 protected:
  static std::vector<std::string> VersionsOf(const CollectionLog& log) {
    std::vector<std::string> versions;
    const absl::Status status = log.ReadVersions([&](const IdVersion& id) {
      versions.push_back(Cat(id.string_id, "=", id.version.version));
      if (id.version.deleted_at.has_value()) versions.back() += Cat(" deleted at ", *id.version.deleted_at);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return versions;
  }
  // Creates the log with these versions.
  absl::Status CreateWith(const NewLog& log, const std::vector<IdVersion>& versions) {
    return CollectionLog::Create(folder_.path(), SmallLogFormat(), log, [&](const VersionVisitor& add) {
      for (const IdVersion& id : versions) {
        if (absl::Status status = add(id); !status.ok()) return status;
      }
      return absl::OkStatus();
    });
  }
};

TEST_F(NewLogTest, HasItsPositionStreamAndVersionsWhenItIsOpened) {
  const LogStream stream{"maxsim-docs", 1'700'000'000'000'000'000};
  ASSERT_TRUE(
      CreateWith({.begin = 77, .stream = stream, .remembered_bytes = kSmallMemory, .deleted_bytes = 500},
                 {{.string_id = "kept", .version = {7, std::nullopt}}, {.string_id = "gone", .version = {9, 450}}})
          .ok());
  for (int round = 0; round < 2; ++round) {
    Open();
    EXPECT_EQ(log_->first_sequence(), 77);
    EXPECT_EQ(log_->last_sequence(), 77);
    EXPECT_EQ(log_->stream(), stream);
    EXPECT_EQ(log_->remembered_bytes(), kSmallMemory);
    EXPECT_EQ(log_->deleted_bytes(), 500);
    EXPECT_EQ(VersionOf("kept"), 7);
    EXPECT_EQ(VersionOf("gone"), 9);
    EXPECT_EQ(VersionOf("other"), 0);
    EXPECT_THAT(VersionsOf(*log_), ElementsAre("gone=9 deleted at 450", "kept=7"));
  }
  EXPECT_THAT(Verify().problems, IsEmpty());
  // The log counts the bytes of deleted ids: 500 now, and 450 when "gone" was deleted. The log forgets that version
  // once the count is more than 1,000 above 450.
  const auto other = [](int idx) { return Cat(100 + idx) + std::string(33, 'x'); };  // 100 bytes each
  for (int idx = 0; idx < 9; ++idx) ASSERT_TRUE(Delete({other(idx)}, 5).ok());
  EXPECT_EQ(VersionOf("gone"), 9);
  EXPECT_EQ(log_->last_sequence(), 86);
  ASSERT_TRUE(Delete({other(9)}, 5).ok());
  EXPECT_EQ(VersionOf("gone"), 0);
  EXPECT_EQ(VersionOf("kept"), 7);
  ASSERT_TRUE(Upsert("kept", 0).ok());
  EXPECT_EQ(VersionOf("kept"), 0) << "a write without a version removes it";
  EXPECT_THAT(Verify().problems, IsEmpty());
}

TEST_F(NewLogTest, HasManyVersions) {
  constexpr uint64_t kCount = 200'000;  // several batches
  ASSERT_TRUE(CollectionLog::Create(folder_.path(), SmallLogFormat(), {.begin = 3}, [&](const VersionVisitor& add) {
                for (uint64_t n = 1; n <= kCount; ++n) {
                  const std::string id = Cat("a document with the number ", n);
                  if (absl::Status status = add({.string_id = id, .version = {n, std::nullopt}}); !status.ok()) {
                    return status;
                  }
                }
                return absl::OkStatus();
              }).ok());
  Open();
  EXPECT_EQ(log_->stream(), std::nullopt);
  for (const uint64_t n : {uint64_t{1}, uint64_t{77'777}, kCount}) {
    EXPECT_EQ(VersionOf(Cat("a document with the number ", n)), n);
  }
  uint64_t num_read = 0;
  ASSERT_TRUE(log_->ReadVersions([&](const IdVersion& /*id*/) {
                    ++num_read;
                    return absl::OkStatus();
                  })
                  .ok());
  EXPECT_EQ(num_read, kCount);
}

TEST_F(NewLogTest, AppearsCompleteOrNotAtAll) {
  const absl::Status status =
      CollectionLog::Create(folder_.path(), SmallLogFormat(), {}, [](const VersionVisitor& add) {
        EXPECT_TRUE(add({.string_id = "one", .version = {1, std::nullopt}}).ok());
        return absl::CancelledError("enough");
      });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_FALSE(HasLog(folder_.path()));
  ASSERT_TRUE(CreateWith({}, {}).ok());
  Open();
  EXPECT_THAT(VersionsOf(*log_), IsEmpty());
  const absl::Status again = CreateWith({}, {});
  EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
  EXPECT_THAT(std::string(again.message()), HasSubstr("has a log already"));
}

TEST_F(NewLogTest, ForgottenVersionsAreNotRead) {
  Create(kSmallMemory);
  ASSERT_TRUE(Upsert("document", 7).ok());
  ASSERT_TRUE(Delete({"first"}, 9).ok());  // 69 bytes
  const auto other = [](int idx) { return Cat(100 + idx) + std::string(33, 'x'); };
  for (int idx = 0; idx < 10; ++idx) ASSERT_TRUE(Delete({other(idx)}, 5).ok());
  EXPECT_EQ(log_->deleted_bytes(), 1069);
  EXPECT_THAT(VersionsOf(*log_), ::testing::Contains("first=9 deleted at 69"));
  ASSERT_TRUE(Delete({other(10)}, 5).ok());
  const std::vector<std::string> versions = VersionsOf(*log_);
  EXPECT_EQ(versions.size(), 12);
  EXPECT_THAT(versions, ::testing::Not(::testing::Contains(HasSubstr("first"))));
  EXPECT_EQ(versions.back(), "document=7");
}

TEST_F(NewLogTest, VersionsOfALogThatWasNotUpgradedAreNotRead) {
  Create(kRememberedBytes);
  MakeOld({{"kept", 5}});
  const absl::Status status = log_->ReadVersions([](const IdVersion& /*id*/) { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("run maxsim-shard upgrade"));
}

}  // namespace
}  // namespace maxsim::collection
