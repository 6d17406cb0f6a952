// Tests collections that are split into partitions, and partitions that are merged.
#include "collection/partition/repartition.h"

#include <string>
#include <tuple>
#include <vector>

#include "collection/build/quantize.h"
#include "tests/unit/collection/partition/partition_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RepartitionRoundTripTest : public ::testing::TestWithParam<std::tuple<ScalarType, IdType, bool>> {};

TEST_P(RepartitionRoundTripTest, WhatIsSplitAndMergedHasTheSameBytes) {
  const auto [storage, id_type, has_payloads] = GetParam();
  TemporaryFolder folder;
  BuildOptions options{.folder = folder.Path("whole"),
                       .name = "cut",
                       .storage = storage,
                       .rotation_seed = storage == ScalarType::kI8 ? uint64_t{9} : 0,
                       .max_shard_bytes = 16'000,
                       .encoder = EncoderIdentity{.model = "m", .dim = 8}};
  const SmallCollection documents = ManyDocuments(250, id_type, has_payloads);
  ASSERT_TRUE(BuildSmall(documents, options).ok());
  const auto whole = BuildSmall(documents, options);  // generation 2
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_GE(whole->shards.size(), 2);
  const std::vector<StoredDocument> expected = ReadDocuments(options.folder);
  for (const int32_t count : {2, 3, 17}) {
    const std::string output = folder.Path(Cat("into-", count));
    const auto parts = SplitCollection(options.folder, count, {.output = output, .max_shard_bytes = 9'000});
    ASSERT_TRUE(parts.ok()) << parts.status();
    std::vector<std::string> folders = FoldersOf(PartitionFolders(output, SlotRange(), count));
    for (size_t index = 0; index < folders.size(); ++index) {
      const SlotRange slots = PartitionOf(static_cast<int32_t>(index), count);
      EXPECT_EQ((*parts)[index].partition, slots);
      EXPECT_EQ((*parts)[index].generation, 2);
      EXPECT_EQ((*parts)[index].encoder, whole->encoder);
      EXPECT_EQ(ReadDocuments(folders[index]), OfSlots(expected, slots));
    }
    std::reverse(folders.begin(), folders.end());  // They are given in any order.
    const auto merged =
        MergeCollections(folders, {.output = folder.Path(Cat("of-", count)), .max_shard_bytes = 16'000});
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_EQ(Checksums(*merged), Checksums(*whole));
    EXPECT_EQ(merged->partition, std::nullopt);
    EXPECT_EQ(merged->generation, 2);
    EXPECT_EQ(merged->encoder, whole->encoder);
    EXPECT_EQ(merged->log_sequence, std::nullopt);
    EXPECT_EQ(ReadDocuments(folder.Path(Cat("of-", count))), expected);
  }
}

TEST_P(RepartitionRoundTripTest, PartitionsAreCutFurtherAndNeighboursAreMerged) {
  const auto [storage, id_type, has_payloads] = GetParam();
  TemporaryFolder folder;
  const BuildOptions options{.folder = folder.Path("whole"), .name = "cut", .storage = storage};
  ASSERT_TRUE(BuildSmall(ManyDocuments(150, id_type, has_payloads), options).ok());
  const std::vector<StoredDocument> expected = ReadDocuments(options.folder);
  ASSERT_TRUE(SplitCollection(options.folder, 4, {.output = folder.Path("four")}).ok());
  const auto quarter = [&](int32_t index) { return PartitionFolderName(folder.Path("four"), SlotRange(), index, 4); };

  const auto thirds = SplitCollection(quarter(1), 3, {.output = folder.Path("thirds")});
  ASSERT_TRUE(thirds.ok()) << thirds.status();
  EXPECT_EQ(ReadDocuments(folder.Path("thirds/slots-1024-1364")), OfSlots(expected, {1024, 1365}));
  EXPECT_EQ(ReadDocuments(folder.Path("thirds/slots-1365-1705")), OfSlots(expected, {1365, 1706}));
  EXPECT_EQ(ReadDocuments(folder.Path("thirds/slots-1706-2047")), OfSlots(expected, {1706, 2048}));

  const auto middle = MergeCollections({quarter(2), quarter(1)}, {.output = folder.Path("middle")});
  ASSERT_TRUE(middle.ok()) << middle.status();
  EXPECT_EQ(middle->partition, (SlotRange{1024, 3072}));
  EXPECT_EQ(ReadDocuments(folder.Path("middle")), OfSlots(expected, {1024, 3072}));

  // Pieces of different sizes are the whole again.
  const auto whole =
      MergeCollections({folder.Path("thirds/slots-1706-2047"), quarter(0), quarter(3),
                        folder.Path("thirds/slots-1024-1364"), quarter(2), folder.Path("thirds/slots-1365-1705")},
                       {.output = folder.Path("again")});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(Checksums(*whole), Checksums(*ReadManifest(options.folder)));
}

INSTANTIATE_TEST_SUITE_P(All, RepartitionRoundTripTest,
                         ::testing::Combine(::testing::ValuesIn(PartitionedTypes()),
                                            ::testing::Values(IdType::kString, IdType::kInt64), ::testing::Bool()));

class RepartitionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(BuildSmall(documents_, {.folder = Whole(), .name = "cut"}).ok());
    ASSERT_TRUE(SplitCollection(Whole(), 4, {.output = folder_.Path("four")}).ok());
  }
  std::string Whole() const { return folder_.Path("whole"); }
  std::string Quarter(int32_t index) const { return PartitionFolderName(folder_.Path("four"), SlotRange(), index, 4); }
  absl::Status Merge(const std::vector<std::string>& folders) {
    return MergeCollections(folders, {.output = folder_.Path("merged")}).status();
  }
  // Changes the manifest of the second quarter, tries to merge it with the first, and restores the manifest. Returns
  // the merge's error message.
  std::string MergeChanged(const std::function<void(Manifest&)>& change) {
    const Manifest before = *ReadManifest(Quarter(1));
    Manifest manifest = before;
    change(manifest);
    EXPECT_TRUE(PublishManifest(manifest, Quarter(1)).ok());
    const absl::Status status = Merge({Quarter(0), Quarter(1)});
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_TRUE(PublishManifest(before, Quarter(1)).ok());
    return std::string(status.message());
  }

  TemporaryFolder folder_;
  const SmallCollection documents_ = ManyDocuments(60, IdType::kString, true);
};

TEST_F(RepartitionTest, PartitionsThatDoNotAdjoinOrOverlapAreRefused) {
  absl::Status status = Merge({Quarter(3), Quarter(0)});
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(Quarter(0) + " has slots 0 .. 1023"), HasSubstr(Quarter(3) + " has slots 3072 .. 4095"),
                    HasSubstr("slots 1024 .. 3071 are missing between them")));
  EXPECT_THAT(std::string(Merge({Quarter(1), Quarter(1)}).message()), HasSubstr("they overlap"));
  EXPECT_THAT(MergeChanged([](Manifest& manifest) {
                manifest.partition = SlotRange{1000, 2048};
              }),
              HasSubstr("they overlap"));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("merged")));
}

TEST_F(RepartitionTest, PartitionsOfDifferentCollectionsAreRefused) {
  const std::string both = Cat(": ", Quarter(0), " has ");
  EXPECT_THAT(MergeChanged([](Manifest& manifest) { manifest.name = "other"; }), HasSubstr("name" + both + "\"cut\""));
  EXPECT_THAT(MergeChanged([](Manifest& manifest) { manifest.generation = 2; }), HasSubstr("generation" + both + "1"));
  EXPECT_THAT(MergeChanged([](Manifest& manifest) { manifest.dim = 9; }), HasSubstr("dimension" + both + "8"));
  EXPECT_THAT(MergeChanged([](Manifest& manifest) { manifest.storage = ScalarType::kF32; }),
              HasSubstr("storage" + both + "f16"));
  EXPECT_THAT(MergeChanged([](Manifest& manifest) { manifest.id_type = IdType::kInt64; }),
              HasSubstr("type of ids" + both + "string"));
  EXPECT_THAT(MergeChanged([](Manifest& manifest) { manifest.has_payloads = false; }),
              HasSubstr("payloads" + both + "some"));
  EXPECT_THAT(MergeChanged([](Manifest& manifest) { manifest.encoder = EncoderIdentity{.model = "m", .dim = 8}; }),
              HasSubstr("encoder" + both + "none"));
  TemporaryFolder rotated;
  for (const uint64_t seed : {1, 2}) {
    const std::string whole = rotated.Path(Cat("whole-", seed));
    ASSERT_TRUE(
        BuildSmall(documents_, {.folder = whole, .name = "cut", .storage = ScalarType::kI8, .rotation_seed = seed})
            .ok());
    ASSERT_TRUE(SplitCollection(whole, 2, {.output = rotated.Path(Cat("parts-", seed))}).ok());
  }
  EXPECT_THAT(
      std::string(
          Merge({rotated.Path("parts-1/partition-0-of-2"), rotated.Path("parts-2/partition-1-of-2")}).message()),
      HasSubstr("rotation seed: "));
}

TEST_F(RepartitionTest, WholeCollectionsAndSingleFoldersAreNotMerged) {
  EXPECT_TRUE(absl::IsInvalidArgument(Merge({Quarter(0)})));
  const absl::Status status = Merge({Quarter(0), Whole()});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(Whole() + ": is a whole collection"));
  EXPECT_TRUE(absl::IsNotFound(Merge({Quarter(0), folder_.Path("nowhere")})));
}

TEST_F(RepartitionTest, NoCollectionIsCutIntoMorePartitionsThanItHasSlots) {
  const auto status = [&](const std::string& folder, int32_t count) {
    return SplitCollection(folder, count, {.output = folder_.Path("new")}).status();
  };
  EXPECT_THAT(std::string(status(Quarter(0), 1025).message()),
              HasSubstr("which has slots 0 .. 1023, can be cut into 2 .. 1024"));
  EXPECT_TRUE(absl::IsInvalidArgument(status(Quarter(0), 1)));
  EXPECT_TRUE(absl::IsInvalidArgument(status(Quarter(0), -1)));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("new")));
}

TEST_F(RepartitionTest, ASourceIsNotItsOwnTarget) {
  std::filesystem::create_directories(folder_.Path("four"));
  const absl::Status status = MergeCollections({Quarter(0), Quarter(1)}, {.output = Quarter(1)}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the target is a source"));
}

TEST_F(RepartitionTest, EmptyPartitionsAreCutAndMerged) {
  ASSERT_TRUE(
      BuildParts(ManyDocuments(2, IdType::kString, true), {.folder = folder_.Path("few"), .name = "few"}, 64).ok());
  std::vector<std::string> folders = FoldersOf(PartitionFolders(folder_.Path("few"), SlotRange(), 64));
  size_t empty = 0;
  while (!ReadManifest(folders[empty])->shards.empty()) ++empty;
  const auto halves = SplitCollection(folders[empty], 2, {.output = folder_.Path("halves")});
  ASSERT_TRUE(halves.ok()) << halves.status();
  EXPECT_TRUE((*halves)[0].shards.empty());
  EXPECT_TRUE((*halves)[0].has_payloads) << "the collection has some";
  const std::vector<std::string> both =
      FoldersOf(PartitionFolders(folder_.Path("halves"), *ReadManifest(folders[empty])->partition, 2));
  const auto merged = MergeCollections(both, {.output = folder_.Path("merged")});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->partition, ReadManifest(folders[empty])->partition);
  folders[empty] = folder_.Path("merged");
  const auto whole = MergeCollections(folders, {.output = folder_.Path("few-again")});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(ReadDocuments(folder_.Path("few-again")).size(), 2);
}

TEST_F(RepartitionTest, AByteThatIsWrongAnywhereInAShardIsFoundBeforeAnythingIsPublished) {
  const std::string path = JoinPath(Quarter(0), ReadManifest(Quarter(0))->shards.front().file);
  const std::string file = ReadBytes(path);
  const auto header_bytes = int64_t{4096};
  // Damages one byte at a time: a padding byte of the header, the first and the last byte of the tokens, and a byte of
  // a payload.
  const int64_t token_bytes = ReadManifest(Quarter(0))->num_tokens * 16;
  for (const int64_t at :
       {header_bytes - 1, header_bytes, header_bytes + token_bytes - 1, static_cast<int64_t>(file.size()) - 4}) {
    std::string damaged = file;
    damaged[static_cast<size_t>(at)] = static_cast<char>(damaged[static_cast<size_t>(at)] ^ 1);
    WriteBytes(path, damaged);
    const absl::Status status = Merge({Quarter(0), Quarter(1)});
    EXPECT_TRUE(absl::IsDataLoss(status)) << at << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_TRUE(absl::IsDataLoss(SplitCollection(Quarter(0), 2, {.output = folder_.Path("merged")}).status())) << at;
    EXPECT_FALSE(std::filesystem::exists(folder_.Path("merged"))) << at;
  }
  WriteBytes(path, file);
  EXPECT_TRUE(Merge({Quarter(0), Quarter(1)}).ok());
}

TEST_F(RepartitionTest, ShardsThatAreOutOfOrderAreRefused) {
  ASSERT_TRUE(
      SplitCollection(Whole(), 2, {.output = folder_.Path("small"), .max_shard_bytes = kMinMaxShardBytes}).ok());
  const std::string half = folder_.Path("small/partition-0-of-2");
  Manifest manifest = *ReadManifest(half);
  ASSERT_GE(manifest.shards.size(), 2);
  std::swap(manifest.shards[0], manifest.shards[1]);
  ASSERT_TRUE(PublishManifest(manifest, half).ok());
  const absl::Status status = Merge({half, folder_.Path("small/partition-1-of-2")});
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ordinals[0]: "));
}

TEST_F(RepartitionTest, APartitionIsQuantizedAsThePartitionThatItIs) {
  const auto built =
      QuantizeCollection({.source = Quarter(2), .target = folder_.Path("i8"), .name = "", .rotation_seed = 3});
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->partition, PartitionOf(2, 4));
  const std::vector<StoredDocument> before = ReadDocuments(Quarter(2));
  const std::vector<StoredDocument> after = ReadDocuments(folder_.Path("i8"));
  ASSERT_EQ(after.size(), before.size());
  for (size_t idx = 0; idx < before.size(); ++idx) {
    EXPECT_EQ(after[idx].id, before[idx].id);
    EXPECT_EQ(after[idx].position, before[idx].position);
    EXPECT_EQ(after[idx].payload, before[idx].payload);
  }
}

}  // namespace
}  // namespace maxsim::collection
