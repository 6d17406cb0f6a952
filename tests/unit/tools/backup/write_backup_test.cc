// Tests that a backup can be found only when it is complete, and that it never goes to a URL with other objects.
#include "tools/backup/write_backup.h"

#include <xxhash.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tools/backup/memory_store.h"

namespace maxsim::backup {
namespace {

using ::testing::HasSubstr;

constexpr char kWrittenId[] = "0123456789abcdef";

class WriteBackupTest : public ::testing::Test {
 protected:
  absl::Status Write(PartWriter& writer, const std::string& path, const std::string& bytes) {
    absl::Status status = writer.BeginFile(path, bytes.size(), XXH3_64bits(bytes.data(), bytes.size()));
    for (size_t at = 0; at < bytes.size() && status.ok(); at += 3) {
      status = writer.TakeData(std::string_view(bytes).substr(at, 3));
    }
    return status;
  }

  BackupManifest OnePart() {
    PartWriter writer(store_, kWrittenId, 0, 6);
    EXPECT_TRUE(Write(writer, "log/empty", "").ok());
    EXPECT_TRUE(Write(writer, "a", "1234").ok());
    EXPECT_TRUE(Write(writer, "collection.json", "{}").ok());
    const auto files = writer.End();
    EXPECT_TRUE(files.ok()) << files.status();
    BackupManifest manifest{.id = kWrittenId,
                            .collection = "notes",
                            .created_at = "now",
                            .created_by = "a test",
                            .stream = {},
                            .parts = {}};
    manifest.parts.push_back({.server = "a:1", .slots = {}, .sequence = 3, .num_documents = 1, .files = *files});
    return manifest;
  }

  MemoryStore store_;
};

TEST_F(WriteBackupTest, TheManifestIsWrittenLast) {
  EXPECT_TRUE(CheckStoreIsEmpty(store_).ok());
  const BackupManifest manifest = OnePart();
  EXPECT_EQ(manifest.parts[0].files[1], (BackupFile{"a", 4, Sha256Hex("1234")}));
  EXPECT_EQ(store_.objects.count("manifest.json"), 0);
  EXPECT_EQ(store_.objects["data-0123456789abcdef/part-0/a"], "1234");
  EXPECT_THAT(std::string(CheckStoreIsEmpty(store_).message()), HasSubstr("was interrupted"));
  ASSERT_TRUE(PublishBackup(store_, manifest).ok());
  EXPECT_EQ(ParseManifest(store_.objects["manifest.json"])->parts, manifest.parts);
  const absl::Status again = CheckStoreIsEmpty(store_);
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr("there is a backup already"));
}

TEST_F(WriteBackupTest, AMissingOrCutObjectOrASecondBackupPreventsTheManifest) {
  const BackupManifest manifest = OnePart();
  store_.objects["data-0123456789abcdef/part-0/a"] = "123";
  EXPECT_EQ(PublishBackup(store_, manifest).code(), absl::StatusCode::kDataLoss);
  store_.objects.erase("data-0123456789abcdef/part-0/a");
  EXPECT_THAT(std::string(PublishBackup(store_, manifest).message()), HasSubstr("part-0/a: is missing"));
  EXPECT_EQ(store_.objects.count("manifest.json"), 0);
  store_.objects["data-0123456789abcdef/part-0/a"] = "1234";
  store_.objects["manifest.json"] = "of another backup";
  EXPECT_EQ(PublishBackup(store_, manifest).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_.objects["manifest.json"], "of another backup");
}

TEST_F(WriteBackupTest, AManifestThatCannotBeReadIsNotWritten) {
  BackupManifest manifest = OnePart();
  manifest.stream = collection::LogStream{.name = std::string(257, 's'), .created_ns = 1};
  const absl::Status status = PublishBackup(store_, manifest);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("stream.name is not a text of at most 256 bytes"));
  EXPECT_EQ(store_.objects.count("manifest.json"), 0);
  manifest.stream->name.pop_back();
  EXPECT_TRUE(PublishBackup(store_, manifest).ok());
}

TEST_F(WriteBackupTest, WhatNoCorrectServerSendsIsRefused) {
  for (const std::string path : {"", "/etc/passwd", "../a", "a//b", "a b"}) {
    PartWriter writer(store_, kWrittenId, 0, 100);
    EXPECT_EQ(Write(writer, path, "1").code(), absl::StatusCode::kInternal) << path;
  }
  PartWriter writer(store_, kWrittenId, 0, 5);
  ASSERT_TRUE(Write(writer, "a", "12").ok());
  EXPECT_EQ(Write(writer, "a", "1").code(), absl::StatusCode::kInternal);     // a second time
  EXPECT_EQ(Write(writer, "b", "1234").code(), absl::StatusCode::kInternal);  // more than was announced
  EXPECT_EQ(writer.TakeData("1").code(), absl::StatusCode::kInternal);        // of no file
  ASSERT_TRUE(writer.BeginFile("c", 2, 0).ok());
  EXPECT_EQ(writer.BeginFile("d", 1, 0).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(writer.TakeData("123").code(), absl::StatusCode::kInternal);
  EXPECT_EQ(writer.End().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(writer.TakeData("12").code(), absl::StatusCode::kDataLoss);  // not of this checksum
  EXPECT_EQ(store_.objects.count("data-0123456789abcdef/part-0/c"), 0);
}

TEST_F(WriteBackupTest, APartThatEndsEarlyIsRefused) {
  PartWriter writer(store_, kWrittenId, 0, 3);
  ASSERT_TRUE(Write(writer, "collection.json", "{}").ok());
  EXPECT_EQ(writer.End().status().code(), absl::StatusCode::kDataLoss);
  PartWriter other(store_, kWrittenId, 1, 2);
  ASSERT_TRUE(Write(other, "a", "{}").ok());
  EXPECT_THAT(std::string(other.End().status().message()), HasSubstr("no file collection.json"));
}

TEST(BackupIdTest, IdsHaveSixteenDigitsAndDiffer) {
  EXPECT_EQ(NewBackupId().size(), 16);
  EXPECT_NE(NewBackupId(), NewBackupId());
}

}  // namespace
}  // namespace maxsim::backup
