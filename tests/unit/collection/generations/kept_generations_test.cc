// Tests which generations a folder keeps, for servers that restart and for operators who go back.
#include "collection/generations/kept_generations.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/folder.h"
#include "collection/build/generation_files.h"
#include "collection/build/shard_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {
namespace {

using testing::HasSubstr;

class KeptGenerationsTest : public testing::Test {
 protected:
  Manifest Publish() {
    const absl::StatusOr<Manifest> manifest = BuildSmall({}, {.folder = path(), .name = "docs"});
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return *manifest;
  }
  const std::string& path() const { return folder_.path(); }
  bool HasShardOf(int64_t generation) const {
    const std::vector<std::string> files = FilesIn(path());
    return std::find(files.begin(), files.end(), ShardFileName(generation, 0)) != files.end();
  }
  int64_t Previous() const {
    const absl::StatusOr<std::optional<Manifest>> previous = ReadPrevious(Folder(path()));
    EXPECT_TRUE(previous.ok()) << previous.status();
    return previous->has_value() ? (*previous)->generation : 0;
  }

  const TemporaryFolder folder_;
};

TEST_F(KeptGenerationsTest, APublicationKeepsTheOneBeforeUntilTheNext) {
  Publish();
  EXPECT_EQ(Previous(), 0);
  for (int64_t generation = 2; generation <= 4; ++generation) {
    Publish();
    EXPECT_EQ(Previous(), generation - 1);
    EXPECT_TRUE(HasShardOf(generation - 1));
    EXPECT_FALSE(HasShardOf(generation - 2));
    const absl::StatusOr<Manifest> found = FindGeneration(Folder(path()), generation - 1);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->shards[0].file, ShardFileName(generation - 1, 0));
  }
  const absl::Status unknown = FindGeneration(Folder(path()), 2).status();
  EXPECT_TRUE(absl::IsOutOfRange(unknown)) << unknown;
  EXPECT_EQ(unknown.message(),
            "no generation 2 in " + path() + ", which has only 4 (collection.json), 3 (collection.previous.json)");
}

// Servers went back to generation 1, so it is that one to which they go back from generation 3.
TEST_F(KeptGenerationsTest, TheServedGenerationStaysWhateverIsPublished) {
  const Manifest first = Publish();
  Publish();
  ASSERT_TRUE(WriteServed({.manifest = first, .revision = 17}, path()).ok());
  for (int64_t generation = 3; generation <= 5; ++generation) {
    Publish();
    EXPECT_TRUE(HasShardOf(1)) << generation;
    EXPECT_EQ(Previous(), 1) << generation;
  }
  EXPECT_FALSE(HasShardOf(3));
  const absl::StatusOr<std::optional<ServedGeneration>> served = ReadServed(Folder(path()));
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ((*served)->revision, 17u);
  EXPECT_EQ(FormatManifest((*served)->manifest), FormatManifest(first));
  EXPECT_TRUE(FindGeneration(Folder(path()), 1).ok());
}

TEST_F(KeptGenerationsTest, ANoteReplacesTheOneBeforeAndLeavesNoOtherFile) {
  Manifest manifest = Publish();
  const size_t num_files = FilesIn(path()).size();
  for (const uint64_t revision : {uint64_t{1}, kMaxReloadRevision}) {
    ASSERT_TRUE(WriteServed({.manifest = manifest, .revision = revision}, path()).ok());
    EXPECT_EQ((*ReadServed(Folder(path())))->revision, revision);
    EXPECT_EQ(FilesIn(path()).size(), num_files + 1);
  }
}

// The collection became live, so its server compacts it and does not read the note.
TEST_F(KeptGenerationsTest, ANoteKeepsNoFilesOfALiveCollection) {
  ASSERT_TRUE(WriteServed({.manifest = Publish(), .revision = 17}, path()).ok());
  const Manifest before = Publish();
  Manifest live = Publish();
  ASSERT_TRUE(HasShardOf(1));
  live.log_sequence = 4;
  RemoveOldGenerations(path(), live, before);
  EXPECT_FALSE(HasShardOf(1));
  EXPECT_TRUE(HasShardOf(2));
}

TEST_F(KeptGenerationsTest, ADamagedNoteIsAnErrorAndKeepsAllFiles) {
  Publish();
  Publish();
  const std::string note = folder_.Path(kServedManifestName);
  WriteBytes(note, "{\"reload_revision\": 3");
  EXPECT_TRUE(absl::IsDataLoss(ReadServed(Folder(path())).status()));
  EXPECT_THAT(std::string(ReadServed(Folder(path())).status().message()), HasSubstr("; remove the file to serve"));
  for (const std::string& revision : {std::string("0"), std::string("9007199254740992"), std::string("\"1\"")}) {
    std::string text = ReadBytes(folder_.Path(kManifestFileName));
    WriteBytes(note, text.replace(0, 1, "{\"reload_revision\": " + revision + ","));
    const absl::Status status = ReadServed(Folder(path())).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected 1 to 9007199254740991")) << revision;
  }
  Publish();
  EXPECT_TRUE(HasShardOf(1)) << "a server may need it";
  EXPECT_EQ(Previous(), 2);
  std::filesystem::remove(note);
  std::filesystem::create_directory(note);
  EXPECT_THAT(std::string(ReadServed(Folder(path())).status().message()), HasSubstr("; remove the file to serve"));
}

}  // namespace
}  // namespace maxsim::collection
