// Tests a log's disk space: that the log frees space, that it reserves space for the next start, and the errors on a
// full disk.
#include <filesystem>
#include <string>

#include "base/open_descriptors.h"
#include "collection/log/collection_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/collection/log/log_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

class LogSpaceTest : public LogTest {};

TEST_F(LogSpaceTest, GivesDiskSpaceBackWhenItIsTruncated) {
  Create();
  constexpr int32_t kTokensPerDocument = 60'000;  // of 16 bytes: nearly a megabyte
  for (int batch = 0; batch < 20; ++batch) ASSERT_TRUE(AppendMarked(*log_, 10, kTokensPerDocument).ok());
  const uint64_t before = log_->num_bytes();
  EXPECT_GT(before, 140'000'000);
  ASSERT_TRUE(log_->Truncate(195, 0).ok());
  ASSERT_TRUE(log_->ReclaimSpace().ok());
  // Writes 196 to 200 remain, in a blob file as large as one write buffer. RocksDB deletes the other files in the
  // background, so the test waits for that.
  EXPECT_TRUE(test::Eventually([&] { return log_->num_bytes() < 80'000'000; })) << log_->num_bytes();
  EXPECT_EQ(log_->first_sequence(), 195);
  EXPECT_EQ(ReadMarked(*log_, 195, kTokensPerDocument).value_or(0), 200);
  const auto dropped = ReadMarked(*log_, 190, kTokensPerDocument);
  EXPECT_TRUE(absl::IsDataLoss(dropped.status())) << dropped.status();
  EXPECT_THAT(MessageOf(dropped.status()), HasSubstr("sequence 191 was dropped"));
  ASSERT_TRUE(log_->Truncate(200, 0).ok());
  ASSERT_TRUE(log_->ReclaimSpace().ok());
  EXPECT_LT(log_->num_bytes(), 5'000'000);
  EXPECT_TRUE(absl::IsInvalidArgument(log_->Truncate(201, 0)));
  Open();
  EXPECT_EQ(log_->first_sequence(), 200);
  EXPECT_EQ(log_->last_sequence(), 200);
  ASSERT_TRUE(AppendMarked(*log_, 1, 1).ok());
  EXPECT_EQ(log_->last_sequence(), 201);
}

TEST_F(LogSpaceTest, IsExhaustedByAFullDiskAndGoesOnAfterRecovery) {
  Create();
  ASSERT_TRUE(AppendMarked(*log_, 10, 100).ok());
  {
    const FileSizeLimit limit(200'000);
    absl::Status status;
    int appended = 0;
    for (; appended < 100 && status.ok(); ++appended) status = AppendMarked(*log_, 10, 100);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_GT(appended, 1);
    EXPECT_TRUE(absl::IsUnavailable(AppendMarked(*log_, 1, 100)));
  }
  const uint64_t acknowledged = log_->last_sequence();
  EXPECT_EQ(ReadMarked(*log_, 0, 100).value_or(0), acknowledged);
  const absl::Status recovered = log_->Recover();
  ASSERT_TRUE(recovered.ok()) << recovered;
  EXPECT_GE(log_->last_sequence(), acknowledged);
  EXPECT_LE(log_->last_sequence(), acknowledged + 10);
  ASSERT_TRUE(AppendMarked(*log_, 10, 100).ok());
  EXPECT_EQ(ReadMarked(*log_, 0, 100).value_or(0), log_->last_sequence());
  Open();
  EXPECT_EQ(ReadMarked(*log_, 0, 100).value_or(0), log_->last_sequence());
}

// The log reserves as much disk space as the next start needs: the size of the data that only the write-ahead log
// holds.
TEST_F(LogSpaceTest, KeepsRoomOnTheDiskForTheNextStart) {
  const std::string path = folder_.Path("log/reserve");
  uint64_t before = 0;
  {
    auto log = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kCreate);
    ASSERT_TRUE(log.ok()) << log.status();
    before = std::filesystem::file_size(path);
    EXPECT_GE(before, uint64_t{1} << 20);
    for (int idx = 0; idx < 12; ++idx) ASSERT_TRUE(AppendMarked(**log, 1, 65536).ok());  // 1 MiB each
    EXPECT_GE(std::filesystem::file_size(path), uint64_t{10} << 20);
  }
  EXPECT_GE(std::filesystem::file_size(path), uint64_t{10} << 20) << "while no server has it open";
  auto log = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(std::filesystem::file_size(path), before);
}

TEST_F(LogSpaceTest, IsReadAndNotWrittenWhileItCannotBeRecovered) {
  Create();
  ASSERT_TRUE(AppendMarked(*log_, 10, 1000).ok());
  {
    const FileSizeLimit limit(1000);
    EXPECT_FALSE(AppendMarked(*log_, 1, 1000).ok());
    const absl::Status recovered = log_->Recover();
    EXPECT_TRUE(absl::IsResourceExhausted(recovered)) << recovered;
    EXPECT_TRUE(absl::IsUnavailable(AppendMarked(*log_, 1, 1000)));
    EXPECT_GE(ReadMarked(*log_, 0, 1000).value_or(0), 10);
    EXPECT_TRUE(log_->VersionOf("id1").ok());
  }
  const absl::Status recovered = log_->Recover();
  ASSERT_TRUE(recovered.ok()) << recovered;
  EXPECT_GE(ReadMarked(*log_, 0, 1000).value_or(0), 10);
}

// Each start writes the records of the write-ahead log to a new file, so this log has more files than it may open at
// once.
TEST_F(LogSpaceTest, OpensNoMoreFilesThanItSays) {
  Create();
  constexpr int kFiles = 62;  // four of five records are in a blob file
  for (int idx = 0; idx < kFiles; ++idx) {
    ASSERT_TRUE(AppendMarked(*log_, 1, 100).ok());
    Open();
  }
  log_.reset();
  const int64_t before = CountOpenDescriptors().value_or(0);
  Open();
  ASSERT_EQ(ReadMarked(*log_, 0, 100).value_or(0), kFiles);
  int num_blob_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.Path("log/records"))) {
    if (entry.path().extension() == ".blob") ++num_blob_files;
  }
  ASSERT_GT(num_blob_files, kMaxLogDescriptors);
  EXPECT_LE(CountOpenDescriptors().value_or(0) - before, kMaxLogDescriptors);
}

}  // namespace
}  // namespace maxsim::collection
