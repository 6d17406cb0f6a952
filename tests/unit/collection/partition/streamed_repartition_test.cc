// Tests splits and merges of live collections that follow a stream: the log of a result continues where the logs of its
// sources end.
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "collection/partition/repartition.h"
#include "collection/positions.h"
#include "tests/unit/collection/partition/following_server.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class StreamedRepartitionTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.Path(name); }
  static CreateOptions Options() { return {.name = "live", .dim = 8}; }

  // Makes a server that has applied the messages up to `through`, and compacts it.
  FollowingServer Make(const std::string& name, const SlotRange& slots, uint64_t through,
                       const LogStream& stream = TestStream()) {
    FollowingServer server = FollowingServer::Create(Path(name), slots, Options(), stream);
    server.Apply(writes_, through);
    server.CompactAll();
    return server;
  }

  TemporaryFolder folder_;
  const std::vector<StreamedWrite> writes_ = RandomWrites(400, 90, ScalarType::kF16, 9);
};

TEST_F(StreamedRepartitionTest, PartsFollowTheStreamAndHoldWhatTheWholeHolds) {
  for (const SlotRange& slots : {SlotRange{}, SlotRange{0, 4000}}) {
    const std::string name = Cat("of-", slots.end);
    FollowingServer server = Make(name, slots, 250);
    const std::map<std::string, uint64_t> versions = server.Versions();
    const std::vector<StoredDocument> documents = ReadDocuments(server.folder());
    const uint64_t deleted_bytes = server.log().deleted_bytes();
    server.Close();
    const auto parts = SplitCollection(Path(name), 3, {.output = Path(name + "-parts")});
    ASSERT_TRUE(parts.ok()) << parts.status();
    const std::vector<PartitionFolder> folders = PartitionFolders(Path(name + "-parts"), slots, 3);
    for (const PartitionFolder& one : folders) {
      EXPECT_EQ(ReadManifest(one.folder)->log_sequence, 250);
      EXPECT_EQ(ReadDocuments(one.folder), OfSlots(documents, one.slots));
      FollowingServer part(one.folder);
      EXPECT_EQ(part.log().stream(), TestStream());
      EXPECT_EQ(part.log().first_sequence(), 250);
      EXPECT_EQ(part.log().last_sequence(), 250);
      EXPECT_EQ(part.log().deleted_bytes(), deleted_bytes);
      std::map<std::string, uint64_t> expected;
      for (const auto& [id, version] : versions) {
        if (one.slots.contains(SlotOf(id))) expected[id] = version;
      }
      EXPECT_EQ(part.Versions(), expected);
    }
    // The parts and the whole apply the same messages.
    FollowingServer whole(Path(name));
    whole.Apply(writes_, 400);
    std::map<std::string, uint64_t> after;
    std::set<std::string> held;
    for (const PartitionFolder& one : folders) {
      FollowingServer part(one.folder);
      part.Apply(writes_, 400);
      after.merge(part.Versions());
      held.insert(part.held().begin(), part.held().end());
      part.CompactAll();
    }
    EXPECT_EQ(after, whole.Versions());
    EXPECT_EQ(held, whole.held());
    // The parts can be merged again.
    const auto merged = MergeCollections(FoldersOf(folders), {.output = Path(name + "-merged")});
    ASSERT_TRUE(merged.ok()) << merged.status();
    whole.CompactAll();
    EXPECT_EQ(ReadDocuments(Path(name + "-merged")).size(), ReadDocuments(Path(name)).size());
    FollowingServer again(Path(name + "-merged"));
    EXPECT_EQ(again.log().stream(), TestStream());
    EXPECT_EQ(again.log().last_sequence(), 400);
    EXPECT_EQ(again.Versions(), whole.Versions());
    EXPECT_EQ(again.held(), whole.held());
  }
}

TEST_F(StreamedRepartitionTest, PartitionsAtDifferentSequencesAreMergedAtTheLowest) {
  Make("low", {0, 2000}, 400).Close();
  Make("high", {2000, 4000}, 300).Close();
  const auto merged = MergeCollections({Path("low"), Path("high")}, {.output = Path("merged")});
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->log_sequence, 300);
  FollowingServer result(Path("merged"));
  for (const StoredDocument& document : ReadDocuments(result.folder())) {
    EXPECT_LE(document.position, PositionOfWrite(300));
  }
  result.Apply(writes_, 400);
  result.CompactAll();
  FollowingServer expected = Make("expected", {0, 4000}, 400);
  EXPECT_EQ(ReadDocuments(result.folder()), ReadDocuments(expected.folder()));
  EXPECT_EQ(result.Versions(), expected.Versions());
}

TEST_F(StreamedRepartitionTest, PartitionsOfDifferentStreamsAreNotMerged) {
  LogStream other = TestStream();
  other.name = "maxsim-other";
  Make("low", {0, 2000}, 30).Close();
  Make("high", {2000, 4000}, 30, other).Close();
  const absl::Status status = MergeCollections({Path("low"), Path("high")}, {.output = Path("merged")}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(Path("low") + " follows stream maxsim-docs of "),
                                                   HasSubstr(Path("high") + " follows stream maxsim-other of ")));
  EXPECT_FALSE(std::filesystem::exists(Path("merged")));
}

TEST_F(StreamedRepartitionTest, AFolderThatExistsIsNotReplaced) {
  Make("server", {0, 2000}, 100).Close();
  std::filesystem::create_directories(Path("parts/slots-1000-1999"));
  const absl::Status status = SplitCollection(Path("server"), 2, {.output = Path("parts")}).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path("parts/slots-1000-1999")));
  std::filesystem::remove(Path("parts/slots-1000-1999"));
  EXPECT_TRUE(std::filesystem::is_empty(Path("parts"))) << "nothing unfinished is left";
  EXPECT_TRUE(SplitCollection(Path("server"), 2, {.output = Path("parts")}).ok());
}

TEST_F(StreamedRepartitionTest, ALogThatHasLostWritesIsRefused) {
  Make("server", {0, 2000}, 100).Close();
  Manifest manifest = *ReadManifest(Path("server"));
  manifest.log_sequence = 101;
  ASSERT_TRUE(PublishManifest(manifest, Path("server")).ok());
  const absl::Status status = SplitCollection(Path("server"), 2, {.output = Path("parts")}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("up to sequence 101, but its log ends with 100"));
}

}  // namespace
}  // namespace maxsim::collection
