// Builds that deal documents out to partitions.
#include <sys/resource.h>

#include <string>
#include <tuple>
#include <vector>

#include "collection/formats/safetensors.h"
#include "collection/inspection/inspect.h"
#include "tests/unit/collection/partition/partition_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PartitionBuildTest : public ::testing::TestWithParam<
                               std::tuple<ScalarType, IdType, bool, int32_t /*count*/, int64_t /*shard bytes*/>> {
 protected:
  BuildOptions Options(const std::string& name) const {
    return {.folder = folder_.Path(name),
            .name = "cut",
            .storage = std::get<0>(GetParam()),
            .rotation_seed = std::get<0>(GetParam()) == ScalarType::kI8 ? uint64_t{5} : 0,
            .num_threads = 2,
            .max_shard_bytes = std::get<4>(GetParam())};
  }

  TemporaryFolder folder_;
};

TEST_P(PartitionBuildTest, EachDocumentIsInThePartitionOfItsSlotAsTheWholeHasIt) {
  const auto [storage, id_type, has_payloads, count, shard_bytes] = GetParam();
  const SmallCollection documents = ManyDocuments(300, id_type, has_payloads);
  const auto whole = BuildSmall(documents, Options("whole"));
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::vector<StoredDocument> expected = ReadDocuments(folder_.Path("whole"));
  ASSERT_EQ(expected.size(), 300);
  const auto parts = BuildParts(documents, Options("parts"), count);
  ASSERT_TRUE(parts.ok()) << parts.status();
  ASSERT_EQ(parts->size(), static_cast<size_t>(count));
  for (int32_t index = 0; index < count; ++index) {
    const std::string folder = folder_.Path(Cat("parts/partition-", index, "-of-", count));
    const auto manifest = ReadManifest(folder);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(FormatManifest(*manifest), FormatManifest((*parts)[static_cast<size_t>(index)]));
    EXPECT_EQ(manifest->name, "cut");
    EXPECT_EQ(manifest->generation, 1);
    EXPECT_EQ(manifest->has_payloads, has_payloads);
    EXPECT_EQ(manifest->partition, PartitionOf(index, count));
    EXPECT_EQ(ReadDocuments(folder), OfSlots(expected, PartitionOf(index, count))) << index;
  }
}

TEST_P(PartitionBuildTest, TheFilesHaveTheBytesOfAWholeCollectionThatIsSplit) {
  const auto [storage, id_type, has_payloads, count, shard_bytes] = GetParam();
  const SmallCollection documents = ManyDocuments(200, id_type, has_payloads);
  ASSERT_TRUE(BuildSmall(documents, Options("whole")).ok());
  const auto parts = BuildParts(documents, Options("parts"), count);
  ASSERT_TRUE(parts.ok()) << parts.status();
  const auto split =
      SplitCollection(folder_.Path("whole"), count, {.output = folder_.Path("split"), .max_shard_bytes = shard_bytes});
  ASSERT_TRUE(split.ok()) << split.status();
  for (size_t index = 0; index < parts->size(); ++index) {
    EXPECT_EQ(Checksums((*split)[index]), Checksums((*parts)[index])) << index;
    EXPECT_EQ((*split)[index].partition, (*parts)[index].partition);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PartitionBuildTest,
                         ::testing::Combine(::testing::ValuesIn(PartitionedTypes()),
                                            ::testing::Values(IdType::kString, IdType::kInt64), ::testing::Bool(),
                                            ::testing::Values(3), ::testing::Values(int64_t{1} << 30)));
// The limits of the shard size are small, so that a shard of one partition is complete while shards of others are half
// full.
INSTANTIATE_TEST_SUITE_P(Shapes, PartitionBuildTest,
                         ::testing::Combine(::testing::Values(ScalarType::kF32), ::testing::Values(IdType::kString),
                                            ::testing::Values(true),
                                            ::testing::ValuesIn(test::kSanitized ? std::vector<int32_t>{2, 7}
                                                                                 : std::vector<int32_t>{2, 7, 64}),
                                            ::testing::Values(kMinMaxShardBytes, int64_t{20'000})));

class PartitionFoldersTest : public ::testing::Test {
 protected:
  BuildOptions Options() const { return {.folder = folder_.Path("parts"), .name = "cut"}; }
  std::string Part(int32_t index, int32_t count) const {
    return PartitionFolderName(folder_.Path("parts"), SlotRange(), index, count);
  }

  TemporaryFolder folder_;
  const SmallCollection documents_ = ManyDocuments(50, IdType::kString, true);
};

TEST_F(PartitionFoldersTest, APartitionWithoutDocumentsHasAManifestAndNoShard) {
  const auto parts = BuildParts(ManyDocuments(3, IdType::kInt64, true), Options(), 64);
  ASSERT_TRUE(parts.ok()) << parts.status();
  int num_empty = 0;
  for (int32_t index = 0; index < 64; ++index) {
    const auto manifest = ReadManifest(Part(index, 64));
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_TRUE(manifest->has_payloads);
    if (!manifest->shards.empty()) continue;
    ++num_empty;
    EXPECT_EQ(manifest->num_documents, 0);
    EXPECT_THAT(FilesIn(Part(index, 64)), ElementsAre("collection.json"));
    EXPECT_EQ(VerifyCollection(Part(index, 64))->num_problems, 0);
    const auto summary = Inspect(Part(index, 64));
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_THAT(FormatTable(*summary), HasSubstr(Cat("partition     slots ", index * 64, " .. ", index * 64 + 63)));
  }
  EXPECT_GE(num_empty, 61);
}

TEST_F(PartitionFoldersTest, AllShardsAreCompleteBeforeTheFirstManifestIsThere) {
  bool looked = false;
  const auto parts = BuildParts(documents_, Options(), 4, [&](const BuildProgress& progress) {
    const bool publishes = progress.stage == BuildProgress::Stage::kPublishing;
    looked |= publishes;
    for (int32_t index = 0; index < 4; ++index) {
      const std::vector<std::string> files = FilesIn(Part(index, 4));
      EXPECT_THAT(files, ::testing::Not(::testing::Contains("collection.json")))
          << (progress.stage == BuildProgress::Stage::kPublished);
      if (publishes) {
        EXPECT_THAT(files, ElementsAre(".maxsim-build.lock", "shard-000001-00000.safetensors"));
      }
    }
    return publishes ? absl::CancelledError("enough") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsCancelled(parts.status())) << parts.status();
  EXPECT_TRUE(looked);
}

TEST_F(PartitionFoldersTest, ABuildThatFailsAnywhereLeavesNoFolderThatItMade) {
  int64_t calls = 0;
  const auto count_calls = [&](const BuildProgress&) {
    ++calls;
    return absl::OkStatus();
  };
  BuildOptions options = Options();
  options.max_shard_bytes = kMinMaxShardBytes;
  options.folder = folder_.Path("counted/deep");
  ASSERT_TRUE(BuildParts(documents_, options, 5, count_calls).ok());
  const int64_t all_calls = calls;
  ASSERT_GT(all_calls, 6);
  options.folder = folder_.Path("failed/deep");
  for (int64_t last = 1; last < all_calls; ++last) {  // The last call reports that everything is published.
    calls = 0;
    const auto parts = BuildParts(documents_, options, 5, [&](const BuildProgress&) {
      return ++calls == last ? absl::CancelledError("enough") : absl::OkStatus();
    });
    ASSERT_TRUE(absl::IsCancelled(parts.status())) << parts.status();
    ASSERT_FALSE(std::filesystem::exists(folder_.Path("failed"))) << last;
  }
}

TEST_F(PartitionFoldersTest, TheNextGenerationFollowsTheNewestOfAllFolders) {
  ASSERT_TRUE(BuildParts(documents_, Options(), 2).ok());
  // One of them went on alone.
  Manifest manifest = *ReadManifest(Part(1, 2));
  manifest.generation = 7;
  ASSERT_TRUE(PublishManifest(manifest, Part(1, 2)).ok());
  BuildOptions options = Options();
  options.name = "";
  const auto parts = BuildParts(documents_, options, 2);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ((*parts)[0].generation, 8);
  EXPECT_EQ((*parts)[1].generation, 8);
  EXPECT_EQ((*parts)[0].name, "cut") << "that of what is there";
  EXPECT_EQ(ReadDocuments(Part(0, 2)).size() + ReadDocuments(Part(1, 2)).size(), 50);
}

TEST_F(PartitionFoldersTest, TheNameIsThatOfTheOutputWhereNoneIsGiven) {
  BuildOptions options = Options();
  options.name = "";
  const auto parts = BuildParts(documents_, options, 2);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ((*parts)[1].name, "parts");
}

TEST_F(PartitionFoldersTest, AFolderOfOtherSlotsIsRefusedAndLeftAlone) {
  ASSERT_TRUE(BuildParts(documents_, Options(), 2).ok());
  std::filesystem::rename(Part(1, 2), Part(1, 3));
  const std::string before = ReadBytes(JoinPath(Part(1, 3), kManifestFileName));
  const auto parts = BuildParts(documents_, Options(), 3);
  EXPECT_TRUE(absl::IsFailedPrecondition(parts.status())) << parts.status();
  EXPECT_THAT(std::string(parts.status().message()),
              HasSubstr("there has slots 2048 .. 4095, but this build has slots 1365 .. 2729"));
  EXPECT_EQ(ReadBytes(JoinPath(Part(1, 3), kManifestFileName)), before);
  // A whole collection cannot replace a partition, and a partition cannot replace a whole collection.
  BuildOptions whole = Options();
  whole.folder = Part(0, 2);
  EXPECT_THAT(std::string(BuildSmall(documents_, whole).status().message()),
              HasSubstr("there has slots 0 .. 2047, but this build has all slots"));
}

TEST_F(PartitionFoldersTest, RangesThatOverlapAndDocumentsOfNoRangeAreRefused) {
  const std::vector<float> values = documents_.Values();
  const auto build = [&](const std::vector<PartitionFolder>& folders) {
    MemoryTokens tokens(ElementType::kF32, documents_.dim, documents_.num_tokens(), values.data());
    MemoryPayloads payloads(documents_.payloads);
    return BuildPartitions(Options(), folders, *documents_.MakeCatalog(), tokens, &payloads).status();
  };
  const std::string a = folder_.Path("parts/a");
  const std::string b = folder_.Path("parts/b");
  EXPECT_THAT(std::string(build({{a, {0, 3000}}, {b, {2999, 4096}}}).message()),
              HasSubstr("a and " + b + " both have slot 2999"));
  const absl::Status status = build({{a, {0, 2000}}, {b, {3000, 4096}}});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("which is in none of the partitions"));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("parts")));
}

TEST_F(PartitionFoldersTest, MorePartitionsThanFilesMayBeOpenAreRefusedBeforeAnythingIsWritten) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto parts = BuildParts(documents_, Options(), 19);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(parts.status())) << parts.status();
  EXPECT_THAT(std::string(parts.status().message()), HasSubstr("with up to 102 files open"));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("parts")));
}

// Damages the shards of a partition. The verifier must find each damage.
class PartitionDamageTest : public PartitionFoldersTest {
 protected:
  void SetUp() override {
    BuildOptions options = Options();
    options.max_shard_bytes = kMinMaxShardBytes;
    ASSERT_TRUE(BuildParts(documents_, options, 2).ok());
    manifest_ = *ReadManifest(Part(0, 2));
    ASSERT_GE(manifest_.shards.size(), 2);
  }

  // Overwrites an ordinal in a shard and corrects the checksum in the manifest, so that the verifier finds a wrong
  // ordinal and not a wrong checksum.
  void SetOrdinal(size_t shard, int64_t idx, int64_t value) {
    const std::string path = JoinPath(Part(0, 2), manifest_.shards[shard].file);
    std::string file = ReadBytes(path);
    const auto header = ParseSafetensorsHeader(file, static_cast<int64_t>(file.size()));
    ASSERT_TRUE(header.ok());
    const SafetensorsTensor* tensor = header->Find("ordinals");
    ASSERT_NE(tensor, nullptr);
    file.replace(static_cast<size_t>(tensor->begin + 8 * idx), 8, AsBytes<int64_t>({value}));
    WriteBytes(path, file);
    Checksum checksum;
    checksum.Update(file.data(), file.size());
    manifest_.shards[shard].checksum = checksum.Format();
    ASSERT_TRUE(PublishManifest(manifest_, Part(0, 2)).ok());
  }
  std::string Problems() {
    const auto report = VerifyCollection(Part(0, 2));
    std::string text;
    for (const std::string& problem : report->problems) text += problem + "\n";
    return text;
  }

  Manifest manifest_;
};

TEST_F(PartitionDamageTest, OrdinalsThatDoNotAscendInAShardAreFound) {
  SetOrdinal(0, 1, -1);
  EXPECT_THAT(Problems(), HasSubstr("ordinals[1]: -1 is not in "));
  SetOrdinal(0, 1, (int64_t{1} << 40) + (int64_t{1} << 53));
  EXPECT_THAT(Problems(), HasSubstr("ordinals[1]: 9008298766368768 is not in "));
}

TEST_F(PartitionDamageTest, OrdinalsThatDoNotAscendFromShardToShardAreFound) {
  SetOrdinal(1, 0, 0);
  EXPECT_THAT(Problems(), HasSubstr("shard-000001-00001.safetensors: ordinals[0]: 0 is not above "));
}

TEST_F(PartitionDamageTest, DocumentsOfOtherSlotsAreFound) {
  manifest_.partition->end = 1000;
  ASSERT_TRUE(PublishManifest(manifest_, Part(0, 2)).ok());
  EXPECT_THAT(Problems(), HasSubstr(", but the partition has slots 0 .. 999"));
}

TEST_F(PartitionDamageTest, ShardsOfAPartitionAreNotThoseOfAWholeCollection) {
  manifest_.partition.reset();
  ASSERT_TRUE(PublishManifest(manifest_, Part(0, 2)).ok());
  EXPECT_THAT(Problems(), HasSubstr("ordinals: present, but the manifest says that the collection is whole"));
  TemporaryFolder whole;
  ASSERT_TRUE(BuildSmall(documents_, {.folder = whole.path(), .name = "x"}).ok());
  Manifest manifest = *ReadManifest(whole.path());
  manifest.partition = SlotRange{0, 7};
  ASSERT_TRUE(PublishManifest(manifest, whole.path()).ok());
  EXPECT_THAT(VerifyCollection(whole.path())->problems.front(),
              HasSubstr("ordinals: absent, but the manifest says that the collection is a partition"));
}

}  // namespace
}  // namespace maxsim::collection
