// Tests live collections that are assembled from snapshots of servers: what they hold, and that they then apply further
// messages as those servers do.
#include "collection/partition/assemble.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collection/log/collection_log.h"
#include "collection/positions.h"
#include "tests/unit/collection/partition/assemble_fixture.h"

namespace maxsim::collection {
namespace {

// All slots except the last. A partition stores the positions of its documents, a whole collection does not.
constexpr SlotRange kNearlyAll = {0, kNumSlots - 1};

class AssembleModelTest : public AssembleTest, public ::testing::WithParamInterface<ScalarType> {};

// Servers with overlapping slots have applied one stream up to different messages. A collection is assembled from their
// snapshots and applies the remaining messages. It must equal a server that applied each message once.
TEST_P(AssembleModelTest, EndsLikeAServerThatAppliedEachMessageOnce) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    const std::string at = Path(Cat("world-", seed));
    std::filesystem::create_directory(at);
    const std::vector<StreamedWrite> writes = RandomWrites(500, 120, GetParam(), seed);
    FollowingServer all =
        FollowingServer::Create(JoinPath(at, "all"), kNearlyAll, OptionsWithCodesAndFields(GetParam()));
    all.Apply(writes, writes.size());
    all.CompactAll();
    const std::vector<StoredDocument> expected = ReadDocuments(all.folder());
    ASSERT_GT(expected.size(), 20);

    const std::vector<SlotRange> slots = {{0, 1500}, {1000, 2600}, {2500, 4000}};
    std::vector<std::string> copies;
    uint64_t lowest = writes.size();
    for (size_t idx = 0; idx < slots.size(); ++idx) {
      FollowingServer server =
          FollowingServer::Create(JoinPath(at, Cat("s", idx)), slots[idx], OptionsWithCodesAndFields(GetParam()));
      const uint64_t through = 250 + (seed * 97 + idx * 61) % 150;
      lowest = std::min(lowest, through);
      server.Apply(writes, 100 + 50 * idx);
      server.CompactAll(0.9);  // leaves tombstones
      server.Apply(writes, through);
      copies.push_back(server.SnapshotTo(JoinPath(at, Cat("copy-", idx))));
    }
    const SlotRange wanted = {200, 3900};
    const auto manifest = AssembleLive(copies, {.output = JoinPath(at, "out"), .slots = wanted});
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(manifest->partition, wanted);
    EXPECT_EQ(manifest->log_sequence, lowest);
    EXPECT_EQ(manifest->codes, ReadManifest(all.folder())->codes);
    EXPECT_EQ(manifest->fields, ReadManifest(all.folder())->fields);
    ReadDocuments(JoinPath(at, "out"));  // verifies the shards, codes and fields

    FollowingServer result(JoinPath(at, "out"));
    EXPECT_EQ(result.log().stream(), TestStream());
    EXPECT_EQ(result.log().first_sequence(), lowest);
    EXPECT_EQ(result.log().last_sequence(), lowest);
    // A compaction on the way must not find positions that do not ascend.
    result.Apply(writes, lowest + 40);
    result.CompactAll();
    result.Apply(writes, writes.size());
    result.CompactAll();
    EXPECT_EQ(ReadDocuments(result.folder()), OfSlots(expected, wanted));
    EXPECT_EQ(result.Versions(), all.Versions(wanted));
  }
}

TEST_P(AssembleModelTest, KeepsTheChosenSlotsOfOneServer) {
  const std::vector<StreamedWrite> writes = RandomWrites(400, 90, GetParam(), 5);
  FollowingServer server = FollowingServer::Create(Path("server"), kNearlyAll, OptionsWithCodesAndFields(GetParam()));
  server.Apply(writes, 300);
  server.CompactAll(0.9);
  server.Apply(writes, 350);
  const std::string copy = server.SnapshotTo(Path("copy"));
  const uint64_t deleted_bytes = server.log().deleted_bytes();
  ASSERT_GT(deleted_bytes, 0);
  const std::map<std::string, uint64_t> versions = server.Versions();
  server.CompactAll();
  const std::vector<StoredDocument> documents = ReadDocuments(server.folder());

  const SlotRange half = {2048, 4095};
  const auto manifest = AssembleLive({copy}, {.output = Path("out"), .slots = half, .created_by = "a test"});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->created_by, "a test");
  EXPECT_EQ(manifest->name, "live");
  EXPECT_EQ(manifest->log_sequence, 350);
  EXPECT_EQ(ReadDocuments(Path("out")), OfSlots(documents, half));
  FollowingServer result(Path("out"));
  EXPECT_EQ(result.log().first_sequence(), 350);
  EXPECT_EQ(result.log().last_sequence(), 350);
  EXPECT_EQ(result.log().deleted_bytes(), deleted_bytes);
  EXPECT_EQ(result.Versions(), VersionsOfSlots(versions, half)) << "and none of other slots";
  EXPECT_LT(result.Versions().size(), versions.size());
  const bool has_deleted = std::any_of(versions.begin(), versions.end(), [&](const auto& one) {
    return half.contains(SlotOf(one.first)) && result.held().count(one.first) == 0;
  });
  EXPECT_TRUE(has_deleted) << "the test needs versions of deleted ids";
}

INSTANTIATE_TEST_SUITE_P(Storages, AssembleModelTest, ::testing::Values(ScalarType::kF16, ScalarType::kI8),
                         [](const auto& one) { return std::string(Name(one.param)); });

TEST_F(AssembleTest, ASourceOfExactlyTheSlotsIsCopiedAsItIs) {
  const std::string copy = SnapshotOf("server", {100, 3000}, 350, TestStream(), 300);
  const Manifest before = *ReadManifest(copy);
  ASSERT_FALSE(before.shards.empty());
  const auto manifest = AssembleLive({copy}, {.output = Path("out"), .slots = {100, 3000}});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(Checksums(*manifest), Checksums(before));
  EXPECT_EQ(manifest->log_sequence, 300);
  for (const ShardEntry& shard : before.shards) {
    struct stat one = {};
    struct stat other = {};
    ASSERT_EQ(::stat(JoinPath(copy, shard.file).c_str(), &one), 0);
    ASSERT_EQ(::stat(JoinPath(Path("out"), shard.file).c_str(), &other), 0);
    EXPECT_EQ(one.st_ino, other.st_ino) << "a hard link";
  }
  FollowingServer server(Path("server"));
  FollowingServer result(Path("out"));
  EXPECT_EQ(result.log().last_sequence(), 350);
  EXPECT_EQ(result.held(), server.held());
  EXPECT_EQ(result.Versions(), server.Versions());
}

TEST_F(AssembleTest, AWholeCollectionIsCopiedNarrowedAndAssembledFromPartitions) {
  const std::string whole = SnapshotOf("whole", {}, 300, TestStream(), 200);
  ASSERT_TRUE(AssembleLive({whole}, {.output = Path("again"), .slots = {}}).ok());
  EXPECT_EQ(ReadManifest(Path("again"))->partition, std::nullopt);
  FollowingServer server(Path("whole"));
  server.CompactAll();
  const std::vector<StoredDocument> documents = ReadDocuments(Path("whole"));

  // The positions of a partition's documents are their numbers in the whole collection.
  const SlotRange slots = {1000, 4096};
  ASSERT_TRUE(AssembleLive({whole}, {.output = Path("part"), .slots = slots}).ok());
  EXPECT_EQ(ReadDocuments(Path("part")), OfSlots(documents, slots));
  ASSERT_TRUE(AssembleLive({SnapshotOf("low", {0, 1000}, 300), SnapshotOf("high", {900, 4096}, 300)},
                           {.output = Path("joined"), .slots = {}})
                  .ok());
  EXPECT_EQ(ReadManifest(Path("joined"))->partition, std::nullopt);
  EXPECT_EQ(ReadDocuments(Path("joined")), documents) << "in the order of their writes";
  FollowingServer joined(Path("joined"));
  EXPECT_EQ(joined.Versions(), server.Versions());
}

TEST_F(AssembleTest, TheOrderOfTheSourcesDoesNotMatter) {
  const std::string low = SnapshotOf("low", {0, 2000}, 300);
  const std::string high = SnapshotOf("high", {1800, 4000}, 330);
  std::vector<std::vector<std::string>> checksums;
  for (const bool swapped : {false, true}) {
    const std::string output = Path(Cat("out-", swapped));
    const auto manifest = AssembleLive(swapped ? std::vector{high, low} : std::vector{low, high},
                                       {.output = output, .slots = {10, 3990}});
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    checksums.push_back({});
    for (const ShardEntry& shard : manifest->shards) checksums.back().push_back(shard.checksum);
  }
  EXPECT_EQ(checksums[0], checksums[1]);
}

TEST_F(AssembleTest, DocumentsWrittenAfterTheLowestSequenceComeFromTheStream) {
  // The server of the high slots has applied more messages than the other. Documents that messages after 300 wrote must
  // not be taken from its snapshot.
  const std::string low = SnapshotOf("low", {0, 2048}, 300);
  const std::string high = SnapshotOf("high", {2048, 4096}, 400);
  ASSERT_TRUE(AssembleLive({low, high}, {.output = Path("out"), .slots = {1, 4096}}).ok());
  FollowingServer further(Path("high"));
  further.CompactAll();
  int num_later = 0;
  std::vector<std::string> found;
  for (const StoredDocument& document : ReadDocuments(Path("out"))) {
    EXPECT_LE(document.position, PositionOfWrite(300)) << document.id;
    found.push_back(document.id);
  }
  FollowingServer result(Path("out"));
  for (const StoredDocument& document : ReadDocuments(Path("high"))) {
    const bool is_later = document.position > PositionOfWrite(300);
    num_later += is_later;
    EXPECT_EQ(std::count(found.begin(), found.end(), document.id), is_later ? 0 : 1) << document.id;
    EXPECT_EQ(result.VersionOf(document.id), is_later ? 0 : further.VersionOf(document.id)) << document.id;
  }
  EXPECT_GT(num_later, 3);
}

TEST_F(AssembleTest, ADeletedIdKeepsItsAge) {
  // The logs forget the version of a delete once later deletes have taken more than 1,000 bytes.
  constexpr uint64_t kMemory = 1000;
  const auto make = [&](const std::string& name, const SlotRange& slots) {
    FollowingServer::Create(Path(name), slots, OptionsWithCodesAndFields()).Close();
    std::filesystem::remove_all(JoinPath(Path(name), kLogFolderName));
    EXPECT_TRUE(CollectionLog::Create(Path(name), LogFormat::Of(*ReadManifest(Path(name))),
                                      {.stream = TestStream(), .remembered_bytes = kMemory})
                    .ok());
    return FollowingServer(Path(name));
  };
  const auto delete_id = [](const std::string& id) { return StreamedWrite{.deletes = true, .id = id, .version = 9}; };
  // Returns ids that take 100 bytes each.
  const auto ids_of = [](const SlotRange& slots, size_t count) {
    std::vector<std::string> ids;
    for (int n = 100'000; ids.size() < count; ++n) {
      const std::string id = Cat(n, std::string(30, 'x'));
      if (slots.contains(SlotOf(id))) ids.push_back(id);
    }
    return ids;
  };
  const SlotRange low = {0, 2048};
  const SlotRange high = {2048, 4095};
  std::vector<StreamedWrite> writes;
  for (const std::string& id : ids_of(low, 14)) writes.push_back(delete_id(id));
  for (const std::string& id : ids_of(high, 3)) writes.push_back(delete_id(id));
  FollowingServer of_low = make("low", low);
  FollowingServer of_high = make("high", high);
  for (FollowingServer* const server : {&of_low, &of_high}) server->Apply(writes, writes.size());
  EXPECT_EQ(of_low.log().deleted_bytes(), 1400);
  EXPECT_EQ(of_high.log().deleted_bytes(), 300);
  EXPECT_EQ(of_low.Versions().size(), 11) << "three are forgotten";
  const std::string copy_of_low = of_low.SnapshotTo(Path("copy-low"));
  const std::string copy_of_high = of_high.SnapshotTo(Path("copy-high"));

  ASSERT_TRUE(AssembleLive({copy_of_high, copy_of_low}, {.output = Path("out"), .slots = {1, 4095}}).ok());
  FollowingServer result(Path("out"));
  EXPECT_EQ(result.log().remembered_bytes(), kMemory);
  EXPECT_EQ(result.log().deleted_bytes(), 1400);
  std::map<std::string, uint64_t> expected = VersionsOfSlots(of_low.Versions(), {1, 4095});
  expected.merge(of_high.Versions());
  EXPECT_EQ(result.Versions(), expected);
  // Each delete takes 100 bytes. After eight more deletes, the first delete of the high slots is 1,000 bytes ago and
  // still remembered. After nine it is forgotten.
  const std::vector<std::string> more = ids_of({1, 4095}, 60);
  std::vector<StreamedWrite> later = writes;
  for (size_t idx = 51; idx < 60; ++idx) later.push_back(delete_id(more[idx]));
  const std::string first_of_high = writes[14].id;
  result.Apply(later, writes.size() + 8);
  EXPECT_EQ(result.VersionOf(first_of_high), 9);
  result.Apply(later, writes.size() + 9);
  EXPECT_EQ(result.VersionOf(first_of_high), 0);
  EXPECT_EQ(result.VersionOf(writes[15].id), 9);
}

TEST_F(AssembleTest, EqualPositionsFromCutsAtDifferentTimesAreMovedApart) {
  // Two partitions are cut from one collection at different times. In between, the first 10 documents are deleted, so
  // that documents of both partitions have equal positions. The joined collection must have all of them.
  std::vector<StreamedWrite> writes;
  std::string ones;  // a token
  for (int column = 0; column < 8; ++column) ones.append("\x00\x3c", 2);
  for (int n = 0; n < 40; ++n) {
    writes.push_back({.id = Cat("doc-", n), .rows = ones, .payload = Cat("{\"n\":", n, "}")});
  }
  for (int n = 0; n < 10; ++n) writes.push_back({.deletes = true, .id = Cat("doc-", n)});
  FollowingServer whole = FollowingServer::Create(Path("whole"), {}, OptionsWithCodesAndFields());
  whole.Apply(writes, 40);
  const std::string before = whole.SnapshotTo(Path("before"));
  ASSERT_TRUE(AssembleLive({before}, {.output = Path("low"), .slots = {0, 2048}}).ok());
  whole.Apply(writes, 50);
  const std::string after = whole.SnapshotTo(Path("after"));
  ASSERT_TRUE(AssembleLive({after}, {.output = Path("high"), .slots = {2048, 4096}}).ok());
  std::set<int64_t> positions;
  for (const StoredDocument& document : ReadDocuments(Path("low"))) positions.insert(document.position);
  int num_equal = 0;
  for (const StoredDocument& document : ReadDocuments(Path("high"))) num_equal += positions.contains(document.position);
  ASSERT_GT(num_equal, 0);
  const auto joined = AssembleLive({Path("low"), Path("high")}, {.output = Path("out"), .slots = {0, 4095}});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->log_sequence, 40);
  FollowingServer result(Path("out"));
  result.Apply(writes, 50);
  result.CompactAll();
  std::set<std::string> ids;
  for (const StoredDocument& document : ReadDocuments(Path("out"))) ids.insert(document.id);
  for (int n = 0; n < 40; ++n) {
    const std::string id = Cat("doc-", n);
    EXPECT_EQ(ids.count(id), n >= 10 && SlotOf(id) < 4095 ? 1 : 0) << id;
  }
}

TEST_F(AssembleTest, SourcesWithoutDocumentsAreAssembled) {
  const std::string low = SnapshotOf("low", {0, 2048}, 0);
  const std::string high = SnapshotOf("high", {2048, 4096}, 0);
  const auto manifest = AssembleLive({low, high}, {.output = Path("new/folder/out"), .slots = {1, 4096}});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->num_documents, 0);
  FollowingServer result(Path("new/folder/out"));
  result.Apply(writes_, 400);
  result.CompactAll();
  FollowingServer expected = FollowingServer::Create(Path("expected"), {1, 4096}, OptionsWithCodesAndFields());
  expected.Apply(writes_, 400);
  expected.CompactAll();
  EXPECT_EQ(ReadDocuments(result.folder()), ReadDocuments(expected.folder()));
  EXPECT_EQ(result.Versions(), expected.Versions());
}

}  // namespace
}  // namespace maxsim::collection
