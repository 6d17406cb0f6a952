// Tests Admin.ReadSnapshot below the gRPC layer: its messages, its hidden folder, and the limit of concurrent calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client/status.h"
#include "server/service/bootstrap/snapshot_receiver.h"
#include "tests/unit/server/service/bootstrap/admin_fixture.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::UnorderedElementsAre;

class ReadSnapshotTest : public testing::Test {
 protected:
  ReadSnapshotTest() {
    std::filesystem::create_directory(root_);
    MakeLive(root_ + "/docs", 20);
  }
  static void Load(ServerRun& run, const std::string& path) {
    v1::LoadCollectionRequest request;
    request.set_name("docs");
    request.set_path(path);
    const auto loaded = run.admin.LoadForClient(request, {});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
  }

  const test::TemporaryFolder folder_;
  const std::string root_ = folder_ / "root";
};

TEST_F(ReadSnapshotTest, SendsTheCollectionAsItIs) {
  ServerRun run({root_});
  Load(run, root_ + "/docs");
  std::vector<v1::ReadSnapshotResponse> messages;
  const auto keep = [&](const v1::ReadSnapshotResponse& message) {
    EXPECT_THAT(NamesIn(root_), UnorderedElementsAre("docs", StartsWith(".maxsimd-reading-")));
    messages.push_back(message);
    return absl::OkStatus();
  };
  const absl::Status status = run.admin.ReadSnapshot("docs", keep, {});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(NamesIn(root_), ElementsAre("docs"));
  const v1::SnapshotBegin& begin = messages.at(0).begin();
  EXPECT_EQ(begin.format_version(), 1u);
  EXPECT_EQ(begin.sequence(), 7u);
  EXPECT_EQ(begin.collection().name(), "docs");
  EXPECT_EQ(begin.collection().num_documents(), 20u);
  EXPECT_EQ(begin.collection().live().log(), "nats");
  EXPECT_EQ(begin.collection().path(), "");

  const std::string to = folder_ / "to";
  std::filesystem::create_directory(to);
  SnapshotReceiver receiver(to, begin.total_bytes());
  for (size_t i = 1; i < messages.size(); ++i) ASSERT_TRUE(receiver.Take(messages[i]).ok());
  EXPECT_TRUE(receiver.End().ok());
  EXPECT_EQ(ReadFiles(to), ReadFiles(root_ + "/docs"));
}

TEST_F(ReadSnapshotTest, AStreamThatIsFollowedOnlyWhileTheSnapshotIsMadeIsNamed) {
  ServerRun run({root_});
  run.on_open = [](const std::string&, test::FakeLiveDocuments& made) {
    made.on_snapshot = [&made, make = made.on_snapshot](const std::string& to) {
      made.live_state.stream->identity = collection::LogStream{.name = "maxsim_docs", .created_ns = 1234};
      make(to);
    };
  };
  Load(run, root_ + "/docs");
  v1::SnapshotBegin begin;
  const auto keep = [&](const v1::ReadSnapshotResponse& message) {
    if (message.has_begin()) begin = message.begin();
    return absl::OkStatus();
  };
  ASSERT_TRUE(run.admin.ReadSnapshot("docs", keep, {}).ok());
  EXPECT_EQ(begin.sequence(), 7u);
  EXPECT_EQ(begin.stream().name(), "maxsim_docs");
  EXPECT_EQ(begin.stream().created_unix_ns(), 1234u);
}

TEST_F(ReadSnapshotTest, TheFolderGoesWhenTheClientGoesOrTheServerStops) {
  ServerRun run({root_});
  Load(run, root_ + "/docs");
  const auto gone = [](const v1::ReadSnapshotResponse&) { return absl::CancelledError("gone"); };
  EXPECT_EQ(run.admin.ReadSnapshot("docs", gone, {}).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(NamesIn(root_), ElementsAre("docs"));

  StopSignal stop;
  const auto stops = [&](const v1::ReadSnapshotResponse&) {
    stop.Request(absl::StatusCode::kDeadlineExceeded);
    return absl::OkStatus();
  };
  EXPECT_EQ(run.admin.ReadSnapshot("docs", stops, {.stop = &stop}).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(NamesIn(root_), ElementsAre("docs"));

  const auto shuts_down = [&](const v1::ReadSnapshotResponse&) {
    run.admin.StopBootstraps();
    return absl::OkStatus();
  };
  EXPECT_EQ(run.admin.ReadSnapshot("docs", shuts_down, {}).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(NamesIn(root_), ElementsAre("docs"));
}

TEST_F(ReadSnapshotTest, TheFolderLiesInACollectionThatIsUnderNoRoot) {
  MakeLive(folder_ / "configured", 5);
  ServerRun run({root_});
  ASSERT_TRUE(run.admin.Load("docs", folder_ / "configured", store::Residency::kAuto).ok());
  bool has_seen = false;
  const auto look = [&](const v1::ReadSnapshotResponse&) {
    for (const std::string& name : NamesIn(folder_ / "configured")) has_seen |= name.starts_with(".maxsimd-reading-");
    return absl::OkStatus();
  };
  ASSERT_TRUE(run.admin.ReadSnapshot("docs", look, {}).ok());
  EXPECT_TRUE(has_seen);
}

TEST_F(ReadSnapshotTest, OnlyLiveCollectionsOfAStreamAreSent) {
  const auto none = [](const v1::ReadSnapshotResponse&) {
    ADD_FAILURE() << "a message";
    return absl::OkStatus();
  };
  ServerRun run({root_});
  EXPECT_EQ(run.admin.ReadSnapshot("docs", none, {}).code(), absl::StatusCode::kNotFound);
  run.has_stream = false;
  Load(run, root_ + "/docs");
  const absl::Status status = run.admin.ReadSnapshot("docs", none, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("live.log nats"));

  test::BuildCorpus(root_ + "/still", test::SmallDocuments(1, 5));
  ASSERT_TRUE(run.admin.Load("still", root_ + "/still", store::Residency::kAuto).ok());
  EXPECT_EQ(run.admin.ReadSnapshot("still", none, {}).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ReadSnapshotTest, OneCallTooManyIsToldWhenToComeBack) {
  ServerRun run({root_});
  Load(run, root_ + "/docs");
  absl::Status refused;
  // The first message of each call starts the next call, so that `count` calls run at the same time. The last of them
  // starts one more, which must be refused.
  const std::function<absl::Status(int)> read = [&](int count) {
    bool is_first = true;
    const auto sink = [&](const v1::ReadSnapshotResponse&) {
      if (!std::exchange(is_first, false)) return absl::OkStatus();
      if (count > 1) return read(count - 1);
      refused = run.admin.ReadSnapshot("docs", [](const auto&) { return absl::OkStatus(); }, {});
      return absl::OkStatus();
    };
    return run.admin.ReadSnapshot("docs", sink, {});
  };
  for (int round = 0; round < 2; ++round) {
    const absl::Status status = read(CollectionAdmin::kMaxSnapshotReads);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
    EXPECT_TRUE(client::RetryAfter(refused).has_value());
  }
}

}  // namespace
}  // namespace maxsim::service
