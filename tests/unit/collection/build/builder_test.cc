#include "collection/build/builder.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/build/shard_plan.h"
#include "collection/inspection/verifier.h"
#include "collection/shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/collection/build/builder_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Stage = BuildProgress::Stage;

void ExpectServes(const std::string& folder, const SmallCollection& collection, int64_t generation) {
  const auto manifest = ReadManifest(folder);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->generation, generation);
  size_t document = 0;
  for (const ShardEntry& entry : manifest->shards) {
    const auto shard = Shard::Open(folder, *manifest, entry, Access::kMapped, true);
    ASSERT_TRUE(shard.ok()) << shard.status();
    for (int64_t idx = 0; idx < entry.num_documents; ++idx, ++document) {
      const DocumentsView& view = (*shard)->documents();
      ASSERT_EQ(view.offsets[idx + 1] - view.offsets[idx], collection.lengths[document]);
      ASSERT_EQ((*shard)->int_id(idx), collection.int_ids[document]);
      ASSERT_EQ((*shard)->payload(idx), collection.payloads[document]);
    }
  }
  EXPECT_EQ(document, collection.lengths.size());
  const auto report = VerifyCollection(folder);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->problems, ElementsAre());
}

TEST(BuilderTest, SplitsAtTheBoundAndLosesNothing) {
  const SmallCollection collection = NumberedCollection(500);
  for (const int64_t bound : {int64_t{8192}, int64_t{10000}, int64_t{20000}, int64_t{1} << 20}) {
    TemporaryFolder folder;
    const auto manifest = BuildSmall(
        collection, {.folder = folder.path(), .name = "x", .storage = ScalarType::kF32, .max_shard_bytes = bound});
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(manifest->shards.size() > 1, bound < int64_t{1} << 20) << bound;
    for (const ShardEntry& entry : manifest->shards) EXPECT_LE(entry.num_bytes, bound);
    // A shard may only end if the next document would not have fit.
    for (size_t idx = 0; idx + 1 < manifest->shards.size(); ++idx) {
      EXPECT_GT(manifest->shards[idx].num_bytes + 20 * 8 * 4 + 8 + 8 + 8 + 9, bound);
    }
    ExpectServes(folder.path(), collection, 1);
  }
}

TEST(BuilderTest, ADocumentLargerThanTheBoundGetsAShardOfItsOwn) {
  SmallCollection collection = NumberedCollection(3);
  collection.lengths = {5, 2000, 5};
  TemporaryFolder folder;
  const auto manifest = BuildSmall(collection, {.folder = folder.path(), .name = "x", .max_shard_bytes = 8192});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->shards.size(), 3);
  EXPECT_EQ(manifest->shards[1].num_tokens, 2000);
  ExpectServes(folder.path(), collection, 1);
}

TEST(BuilderTest, TheSplitDoesNotChangeWhatIsStored) {
  const SmallCollection collection = NumberedCollection(40);
  std::string all[2];
  for (int run = 0; run < 2; ++run) {
    TemporaryFolder folder;
    const auto manifest = BuildSmall(
        collection, {.folder = folder.path(), .name = "x", .max_shard_bytes = run == 0 ? 8192 : kDefaultMaxShardBytes});
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    for (const ShardEntry& entry : manifest->shards) {
      const auto shard = *Shard::Open(folder.path(), *manifest, entry, Access::kCopied, true);
      const DocumentsView& view = shard->documents();
      all[run].append(static_cast<const char*>(view.tokens), static_cast<size_t>(view.num_tokens() * view.dim * 2));
    }
  }
  EXPECT_EQ(all[0], all[1]);
}

TEST(BuilderTest, TheSameInputGivesTheSameBytes) {
  std::string checksums[2];
  for (std::string& checksum : checksums) {
    TemporaryFolder folder;
    checksum = BuildSmall(NumberedCollection(50), {.folder = folder.path(), .name = "x"})->shards[0].checksum;
  }
  EXPECT_EQ(checksums[0], checksums[1]);
}

TEST(BuilderTest, GenerationsGrowAndTheLastButOneStays) {
  TemporaryFolder folder;
  const BuildOptions options{.folder = folder.path(), .name = "x", .max_shard_bytes = 8192};
  for (int64_t generation = 1; generation <= 4; ++generation) {
    const SmallCollection collection = NumberedCollection(static_cast<int>(100 - generation));
    const auto manifest = BuildSmall(collection, options);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    ExpectServes(folder.path(), collection, generation);
    const std::vector<std::string> files = FilesIn(folder.path());
    EXPECT_THAT(files, Contains(ShardFileName(generation, 0)));
    if (generation > 1) {
      EXPECT_THAT(files, Contains(ShardFileName(generation - 1, 0)));
    }
    for (int64_t old = 1; old < generation - 1; ++old) {
      for (const std::string& file : files) EXPECT_THAT(file, Not(HasSubstr(Cat("shard-00000", old))));
    }
  }
}

TEST(BuilderTest, FilesOfOthersInTheFolderAreLeftAlone) {
  TemporaryFolder folder;
  const std::vector<std::string> others = {"notes.txt", "notes.txt.tmp", "shard-x.safetensors",
                                           "shard-000009-00000.safetensors.bak", "shard-9-0.safetensors"};
  for (const std::string& other : others) WriteBytes(folder.Path(other), "mine");
  for (int run = 0; run < 4; ++run)
    ASSERT_TRUE(BuildSmall(NumberedCollection(3), {.folder = folder.path(), .name = "x"}).ok());
  for (const std::string& other : others) EXPECT_EQ(ReadBytes(folder.Path(other)), "mine");
}

// Ends a build at its n-th progress report, for every n, once with an error and once by killing the process.
TEST(BuilderTest, ABuildThatEndsAnywhereLeavesTheOldGenerationOrTheNewOne) {
  const SmallCollection before = NumberedCollection(60);
  const SmallCollection after = NumberedCollection(61);
  TemporaryFolder folder;
  const BuildOptions options{.folder = folder.path(), .name = "x", .max_shard_bytes = 8192};
  ASSERT_TRUE(BuildSmall(before, options).ok());
  const std::vector<std::string> files_before = FilesIn(folder.path());
  int reports = 0;
  bool published = false;
  for (int stop = 1; !published; ++stop) {
    reports = 0;
    Stage last = Stage::kReading;
    const auto manifest = BuildSmall(after, options, [&](const BuildProgress& progress) {
      last = progress.stage;
      return ++reports == stop ? absl::CancelledError("stop here") : absl::OkStatus();
    });
    published = last == Stage::kPublished;
    if (published) {
      EXPECT_TRUE(manifest.ok()) << "an error after publishing cannot undo it: " << manifest.status();
      ExpectServes(folder.path(), after, 2);
    } else {
      EXPECT_EQ(manifest.status().message(), "stop here");
      EXPECT_EQ(FilesIn(folder.path()), files_before);
      ExpectServes(folder.path(), before, 1);
    }
    ASSERT_LT(stop, 100);
  }
  EXPECT_GT(reports, 5);
}

TEST(BuilderTest, AProcessThatDiesAnywhereLeavesAFolderThatTheNextBuildCleans) {
  const SmallCollection before = NumberedCollection(60);
  const SmallCollection after = NumberedCollection(61);
  for (int stop = 1;; ++stop) {
    TemporaryFolder folder;
    const BuildOptions options{.folder = folder.path(), .name = "x", .max_shard_bytes = 8192};
    ASSERT_TRUE(BuildSmall(before, options).ok());
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int reports = 0;
      const auto manifest = BuildSmall(after, options, [&](const BuildProgress& progress) {
        if (++reports == stop) ::_exit(7);
        return absl::OkStatus();
      });
      ::_exit(manifest.ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 0) {
      ExpectServes(folder.path(), after, 2);
      break;
    }
    ASSERT_EQ(WEXITSTATUS(status), 7);
    const int64_t generation = ReadManifest(folder.path())->generation;
    ExpectServes(folder.path(), generation == 1 ? before : after, generation);
    // Makes a smaller build afterwards. It must remove every file that the killed build left in the folder.
    ASSERT_TRUE(BuildSmall(NumberedCollection(2), options).ok());
    ExpectServes(folder.path(), NumberedCollection(2), generation + 1);
    for (const std::string& file : FilesIn(folder.path())) {
      EXPECT_THAT(file, Not(HasSubstr(".tmp")));
      if (generation == 1) {
        EXPECT_TRUE(file != ShardFileName(2, 1)) << "left by the build that died";
      }
    }
    ASSERT_LT(stop, 100);
  }
}

TEST(BuilderTest, OneBuildAtATime) {
  TemporaryFolder folder;
  auto lock = FolderLock::Acquire(folder.path());
  ASSERT_TRUE(lock.ok()) << lock.status();
  const auto manifest = BuildSmall(NumberedCollection(3), {.folder = folder.path(), .name = "x"});
  EXPECT_EQ(manifest.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(manifest.status().message()), HasSubstr("another build"));
  { const FolderLock released = *std::move(lock); }
  EXPECT_TRUE(BuildSmall(NumberedCollection(3), {.folder = folder.path(), .name = "x"}).ok());
}

TEST(BuilderTest, ABuildThatFailsLeavesNoFolderThatItMade) {
  TemporaryFolder folder;
  const auto fails_in = [](const std::string& path) {
    const auto manifest = BuildSmall(NumberedCollection(3), {.folder = path, .name = "x"},
                                     [](const BuildProgress&) { return absl::CancelledError("enough"); });
    EXPECT_EQ(manifest.status().code(), absl::StatusCode::kCancelled) << manifest.status();
  };
  fails_in(folder.Path("new"));
  EXPECT_FALSE(std::filesystem::exists(folder.Path("new")));
  fails_in(folder.Path("outer/inner/"));
  EXPECT_FALSE(std::filesystem::exists(folder.Path("outer")));
  std::filesystem::create_directory(folder.Path("there"));
  fails_in(folder.Path("there/inner"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.Path("there")));
  fails_in(folder.Path("there"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.Path("there"))) << "the lock's file too is gone";
  EXPECT_TRUE(BuildSmall(NumberedCollection(3), {.folder = folder.Path("new"), .name = "x"}).ok());
  EXPECT_THAT(FilesIn(folder.Path("new")), ElementsAre("collection.json", ShardFileName(1, 0)));
}

TEST(BuilderTest, AnotherBuildsFileInANewFolderStays) {
  TemporaryFolder folder;
  const std::string path = folder.Path("new");
  const auto manifest = BuildSmall(NumberedCollection(3), {.folder = path, .name = "x"}, [&](const BuildProgress&) {
    WriteBytes(path + "/notes", "mine");
    return absl::CancelledError("enough");
  });
  EXPECT_FALSE(manifest.ok());
  EXPECT_THAT(FilesIn(path), ElementsAre("notes"));
}

TEST(BuilderTest, ADiskThatFillsIsAnErrorAndLeavesNothing) {
  TemporaryFolder folder;
  const SmallCollection before = NumberedCollection(5);
  ASSERT_TRUE(BuildSmall(before, {.folder = folder.path(), .name = "x"}).ok());
  const std::vector<std::string> files = FilesIn(folder.path());
  // With a limit on the size of files, a write fails as on a full disk.
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit small{100'000, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto manifest =
      BuildSmall(NumberedCollection(test::kSanitized ? 1000 : 5000), {.folder = folder.path(), .name = "x"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(manifest.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(manifest.status().message()), HasSubstr("cannot write"));
  EXPECT_EQ(FilesIn(folder.path()), files);
  ExpectServes(folder.path(), before, 1);
}

TEST(BuilderTest, TheNameComesFromTheOptionTheCollectionOrTheFolder) {
  TemporaryFolder folder;
  const std::string path = folder.Path("a/deep/my-docs/");
  ASSERT_TRUE(BuildSmall(NumberedCollection(3), {.folder = path}).ok());
  EXPECT_EQ(ReadManifest(path)->name, "my-docs");
  EXPECT_EQ(BuildSmall(NumberedCollection(3), {.folder = path, .name = "other"}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(BuildSmall(NumberedCollection(3), {.folder = path, .name = "my-docs"}).ok());
  EXPECT_TRUE(BuildSmall(NumberedCollection(3), {.folder = path}).ok());
  EXPECT_EQ(ReadManifest(path)->generation, 3);
  EXPECT_THAT(
      std::string(BuildSmall(NumberedCollection(3), {.folder = folder.Path("b"), .name = "a b"}).status().message()),
      HasSubstr("\"a b\""));
  EXPECT_THAT(std::string(BuildSmall(NumberedCollection(3), {.folder = folder.Path("c d")}).status().message()),
              AllOf(HasSubstr("\"c d\""), HasSubstr("it is the name of the folder")));
}

TEST(BuilderTest, WhatClientsRelyOnStaysUnlessSaidOtherwise) {
  const SmallCollection there = NumberedCollection(3);
  SmallCollection wider = there, with_strings = there, without_payloads = there;
  wider.dim = 16;
  with_strings.id_type = IdType::kString;
  with_strings.ids = {"a", "b", "c"};
  without_payloads.payloads.clear();
  struct {
    const SmallCollection& other;
    const char* expected;
  } const cases[] = {{wider, "has dimension 8, but this input has 16"},
                     {with_strings, "has ids of type int64, but this input has string"},
                     {without_payloads, "has payloads, but this input has none"}};
  for (const auto& [other, expected] : cases) {
    TemporaryFolder folder;
    ASSERT_TRUE(BuildSmall(there, {.folder = folder.path(), .name = "x"}).ok());
    const absl::Status refused = BuildSmall(other, {.folder = folder.path()}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr(expected), HasSubstr("--allow-other-shape")));
    ExpectServes(folder.path(), there, 1);
    EXPECT_TRUE(BuildSmall(other, {.folder = folder.path(), .allow_other_shape = true}).ok());
    EXPECT_EQ(ReadManifest(folder.path())->generation, 2);
  }
  TemporaryFolder folder;
  ASSERT_TRUE(BuildSmall(without_payloads, {.folder = folder.path(), .name = "x"}).ok());
  EXPECT_TRUE(BuildSmall(there, {.folder = folder.path()}).ok()) << "more payloads hurt nobody";
}

TEST(BuilderTest, AManifestThatCannotBeReadIsNotOverwritten) {
  TemporaryFolder folder;
  WriteBytes(folder.Path("collection.json"), "{");
  EXPECT_EQ(BuildSmall(NumberedCollection(3), {.folder = folder.path(), .name = "x"}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadBytes(folder.Path("collection.json")), "{");
}

}  // namespace
}  // namespace maxsim::collection
