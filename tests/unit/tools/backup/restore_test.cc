// Tests that a backup of servers that follow one stream can be restored into any number of partitions. The result must
// equal a server that applied each message once. A damaged backup must never be restored.
#include "backup/restore.h"

#include <xxhash.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "backup/newest_backup.h"
#include "tests/unit/collection/partition/assemble_fixture.h"
#include "tests/unit/tools/backup/memory_store.h"
#include "tools/backup/write_backup.h"

namespace maxsim::backup {
namespace {

using collection::FollowingServer;
using collection::SlotRange;
using ::testing::HasSubstr;

constexpr char kRestoredId[] = "0123456789abcdef";

// Returns the vectors and the payload of each document by its id.
std::map<std::string, std::string> Contents(const std::string& folder) {
  std::map<std::string, std::string> contents;
  for (const collection::StoredDocument& one : collection::ReadDocuments(folder)) {
    contents[one.id] = one.rows + one.payload;
  }
  return contents;
}

class RestoreTest : public collection::AssembleTest {
 protected:
  // Writes a folder to the store, as the files of the next part.
  void AddPart(const std::string& folder, const SlotRange& slots, uint64_t sequence) {
    std::vector<std::string> paths;
    uint64_t total_bytes = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_directory()) continue;
      paths.push_back(entry.path().lexically_relative(folder).generic_string());
      total_bytes += entry.file_size();
    }
    PartWriter writer(store_, kRestoredId, manifest_.parts.size(), total_bytes);
    for (const std::string& path : paths) {
      const std::string bytes = collection::ReadBytes((std::filesystem::path(folder) / path).string());
      ASSERT_TRUE(writer.BeginFile(path, bytes.size(), XXH3_64bits(bytes.data(), bytes.size())).ok());
      if (!bytes.empty()) {
        ASSERT_TRUE(writer.TakeData(bytes).ok());
      }
    }
    const auto files = writer.End();
    ASSERT_TRUE(files.ok()) << files.status();
    manifest_.parts.push_back({.server = Cat("s", manifest_.parts.size(), ":1"),
                               .slots = slots,
                               .sequence = sequence,
                               .num_documents = 0,
                               .files = *files});
  }

  // Makes a backup of two servers with half of the slots each. They have applied the stream up to messages 300 and 250.
  void Backup() {
    AddPart(SnapshotOf("left", {0, 2048}, 300, collection::TestStream(), 100), {0, 2048}, 300);
    AddPart(SnapshotOf("right", {2048, 4096}, 250), {2048, 4096}, 250);
    manifest_.id = kRestoredId;
    manifest_.collection = "live";
    manifest_.created_at = "now";
    manifest_.created_by = "a test";
    manifest_.stream = collection::TestStream();
    const absl::Status status = PublishBackup(store_, manifest_);
    ASSERT_TRUE(status.ok()) << status;
  }

  absl::StatusOr<RestoredBackup> RestoreInto(int32_t into, const std::string& name = "out") {
    RestoreOptions options;
    options.output = Path(name);
    options.into = into;
    return Restore(store_, options);
  }

  // Expects that a restore fails with DATA_LOSS and a message that contains `words`, and leaves no files.
  void ExpectLoss(const std::string& words) {
    const absl::Status status = RestoreInto(1).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    ExpectNothingMade();
  }

  void ExpectNothingMade() {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name.starts_with("left") || name.starts_with("right")) << name << " is left over";
    }
  }

  MemoryStore store_;
  BackupManifest manifest_;
};

TEST_F(RestoreTest, AnyNumberOfPartitionsEndsLikeTheServers) {
  Backup();
  FollowingServer all = FollowingServer::Create(Path("all"), SlotRange(), collection::OptionsWithCodesAndFields());
  all.Apply(writes_, writes_.size());
  all.CompactAll();
  const auto expected = Contents(all.folder());
  for (const int32_t into : {1, 2, 3, 7}) {
    SCOPED_TRACE(into);
    const auto restored = RestoreInto(into, Cat("out-", into));
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(restored->backup.position(), 250);
    EXPECT_EQ(restored->backup.complete_at(), 300);
    ASSERT_EQ(restored->folders.size(), static_cast<size_t>(into));
    std::map<std::string, std::string> found;
    for (int32_t idx = 0; idx < into; ++idx) {
      const std::string folder = into == 1 ? Path("out-1") : Path(Cat("out-", into, "/partition-", idx, "-of-", into));
      EXPECT_EQ(restored->folders[static_cast<size_t>(idx)].folder, folder);
      FollowingServer server(folder);
      EXPECT_EQ(server.log().stream(), collection::TestStream());
      EXPECT_GE(server.log().last_sequence(), 250);
      server.Apply(writes_, writes_.size());
      const SlotRange slots = collection::PartitionOf(idx, into);
      EXPECT_EQ(server.Versions(), all.Versions(slots));
      for (const std::string& id : server.held()) EXPECT_TRUE(slots.contains(collection::SlotOf(id))) << id;
      server.CompactAll();
      found.merge(Contents(folder));
    }
    EXPECT_EQ(found, expected);
  }
}

TEST_F(RestoreTest, OnlyThePartsWithTheWantedSlotsAreFetched) {
  Backup();
  std::map<std::string, std::string> whole = store_.objects;
  std::erase_if(store_.objects, [](const auto& object) { return object.first.find("/part-0/") != std::string::npos; });
  ASSERT_LT(store_.objects.size(), whole.size()) << "the keys of a part's files have the part's index";
  std::filesystem::create_directory(Path("right-fetched"));
  const auto fetched = FetchBackup(store_, "live", {2048, 3000}, Path("right-fetched"), nullptr);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_EQ(fetched->folders.size(), 1u);
  EXPECT_EQ(fetched->complete_at, 250u);
  uint64_t num_bytes = 0;
  for (const BackupFile& file : manifest_.parts[1].files) num_bytes += file.num_bytes;
  EXPECT_EQ(fetched->num_bytes, num_bytes);
  EXPECT_EQ(Contents(fetched->folders[0]), Contents(Path("right-copy")));
  const auto lost = FetchBackup(store_, "live", {2047, 3000}, Path("right-fetched"), nullptr);
  EXPECT_EQ(lost.status().code(), absl::StatusCode::kDataLoss) << lost.status();
}

TEST_F(RestoreTest, ABackupOfAnotherCollectionOrOfTooFewSlotsIsNotFetched) {
  Backup();
  std::filesystem::create_directory(Path("left-fetched"));
  absl::Status status = FetchBackup(store_, "docs", {}, Path("left-fetched"), nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is a backup of collection live, not of docs"));
  manifest_.parts.pop_back();
  ASSERT_TRUE(store_.Put(kManifestKey, FormatManifest(manifest_)).ok());
  status = FetchBackup(store_, "live", {}, Path("left-fetched"), nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("has only slots 0 .. 2047 of all slots"));
  EXPECT_TRUE(std::filesystem::is_empty(Path("left-fetched")));
}

TEST(FindNewestBackupTest, TheLastNameWithAManifestIsTheNewestBackup) {
  MemoryStore store;
  EXPECT_EQ(FindNewestBackup(store).status().code(), absl::StatusCode::kNotFound);
  for (const std::string key : {"2026-11-28/manifest.json", "2026-11-29/manifest.json", "2026-11-30/0123/0/file",
                                "2026-12-01/deeper/manifest.json", "manifest.json"}) {
    ASSERT_TRUE(store.Put(key, "{}").ok());
  }
  const auto newest = FindNewestBackup(store);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(*newest, "2026-11-29");
}

TEST_F(RestoreTest, DamagedAndMissingObjectsAreNoticed) {
  Backup();
  const std::map<std::string, std::string> whole = store_.objects;
  for (const auto& [key, bytes] : whole) {
    if (key == kManifestKey || bytes.empty()) continue;
    store_.objects = whole;
    store_.objects[key][bytes.size() / 2] ^= 1;
    ExpectLoss(Cat(key, ": is damaged"));
    store_.objects[key] = bytes.substr(1);
    ExpectLoss(Cat(key, ": ends after"));
    store_.objects.erase(key);
    ExpectLoss(Cat(key, ": is missing"));
  }
  store_.objects = whole;
  store_.objects[kManifestKey].resize(whole.at(kManifestKey).size() / 2);
  ExpectLoss("manifest.json");
  store_.objects.erase(kManifestKey);
  EXPECT_EQ(RestoreInto(1).status().code(), absl::StatusCode::kNotFound);
  ExpectNothingMade();
}

TEST_F(RestoreTest, PartsThatAreNotWhatTheManifestSaysAreNoticed) {
  Backup();
  const BackupManifest right = manifest_;
  const auto publish = [&] { store_.objects[kManifestKey] = FormatManifest(manifest_); };
  manifest_.parts[0].sequence = 301;
  publish();
  ExpectLoss("ends with sequence 300, not 301");
  manifest_ = right;
  manifest_.parts[0].slots = {0, 2049};
  publish();
  ExpectLoss("slots 0 .. 2047, not slots 0 .. 2048");
  manifest_ = right;
  manifest_.stream->name = "maxsim-other";
  publish();
  ExpectLoss("maxsim-other");
  manifest_ = right;
  manifest_.collection = "other";
  publish();
  ExpectLoss("\"live\"");
}

TEST_F(RestoreTest, WrongOutputsAndNumbersAreRefusedBeforeAnythingIsRead) {
  Backup();
  for (const int32_t into : {0, 4097}) {
    EXPECT_EQ(RestoreInto(into).status().code(), absl::StatusCode::kInvalidArgument) << into;
  }
  EXPECT_EQ(RestoreInto(1, "left").status().code(), absl::StatusCode::kAlreadyExists);
  ExpectNothingMade();
}

TEST_F(RestoreTest, ASignalStopsARestoreAlsoAfterAllFilesAreFetched) {
  Backup();
  StopSignal stop, stop_after_fetch;
  stop.Request(absl::StatusCode::kCancelled);
  RestoreOptions options;
  options.output = Path("out");
  options.stop = &stop;
  options.fetch_observer = [&](uint64_t, uint64_t) {
    ADD_FAILURE() << "a stopped restore has fetched something";
    return absl::OkStatus();
  };
  EXPECT_EQ(Restore(store_, options).status().code(), absl::StatusCode::kCancelled);
  ExpectNothingMade();
  options.stop = &stop_after_fetch;
  options.fetch_observer = [&](uint64_t num_bytes, uint64_t total_bytes) {
    if (num_bytes == total_bytes) stop_after_fetch.Request(absl::StatusCode::kCancelled);
    return absl::OkStatus();
  };
  EXPECT_EQ(Restore(store_, options).status().code(), absl::StatusCode::kCancelled);
  ExpectNothingMade();
}

TEST_F(RestoreTest, AnObserverEndsARestore) {
  Backup();
  RestoreOptions options;
  options.output = Path("out");
  options.fetch_observer = [](uint64_t num_bytes, uint64_t total_bytes) {
    EXPECT_LE(num_bytes, total_bytes);
    return absl::CancelledError("interrupted");
  };
  EXPECT_EQ(Restore(store_, options).status().code(), absl::StatusCode::kCancelled);
  ExpectNothingMade();
}

}  // namespace
}  // namespace maxsim::backup
