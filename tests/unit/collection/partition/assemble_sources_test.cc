// Tests which snapshots can be assembled, and what an assembly that fails leaves.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collection/partition/assemble.h"
#include "tests/unit/collection/partition/assemble_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST_F(AssembleTest, LogsWithoutAStreamAreNarrowedOneAtATimeAndJoinedWhole) {
  const std::string low = SnapshotOf("low", {0, 2048}, 300, std::nullopt);
  const std::string high = SnapshotOf("high", {2048, 4096}, 320, std::nullopt);
  const auto narrowed = AssembleLive({low}, {.output = Path("narrowed"), .slots = {100, 1900}});
  ASSERT_TRUE(narrowed.ok()) << narrowed.status();
  {
    FollowingServer server(Path("low"));
    FollowingServer result(Path("narrowed"));
    EXPECT_EQ(result.log().stream(), std::nullopt);
    EXPECT_EQ(result.log().last_sequence(), 300);
    EXPECT_EQ(result.Versions(), server.Versions({100, 1900}));
  }
  const absl::Status refused = Refused({low, high}, {100, 4096});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("only slots 100 .. 2047 are wanted of " + low), HasSubstr("joined whole")));
  const auto joined = AssembleLive({low, high}, {.output = Path("joined"), .slots = {}});
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->log_sequence, 320);
  FollowingServer result(Path("joined"));
  EXPECT_EQ(result.log().stream(), std::nullopt);
  EXPECT_EQ(result.log().last_sequence(), 320);
  FollowingServer of_low(Path("low"));
  FollowingServer of_high(Path("high"));
  std::map<std::string, uint64_t> versions = of_low.Versions();
  versions.merge(of_high.Versions());
  EXPECT_EQ(result.Versions(), versions);
  EXPECT_EQ(result.held().size(), of_low.held().size() + of_high.held().size());
}

TEST_F(AssembleTest, SourcesOfDifferentStreamsAreRefused) {
  LogStream late = TestStream();
  late.created_ns += 1'000'000'000;
  const std::string one = SnapshotOf("one", {0, 1000}, 30);
  const std::string nearly = SnapshotOf("nearly", {1000, 2000}, 30, late);
  ASSERT_TRUE(AssembleLive({one, nearly}, {.output = Path("nearly-one"), .slots = {0, 2000}}).ok());

  late.created_ns += 1;
  const std::string again = SnapshotOf("again", {1000, 2000}, 30, late);
  absl::Status status = Refused({one, again}, {0, 2000});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(one + " follows stream maxsim-docs of 2023"),
                    HasSubstr(again + " follows stream maxsim-docs of 2023"), HasSubstr("follow one stream")));
  const std::string local = SnapshotOf("local", {1000, 2000}, 30, std::nullopt);
  status = Refused({local, one}, {0, 2000});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(local + " has a log that follows no stream, but "),
                                                   HasSubstr(one + " follows stream maxsim-docs")));
}

TEST_F(AssembleTest, SourcesThatDoNotFitAreRefused) {
  const std::string low = SnapshotOf("low", {0, 2048}, 30);
  EXPECT_TRUE(absl::IsInvalidArgument(Refused({}, {0, 10})));
  const absl::Status missing = Refused({low}, {0, 2049});
  EXPECT_TRUE(absl::IsInvalidArgument(missing)) << missing;
  EXPECT_THAT(std::string(missing.message()), HasSubstr("none of the 1 sources has slots 2048 .. 2048"));
  EXPECT_TRUE(absl::IsNotFound(Refused({Path("nothing")}, {0, 10})));
  {
    CreateOptions other = OptionsWithCodesAndFields();
    other.name = "other";
    FollowingServer::Create(Path("other"), {2048, 4096}, other).Close();
    const absl::Status differs = Refused({low, Path("other")}, {0, 3000});
    EXPECT_TRUE(absl::IsFailedPrecondition(differs)) << differs;
    EXPECT_THAT(std::string(differs.message()), AllOf(HasSubstr("name: " + low), HasSubstr(Path("other"))));
  }
  ASSERT_TRUE(BuildSmall(ManyDocuments(9, IdType::kString, true), {.folder = Path("static"), .name = "live"}).ok());
  EXPECT_THAT(std::string(Refused({Path("static")}, {0, 10}).message()), HasSubstr("has no log"));
  {
    const FollowingServer open(low);
    const absl::Status status = Refused({low}, {0, 10});
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("while no server has it loaded"));
  }
  std::filesystem::create_directory(Path("there"));
  for (const SlotRange& slots : {SlotRange{0, 10}, SlotRange{0, 2048}}) {
    const absl::Status exists = AssembleLive({low}, {.output = Path("there"), .slots = slots}).status();
    EXPECT_TRUE(absl::IsAlreadyExists(exists)) << exists;
    EXPECT_TRUE(std::filesystem::is_empty(Path("there")));
  }
}

TEST_F(AssembleTest, AnAssemblyThatEndsEarlyLeavesNothingBesideItsOutput) {
  const std::string low = SnapshotOf("low", {0, 2048}, 200);
  const std::string high = SnapshotOf("high", {2048, 4096}, 300);
  std::filesystem::create_directory(Path("results"));
  StopSignal stop;
  stop.Request(absl::StatusCode::kCancelled);
  for (const SlotRange& slots : {SlotRange{0, 2048}, SlotRange{5, 2048}, SlotRange{5, 4000}}) {
    const absl::Status status =
        AssembleLive({low, high}, {.output = Path("results/out"), .slots = slots, .stop = &stop}).status();
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_THAT(NamesIn(Path("results")), IsEmpty());
  }
  for (const auto stage :
       {BuildProgress::Stage::kShardDone, BuildProgress::Stage::kEncoding, BuildProgress::Stage::kPublishing}) {
    const absl::Status status =
        AssembleLive({low, high}, {.output = Path("results/out"), .slots = {5, 4000}},
                     [&](const BuildProgress& progress) {
                       return progress.stage == stage ? absl::AbortedError("enough") : absl::OkStatus();
                     })
            .status();
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_THAT(NamesIn(Path("results")), IsEmpty());
  }
  // A damaged shard.
  const Manifest manifest = *ReadManifest(high);
  ASSERT_FALSE(manifest.shards.empty());
  const std::string path = JoinPath(high, manifest.shards.front().file);
  std::string bytes = ReadBytes(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::filesystem::remove(path);
  WriteBytes(path, bytes);
  EXPECT_TRUE(
      absl::IsDataLoss(AssembleLive({low, high}, {.output = Path("results/out"), .slots = {5, 4000}}).status()));
  EXPECT_THAT(NamesIn(Path("results")), IsEmpty());
}

}  // namespace
}  // namespace maxsim::collection
