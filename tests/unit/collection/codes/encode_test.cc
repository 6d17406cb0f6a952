// Tests adding codes to existing collections, and which files are left after a failure.
#include "collection/build/encode.h"

#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstring>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "collection/build/generation_files.h"
#include "collection/build/shard_encoder.h"
#include "collection/codes/code_file.h"
#include "collection/generations/kept_generations.h"
#include "tests/unit/collection/codes/codes_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

class EncodeTest : public ::testing::Test {
 protected:
  BuildOptions Options(int planes = 0) const {
    return {.folder = folder_.path(), .name = "x", .max_shard_bytes = 20'000, .codes = {.planes = planes}};
  }
  Manifest Build(int planes = 0) {
    const auto manifest = random_.Build(Options(planes));
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_GT(manifest->shards.size(), 2);
    return *manifest;
  }
  EncodeResult Encode(int planes, uint64_t seed = 0) {
    const auto result =
        EncodeCollection({.folder = folder_.path(), .codes = {.planes = planes, .rotation_seed = seed}});
    EXPECT_TRUE(result.ok()) << result.status();
    return *result;
  }

  RandomDocuments random_{100, 48, false};
  TemporaryFolder folder_;
};

TEST_F(EncodeTest, ShardsStayAndTheCodesAreThoseOfABuild) {
  for (const int planes : {1, 2, 4}) {
    const Manifest built = Build(planes);
    TemporaryFolder other;
    BuildOptions options = Options();
    options.folder = other.path();
    const auto plain = random_.Build(options);
    ASSERT_TRUE(plain.ok());
    const auto before = ContentsOf(other.path());
    const auto encoded = EncodeCollection({.folder = other.path(), .codes = {.planes = planes}});
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_TRUE(encoded->changed);
    EXPECT_EQ(encoded->manifest.generation, 2);
    EXPECT_EQ(FormatManifest(*ReadManifest(other.path())), FormatManifest(encoded->manifest));
    EXPECT_THAT(ContentsOf(other.path()), IsSupersetOf(before));
    ASSERT_EQ(encoded->manifest.codes, built.codes);
    int64_t num_bytes = 0;
    for (size_t idx = 0; idx < built.shards.size(); ++idx) {
      EXPECT_EQ(encoded->manifest.shards[idx].file, plain->shards[idx].file);
      for (size_t file = 0; file < built.shards[idx].code_files.size(); ++file) {
        EXPECT_EQ(encoded->manifest.shards[idx].code_files[file].checksum, built.shards[idx].code_files[file].checksum);
      }
      num_bytes += CodeFileBytes(encoded->manifest.shards[idx], 4);
    }
    EXPECT_EQ(encoded->bytes_made, num_bytes);
    ExpectSound(other.path());
  }
}

TEST_F(EncodeTest, TheFilesDoNotDependOnThreads) {
  Build();
  const auto one = EncodeCollection({.folder = folder_.path(), .codes = {.planes = 4}, .num_threads = 1});
  ASSERT_TRUE(one.ok());
  Encode(0);
  const auto many = EncodeCollection({.folder = folder_.path(), .codes = {.planes = 4}, .num_threads = 7});
  ASSERT_TRUE(many.ok());
  for (size_t idx = 0; idx < one->manifest.shards.size(); ++idx) {
    for (size_t file = 0; file < 3; ++file) {
      EXPECT_EQ(one->manifest.shards[idx].code_files[file].checksum,
                many->manifest.shards[idx].code_files[file].checksum);
    }
  }
}

TEST_F(EncodeTest, FewerPlanesAreTakenFromWhatIsThereAndNoneFromNothing) {
  const Manifest built = Build(4);
  EncodeResult result = Encode(4);
  EXPECT_FALSE(result.changed);
  EXPECT_EQ(result.manifest.generation, 1);
  result = Encode(2);
  EXPECT_TRUE(result.changed);
  EXPECT_EQ(result.bytes_made, 0);
  EXPECT_EQ(result.manifest.codes->planes, 2);
  EXPECT_EQ(result.manifest.shards[1].code_files[1].file, built.shards[1].code_files[1].file);
  ExpectSound(folder_.path());
  result = Encode(1, 5);  // another rotation
  EXPECT_GT(result.bytes_made, 0);
  EXPECT_EQ(*result.manifest.codes, (CodesFormat{1, false, 5}));
  ExpectSound(folder_.path());
  result = Encode(4, 5);
  EXPECT_EQ(*result.manifest.codes, (CodesFormat{4, false, 5}));
  ExpectSound(folder_.path());
  result = Encode(0);
  EXPECT_EQ(result.manifest.codes, std::nullopt);
  EXPECT_THAT(CodeFilesOf(result.manifest), IsEmpty());
  EXPECT_THAT(FormatManifest(result.manifest), HasSubstr("\"format_version\": 1"));
  ExpectSound(folder_.path());
  EXPECT_FALSE(Encode(0).changed);
}

TEST_F(EncodeTest, FilesOfOlderGenerationsGo) {
  const Manifest built = Build(4);
  const EncodeResult second = Encode(1, 5);
  EXPECT_THAT(FilesIn(folder_.path()), IsSupersetOf(CodeFilesOf(built)));  // for readers that are about to open them
  const EncodeResult third = Encode(2, 6);
  std::vector<std::string> expected = CodeFilesOf(third.manifest);
  for (const std::string& file : CodeFilesOf(second.manifest)) expected.push_back(file);
  for (const ShardEntry& entry : built.shards) expected.push_back(entry.file);
  expected.emplace_back(kManifestFileName);
  expected.emplace_back(kPreviousManifestName);
  EXPECT_THAT(FilesIn(folder_.path()), ::testing::UnorderedElementsAreArray(expected));
  // The next build writes other shards. It keeps all files of the generation before.
  const Manifest fourth = Build();
  EXPECT_EQ(fourth.codes, std::nullopt);
  EXPECT_THAT(FilesIn(folder_.path()), IsSupersetOf(CodeFilesOf(third.manifest)));
  const Manifest fifth = Build();
  std::vector<std::string> left = {std::string(kManifestFileName), std::string(kPreviousManifestName)};
  for (const ShardEntry& entry : fourth.shards) left.push_back(entry.file);
  for (const ShardEntry& entry : fifth.shards) left.push_back(entry.file);
  EXPECT_THAT(FilesIn(folder_.path()), ::testing::UnorderedElementsAreArray(left));
}

TEST_F(EncodeTest, AnInterruptedEncodingOrBuildLeavesNothing) {
  const std::string before = FormatManifest(Build());
  const auto files = ContentsOf(folder_.path());
  for (int steps = 1;; ++steps) {
    int left = steps;
    const BuildObserver observer = [&](const BuildProgress& progress) {
      if (progress.stage == BuildProgress::Stage::kPublished || --left > 0) return absl::OkStatus();
      return absl::CancelledError("a test");
    };
    const auto result = EncodeCollection({.folder = folder_.path(), .codes = {.planes = 4}}, observer);
    if (result.ok()) {
      EXPECT_GT(steps, 5);
      break;
    }
    EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
    EXPECT_EQ(FormatManifest(*ReadManifest(folder_.path())), before);
    EXPECT_EQ(ContentsOf(folder_.path()), files);
  }
  ExpectSound(folder_.path());
  TemporaryFolder other;
  BuildOptions options = Options(4);
  options.folder = other.Path("new");
  int encodings = 0;
  const auto built = random_.Build(options, [&](const BuildProgress& progress) {
    if (progress.stage == BuildProgress::Stage::kEncoding && ++encodings == 3) return absl::CancelledError("a test");
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsCancelled(built.status())) << built.status();
  EXPECT_FALSE(std::filesystem::exists(options.folder));
}

TEST_F(EncodeTest, WhatAKilledEncodingLeavesTheNextOneRemoves) {
  const Manifest built = Build();
  const std::string before = FormatManifest(built);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // The child dies here: the first shard's codes are complete, the second shard's are being written, and no manifest
    // lists any codes yet.
    const auto ignored = EncodeCollection({.folder = folder_.path(), .codes = {.planes = 4}, .num_threads = 1},
                                          [](const BuildProgress& progress) {
                                            if (progress.shards_done == 1) ::kill(::getpid(), SIGKILL);
                                            return absl::OkStatus();
                                          });
    ::_exit(ignored.ok() ? 1 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(FormatManifest(*ReadManifest(folder_.path())), before);
  EXPECT_GT(FilesIn(folder_.path()).size(), built.shards.size() + 1);
  const EncodeResult result = Encode(1);
  std::vector<std::string> expected = CodeFilesOf(result.manifest);
  for (const ShardEntry& entry : built.shards) expected.push_back(entry.file);
  expected.emplace_back(kManifestFileName);
  expected.emplace_back(kPreviousManifestName);
  EXPECT_THAT(FilesIn(folder_.path()), ::testing::UnorderedElementsAreArray(expected));
  ExpectSound(folder_.path());
}

TEST_F(EncodeTest, DamagedShardsAreNotEncoded) {
  const Manifest built = Build();
  const std::string path = folder_.Path(built.shards[1].file);
  const std::string bytes = ReadBytes(path);
  std::string changed = bytes;
  changed[5000] = static_cast<char>(changed[5000] ^ 1);
  WriteBytes(path, changed);
  const auto files = ContentsOf(folder_.path());
  const auto result = EncodeCollection({.folder = folder_.path(), .codes = {.planes = 4}});
  EXPECT_TRUE(absl::IsDataLoss(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(built.shards[1].file + ": checksum"));
  EXPECT_EQ(ContentsOf(folder_.path()), files);
}

TEST_F(EncodeTest, AValueThatNoTokenMayHaveIsNamed) {
  Manifest built = Build();
  const std::string path = folder_.Path(built.shards[1].file);
  std::string bytes = ReadBytes(path);
  const uint16_t infinity = 0x7c00;
  constexpr size_t kDocument = 3;
  const auto shard = Shard::Open(folder_.path(), built, built.shards[1], Access::kCopied, true);
  ASSERT_TRUE(shard.ok());
  const int64_t row = (*shard)->documents().offsets[kDocument];
  std::memcpy(bytes.data() + 4096 + row * 48 * 2 + 7 * 2, &infinity, sizeof(infinity));
  WriteBytes(path, bytes);
  Checksum checksum;
  checksum.Update(bytes.data(), bytes.size());
  built.shards[1].checksum = checksum.Format();
  ASSERT_TRUE(PublishManifest(built, folder_.path()).ok());
  const auto result = EncodeCollection({.folder = folder_.path(), .codes = {.planes = 4}});
  EXPECT_TRUE(absl::IsDataLoss(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr(built.shards[1].file + ": document 3, token 0, column 7: "));
}

TEST_F(EncodeTest, WrongRequestsAreRefused) {
  Build();
  const auto refused = [&](const CodesRequest& request) {
    return EncodeCollection({.folder = folder_.path(), .codes = request}).status();
  };
  EXPECT_THAT(std::string(refused({.planes = 3}).message()),
              HasSubstr("codes: 3 planes, expected 0 (none), 1, 2 or 4"));
  EXPECT_TRUE(absl::IsInvalidArgument(refused({.planes = -1})));
  EXPECT_TRUE(absl::IsInvalidArgument(refused({.planes = 1, .rotation_seed = uint64_t{1} << 53})));
  BuildOptions options = Options(5);
  EXPECT_TRUE(absl::IsInvalidArgument(random_.Build(options).status()));
  EXPECT_TRUE(absl::IsNotFound(EncodeCollection({.folder = folder_.Path("none"), .codes = {.planes = 1}}).status()));
  const auto lock = FolderLock::Acquire(folder_.path());
  ASSERT_TRUE(lock.ok());
  EXPECT_THAT(std::string(refused({.planes = 1}).message()), HasSubstr("another build"));
}

TEST(FactorsTest, AreThereWhereNormsDiffer) {
  for (const bool norms_differ : {false, true}) {
    const RandomDocuments random(1500, 16, norms_differ);  // more than are sampled
    TemporaryFolder folder;
    const auto manifest = random.Build({.folder = folder.path(), .name = "x", .max_shard_bytes = 60'000});
    ASSERT_TRUE(manifest.ok());
    ASSERT_GT(manifest->shards.size(), 3);
    const auto need = NeedFactors({{folder.path(), &*manifest}});
    ASSERT_TRUE(need.ok()) << need.status();
    EXPECT_EQ(*need, norms_differ);
    // A request that says it is followed.
    const auto result = EncodeCollection({.folder = folder.path(), .codes = {.planes = 1, .factors = !norms_differ}});
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->manifest.codes->factors, !norms_differ);
    ExpectSound(folder.path());
  }
}

}  // namespace
}  // namespace maxsim::collection
