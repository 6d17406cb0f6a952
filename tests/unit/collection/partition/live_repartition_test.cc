// Tests live partitions: the positions of documents after compactions, and live collections that are split and merged.
#include <string>
#include <vector>

#include "collection/compact/compact.h"
#include "collection/compact/create.h"
#include "collection/log/collection_log.h"
#include "collection/partition/repartition.h"
#include "collection/positions.h"
#include "tests/unit/collection/partition/partition_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<CollectionLog> OpenLog(const std::string& folder,
                                       CollectionLog::Mode mode = CollectionLog::Mode::kMustExist) {
  auto log = CollectionLog::Open(folder, LogFormat::Of(*ReadManifest(folder)), mode);
  EXPECT_TRUE(log.ok()) << log.status();
  return log.ok() ? *std::move(log) : nullptr;
}

// Appends to the log a write of document `id` with two F16 tokens, or a delete of it.
void WriteTo(CollectionLog& log, const std::string& id, bool deletes = false) {
  const std::string rows(2 * 16, '\1');
  LogRecord record{.sequence = log.last_sequence() + 1, .string_id = id};
  if (deletes) {
    record.kind = LogRecord::Kind::kDelete;
  } else {
    record.num_tokens = 2;
    record.rows = rows;
    record.payload = "{\"w\":1}";
  }
  ASSERT_TRUE(log.Append({record}).ok());
}

Manifest CompactAll(const std::string& folder, CollectionLog& log) {
  const auto result = Compact(folder, log, log.last_sequence(), {.max_tombstone_share = 0});
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? result->manifest : Manifest();
}

// Returns the first `count` ids of "written-0", "written-1", ... whose slots are in a range.
std::vector<std::string> IdsOf(const SlotRange& slots, size_t count) {
  std::vector<std::string> ids;
  for (int n = 0; ids.size() < count; ++n) {
    if (slots.contains(SlotOf(Cat("written-", n)))) ids.push_back(Cat("written-", n));
  }
  return ids;
}

std::vector<std::string> IdsAndPositions(const std::string& folder) {
  std::vector<std::string> all;
  for (const StoredDocument& document : ReadDocuments(folder)) all.push_back(Cat(document.id, "@", document.position));
  return all;
}

std::string At(const std::string& id, uint64_t sequence) { return Cat(id, "@", PositionOfWrite(sequence)); }

TEST(PartitionCompactionTest, DocumentsKeepTheirPositionsAndWritesGetTheirsBehindThem) {
  TemporaryFolder folder;
  ASSERT_TRUE(BuildParts(ManyDocuments(40, IdType::kString, true), {.folder = folder.path(), .name = "cut"}, 4).ok());
  const std::string part = folder.Path("partition-1-of-4");
  const std::unique_ptr<CollectionLog> log = OpenLog(part, CollectionLog::Mode::kCreate);
  {
    Manifest manifest = *ReadManifest(part);
    manifest.log_sequence = 0;
    ASSERT_TRUE(PublishManifest(manifest, part).ok());
  }
  std::vector<std::string> expected = IdsAndPositions(part);
  ASSERT_GE(expected.size(), 4);
  const std::vector<StoredDocument> cut = ReadDocuments(part);
  const std::vector<std::string> ids = IdsOf(PartitionOf(1, 4), 3);

  WriteTo(*log, ids[0]);           // 1
  WriteTo(*log, ids[1]);           // 2
  WriteTo(*log, cut[1].id);        // 3 replaces a document that was cut
  WriteTo(*log, cut[0].id, true);  // 4
  expected.erase(expected.begin(), expected.begin() + 2);
  std::vector<std::string> after = expected;
  for (const std::string& one : {At(ids[0], 1), At(ids[1], 2), At(cut[1].id, 3)}) after.push_back(one);
  EXPECT_EQ(CompactAll(part, *log).partition, PartitionOf(1, 4));
  EXPECT_EQ(IdsAndPositions(part), after);

  WriteTo(*log, ids[0]);        // 5 replaces a write
  WriteTo(*log, ids[2]);        // 6
  WriteTo(*log, ids[2], true);  // 7
  WriteTo(*log, ids[2]);        // 8
  CompactAll(part, *log);
  after = expected;
  for (const std::string& one : {At(ids[1], 2), At(cut[1].id, 3), At(ids[0], 5), At(ids[2], 8)}) after.push_back(one);
  EXPECT_EQ(IdsAndPositions(part), after);
}

class LiveRepartitionTest : public ::testing::Test {
 protected:
  // Makes the two halves of a live collection, and writes `count` documents to each.
  void MakeHalves(size_t count) {
    for (int32_t index = 0; index < 2; ++index) {
      const auto made =
          CreateLiveCollection(Half(index), {.name = "live", .dim = 8, .partition = PartitionOf(index, 2)});
      ASSERT_TRUE(made.ok()) << made.status();
      const std::unique_ptr<CollectionLog> log = OpenLog(Half(index));
      for (const std::string& id : IdsOf(PartitionOf(index, 2), count)) WriteTo(*log, id);
      CompactAll(Half(index), *log);
    }
  }
  std::string Half(int32_t index) const { return folder_.Path(Cat("half-", index)); }

  TemporaryFolder folder_;
};

TEST_F(LiveRepartitionTest, ALogWithWritesIsRefusedAndSaysWhatToDo) {
  MakeHalves(2);
  {
    const std::unique_ptr<CollectionLog> log = OpenLog(Half(0));
    WriteTo(*log, IdsOf(PartitionOf(0, 2), 3).back());
  }
  const absl::Status split = SplitCollection(Half(0), 2, {.output = folder_.Path("out")}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(split)) << split;
  EXPECT_THAT(
      std::string(split.message()),
      HasSubstr("its log has writes up to sequence 3, but its shards hold those up to 2; maxsim-shard compact"));
  const absl::Status merge = MergeCollections({Half(0), Half(1)}, {.output = folder_.Path("out")}).status();
  EXPECT_THAT(std::string(merge.message()), HasSubstr("maxsim-shard compact"));
  {
    const std::unique_ptr<CollectionLog> log = OpenLog(Half(0));
    CompactAll(Half(0), *log);
  }
  EXPECT_TRUE(SplitCollection(Half(0), 2, {.output = folder_.Path("out")}).ok());
}

TEST_F(LiveRepartitionTest, ACollectionThatAServerHasLoadedIsRefused) {
  MakeHalves(1);
  const std::unique_ptr<CollectionLog> log = OpenLog(Half(0));
  const absl::Status split = SplitCollection(Half(0), 2, {.output = folder_.Path("out")}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(split)) << split;
  EXPECT_THAT(std::string(split.message()), HasSubstr("while no server has it loaded"));
}

TEST_F(LiveRepartitionTest, ACollectionWhoseLogIsMissingIsRefused) {
  MakeHalves(1);
  std::filesystem::remove_all(JoinPath(Half(0), kLogFolderName));
  const absl::Status split = SplitCollection(Half(0), 2, {.output = folder_.Path("out")}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(split)) << split;
  EXPECT_THAT(std::string(split.message()), HasSubstr("the folder log is missing"));
}

TEST_F(LiveRepartitionTest, APartOfALivePartitionIsLiveAndItsWritesComeBehindAllOthers) {
  MakeHalves(4);
  const std::vector<std::string> before = IdsAndPositions(Half(1));
  ASSERT_EQ(before.size(), 4);
  const auto parts = SplitCollection(Half(1), 2, {.output = folder_.Path("parts")});
  ASSERT_TRUE(parts.ok()) << parts.status();
  const SlotRange slots = {2048, 3072};
  const std::string part = folder_.Path("parts/slots-2048-3071");
  std::vector<std::string> expected;
  for (size_t idx = 0; idx < before.size(); ++idx) {
    const std::string id = IdsOf(PartitionOf(1, 2), 4)[idx];
    if (slots.contains(SlotOf(id))) expected.push_back(At(id, idx + 1));
  }
  EXPECT_EQ(IdsAndPositions(part), expected);
  EXPECT_EQ(ReadManifest(part)->log_sequence, 4);
  const std::unique_ptr<CollectionLog> log = OpenLog(part);
  EXPECT_EQ(log->last_sequence(), 4);
  const std::string added = IdsOf(slots, 9).back();
  WriteTo(*log, added);
  CompactAll(part, *log);
  expected.push_back(At(added, 5));
  EXPECT_EQ(IdsAndPositions(part), expected);
}

TEST_F(LiveRepartitionTest, PartitionsWrittenApartBecomeTheWholeInTheOrderOfPositionsAndSlots) {
  MakeHalves(2);
  {
    const std::unique_ptr<CollectionLog> log = OpenLog(Half(1));
    WriteTo(*log, IdsOf(PartitionOf(1, 2), 3).back());
    CompactAll(Half(1), *log);  // The generations differ now.
  }
  // Each log numbers its own writes, so documents of the two logs may have equal positions. The merge orders those by
  // slot.
  const auto whole = MergeCollections({Half(1), Half(0)}, {.output = folder_.Path("whole")});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->partition, std::nullopt);
  EXPECT_EQ(whole->generation, 3);
  EXPECT_EQ(whole->log_sequence, 3);
  const std::vector<std::string> low = IdsOf(PartitionOf(0, 2), 2);
  const std::vector<std::string> high = IdsOf(PartitionOf(1, 2), 3);
  EXPECT_THAT(IdsAndPositions(folder_.Path("whole")),
              ElementsAre(low[0] + "@0", high[0] + "@1", low[1] + "@2", high[1] + "@3", high[2] + "@4"));
  EXPECT_EQ(OpenLog(folder_.Path("whole"))->last_sequence(), 3);
}

TEST_F(LiveRepartitionTest, PartitionsWrittenApartDoNotBecomeALargerPartition) {
  for (int32_t index = 0; index < 2; ++index) {
    ASSERT_TRUE(CreateLiveCollection(Half(index), {.name = "live", .dim = 8, .partition = PartitionOf(index, 3)}).ok());
    const std::unique_ptr<CollectionLog> log = OpenLog(Half(index));
    WriteTo(*log, IdsOf(PartitionOf(index, 3), 1).front());
    CompactAll(Half(index), *log);
  }
  const absl::Status status = MergeCollections({Half(0), Half(1)}, {.output = folder_.Path("out")}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("has position 1099511627777, as one of another partition has"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("merge all partitions into a whole collection, and split that"));
}

}  // namespace
}  // namespace maxsim::collection
