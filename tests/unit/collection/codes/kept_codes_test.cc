// Tests that programs which rewrite shards (such as compaction) keep the codes of a collection.
#include <string>
#include <vector>

#include "collection/build/encode.h"
#include "collection/build/quantize.h"
#include "collection/compact/compact.h"
#include "collection/compact/create.h"
#include "collection/inspection/inspect.h"
#include "collection/partition/repartition.h"
#include "tests/unit/collection/codes/codes_fixture.h"
#include "tests/unit/collection/compact/live_model.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> ChecksumsOf(const Manifest& manifest) {
  std::vector<std::string> checksums;
  for (const ShardEntry& entry : manifest.shards) {
    for (const CodeFileEntry& file : entry.code_files) checksums.push_back(file.checksum);
  }
  return checksums;
}

TEST(KeptCodesTest, ACollectionThatIsSplitAndMergedHasTheSameCodes) {
  for (const ScalarType storage : {ScalarType::kF16, ScalarType::kI8}) {
    TemporaryFolder folder;
    const RandomDocuments random(200, 32, true);
    const auto whole = random.Build({.folder = folder.Path("whole"),
                                     .name = "cut",
                                     .storage = storage,
                                     .rotation_seed = storage == ScalarType::kI8 ? uint64_t{9} : 0,
                                     .max_shard_bytes = 30'000,
                                     .codes = {.planes = 2, .rotation_seed = 9}});
    ASSERT_TRUE(whole.ok()) << whole.status();
    ASSERT_GT(whole->shards.size(), 1);
    const auto parts =
        SplitCollection(folder.Path("whole"), 3, {.output = folder.Path("parts"), .max_shard_bytes = 20'000});
    ASSERT_TRUE(parts.ok()) << parts.status();
    std::vector<std::string> folders;
    for (const PartitionFolder& one : PartitionFolders(folder.Path("parts"), SlotRange(), 3)) {
      folders.push_back(one.folder);
      ExpectSound(one.folder);
    }
    for (const Manifest& part : *parts) EXPECT_EQ(part.codes, whole->codes);
    const auto merged = MergeCollections(folders, {.output = folder.Path("merged"), .max_shard_bytes = 30'000});
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(merged->codes, whole->codes);
    EXPECT_EQ(ChecksumsOf(*merged), ChecksumsOf(*whole));
    ExpectSound(folder.Path("merged"));
  }
}

TEST(KeptCodesTest, PartitionsOfOtherCodesAreNotMerged) {
  TemporaryFolder folder;
  const RandomDocuments random(60, 16, false);
  ASSERT_TRUE(random.Build({.folder = folder.Path("whole"), .name = "cut", .codes = {.planes = 2}}).ok());
  ASSERT_TRUE(SplitCollection(folder.Path("whole"), 2, {.output = folder.Path("parts")}).ok());
  const std::vector<PartitionFolder> parts = PartitionFolders(folder.Path("parts"), SlotRange(), 2);
  for (const PartitionFolder& part : parts) {
    // Both get a generation more.
    const int planes = &part == &parts.front() ? 1 : 4;
    ASSERT_TRUE(EncodeCollection({.folder = part.folder, .codes = {.planes = planes}}).ok());
    ExpectSound(part.folder);
  }
  const auto merged = MergeCollections({parts[0].folder, parts[1].folder}, {.output = folder.Path("merged")});
  EXPECT_TRUE(absl::IsFailedPrecondition(merged.status())) << merged.status();
  EXPECT_THAT(std::string(merged.status().message()), HasSubstr("codes: "));
}

TEST(KeptCodesTest, AQuantizedCollectionHasCodesOfItsOwn) {
  TemporaryFolder folder;
  const RandomDocuments random(80, 24, false);
  ASSERT_TRUE(random.Build({.folder = folder.Path("f16"), .name = "x", .codes = {.planes = 4}}).ok());
  const auto kept =
      QuantizeCollection({.source = folder.Path("f16"), .target = folder.Path("i8"), .name = "", .rotation_seed = 3});
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(*kept->codes, (CodesFormat{4, false, 3}));
  ExpectSound(folder.Path("i8"));
  const auto without = QuantizeCollection(
      {.source = folder.Path("f16"), .target = folder.Path("plain"), .name = "", .rotation_seed = 3, .codes = 0});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->codes, std::nullopt);
}

class LiveCodesTest : public ::testing::TestWithParam<ScalarType> {
 protected:
  // Adds codes to the collection. Closes the log before and reopens it afterwards, because EncodeCollection opens the
  // log itself.
  EncodeResult Encode(int planes) {
    model_.Close();
    const auto result = EncodeCollection({.folder = folder_.path(), .codes = {.planes = planes, .factors = true}});
    EXPECT_TRUE(result.ok()) << result.status();
    model_.Open();
    return *result;
  }
  Manifest CompactAll(double max_tombstone_share) {
    const auto result = Compact(folder_.path(), model_.log(), model_.log().last_sequence(),
                                {.max_tombstone_share = max_tombstone_share, .max_shard_bytes = 9'000});
    EXPECT_TRUE(result.ok()) << result.status();
    return result->manifest;
  }
  void ExpectSoundAndWhole() {
    const auto manifest = ReadManifest(folder_.path());
    ASSERT_TRUE(manifest.ok());
    const auto tombstones = model_.log().TombstonesOf(*manifest);
    ASSERT_TRUE(tombstones.ok()) << tombstones.status();
    const auto report = VerifyCollection(folder_.path(), nullptr, &*tombstones);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->problems, IsEmpty());
    EXPECT_EQ(model_.Published(), model_.Expected(*manifest->log_sequence));
  }

  TemporaryFolder folder_;
  LiveModel model_{folder_.path(),
                   {.name = "live",
                    .dim = 8,
                    .storage = GetParam(),
                    .rotation_seed = GetParam() == ScalarType::kI8 ? uint64_t{77} : 0,
                    .id_type = IdType::kString},
                   1};
};

TEST_P(LiveCodesTest, ACompactionWritesTheCodesOfTheShardsItWrites) {
  model_.Create();
  const EncodeResult empty = Encode(4);
  EXPECT_TRUE(empty.changed);
  EXPECT_THAT(empty.manifest.shards, IsEmpty());
  for (int round = 0; round < 4; ++round) {
    model_.Write(60, 100, false);
    const Manifest manifest = CompactAll(round % 2 == 0 ? 0.9 : 0);
    EXPECT_EQ(manifest.codes, empty.manifest.codes);
    ASSERT_THAT(manifest.shards, ::testing::Not(IsEmpty()));
    for (const ShardEntry& entry : manifest.shards) EXPECT_EQ(entry.code_files.size(), 3);
    ExpectSoundAndWhole();
  }
}

TEST_P(LiveCodesTest, AnEncodingKeepsTombstonesAndWrites) {
  model_.Create();
  model_.Write(80, 60, false);
  CompactAll(0.9);
  model_.Write(30, 60, false);
  const Manifest manifest = CompactAll(0.9);  // shards with tombstones stay
  model_.Write(5, 60, false);                 // and writes that no shard has
  const auto before = model_.log().TombstonesOf(manifest);
  ASSERT_TRUE(before.ok());
  size_t num_tombstones = 0;
  for (const std::vector<uint32_t>& of_shard : *before) num_tombstones += of_shard.size();
  ASSERT_GT(num_tombstones, 0);
  const EncodeResult result = Encode(2);
  EXPECT_EQ(result.manifest.generation, manifest.generation + 1);
  EXPECT_EQ(result.manifest.log_sequence, manifest.log_sequence);
  EXPECT_EQ(*model_.log().TombstonesOf(result.manifest), *before);
  ExpectSoundAndWhole();
  CompactAll(0);
  ExpectSoundAndWhole();
}

TEST_P(LiveCodesTest, ACollectionThatIsOpenElsewhereIsNotEncoded) {
  model_.Create();
  const auto result = EncodeCollection({.folder = folder_.path(), .codes = {.planes = 1}});
  EXPECT_TRUE(absl::IsFailedPrecondition(result.status())) << result.status();
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("while no server has it loaded"));
}

INSTANTIATE_TEST_SUITE_P(Storages, LiveCodesTest, ::testing::Values(ScalarType::kF16, ScalarType::kI8),
                         [](const auto& one) { return std::string(Name(one.param)); });

}  // namespace
}  // namespace maxsim::collection
