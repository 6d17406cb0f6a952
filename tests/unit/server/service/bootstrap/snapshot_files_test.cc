#include "server/service/bootstrap/snapshot_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <filesystem>
#include <string>
#include <vector>

#include "server/service/bootstrap/snapshot_messages.h"
#include "tests/unit/server/service/bootstrap/snapshot_fixture.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;

TEST(SnapshotFilesTest, AreListedByNameWithTheManifestLast) {
  const test::TemporaryFolder folder;
  WriteFiles(folder.path(), {{"collection.json", "{}"}, {"z", "1"}, {"a/b/c", "22"}, {"a/collection.json", ""}});
  const auto files = ListSnapshotFiles(folder.path());
  ASSERT_TRUE(files.ok()) << files.status();
  std::vector<std::string> paths;
  for (const SnapshotFile& file : *files) paths.push_back(file.path);
  EXPECT_THAT(paths, ElementsAre("a/b/c", "a/collection.json", "z", "collection.json"));
  EXPECT_EQ((*files)[0].num_bytes, 2u);
}

TEST(SnapshotFilesTest, ALinkIsNotSent) {
  const test::TemporaryFolder folder;
  WriteFiles(folder.path(), {{"collection.json", "{}"}});
  std::filesystem::create_symlink("/etc/passwd", folder / "shard");
  EXPECT_EQ(ListSnapshotFiles(folder.path()).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ListSnapshotFiles(folder / "missing").status().code(), absl::StatusCode::kNotFound);
}

TEST(SnapshotFilesTest, EachFileIsDescribedAndThenSentInMessagesOfAtMostAMebibyte) {
  for (const size_t size : {size_t{0}, size_t{1}, kMaxSnapshotDataBytes - 1, kMaxSnapshotDataBytes,
                            kMaxSnapshotDataBytes + 1, 3 * kMaxSnapshotDataBytes}) {
    const test::TemporaryFolder folder;
    const std::string bytes = Bytes(size);
    WriteFiles(folder.path(), {{"f", bytes}});
    const std::vector<v1::ReadSnapshotResponse> messages = MessagesOf(folder.path());
    ASSERT_EQ(messages.size(), 2 + (size + kMaxSnapshotDataBytes - 1) / kMaxSnapshotDataBytes) << size;
    EXPECT_EQ(messages[0].begin().total_bytes(), size);
    EXPECT_EQ(messages[1].file().path(), "f");
    EXPECT_EQ(messages[1].file().bytes(), size);
    EXPECT_EQ(messages[1].file().xxh3(), XXH3_64bits(bytes.data(), bytes.size()));
    std::string sent;
    for (size_t i = 2; i < messages.size(); ++i) {
      EXPECT_LE(messages[i].data().size(), kMaxSnapshotDataBytes);
      sent += messages[i].data();
    }
    EXPECT_EQ(sent, bytes);
  }
}

TEST(SnapshotFilesTest, TheFirstErrorEndsTheSending) {
  const test::TemporaryFolder folder;
  WriteFiles(folder.path(), SmallFiles());
  auto files = *ListSnapshotFiles(folder.path());
  int num_messages = 0;
  const auto fails = [&](const v1::ReadSnapshotResponse&) {
    return ++num_messages == 3 ? absl::CancelledError("gone") : absl::OkStatus();
  };
  EXPECT_EQ(SendSnapshotFiles(folder.path(), files, fails, nullptr).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(num_messages, 3);

  StopSignal stop;
  const auto stops = [&](const v1::ReadSnapshotResponse&) {
    stop.Request(absl::StatusCode::kUnavailable);
    return absl::OkStatus();
  };
  EXPECT_EQ(SendSnapshotFiles(folder.path(), files, stops, &stop).code(), absl::StatusCode::kUnavailable);

  files[0].num_bytes += 1;
  const auto takes = [](const v1::ReadSnapshotResponse&) { return absl::OkStatus(); };
  EXPECT_EQ(SendSnapshotFiles(folder.path(), files, takes, nullptr).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace maxsim::service
