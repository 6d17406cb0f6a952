#include "server/service/bootstrap/fetch_snapshots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "client/status.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/service/bootstrap/snapshot_fixture.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Script = ScriptedSnapshot::Script;

class FetchSnapshotsTest : public testing::Test {
 protected:
  FetchSnapshotsTest() {
    std::filesystem::create_directory(folder_ / "from");
    std::filesystem::create_directory(folder_ / "to");
    WriteFiles(folder_ / "from", SmallFiles());
  }

  // Adds a source that sends the files of the folder `from`.
  Script& Add(const std::string& address, const v1::SnapshotBegin& begin) {
    scripts_[address].messages = MessagesOf(folder_ / "from", begin);
    return scripts_[address];
  }

  absl::StatusOr<FetchedSnapshots> Fetch(const collection::SlotRange& slots = {}, const StopSignal* stop = nullptr) {
    FetchRequest request{.collection = "docs", .sources = {}, .slots = slots, .folder = folder_ / "to"};
    for (const auto& [address, script] : scripts_) request.sources.push_back(address);
    const auto open = [this](const std::string& address, const std::string& name, const tracing::SpanParent&,
                             const StopSignal* of_call) -> absl::StatusOr<std::unique_ptr<IncomingSnapshot>> {
      EXPECT_EQ(name, "docs");
      return std::make_unique<ScriptedSnapshot>(&scripts_.at(address), of_call);
    };
    return FetchSnapshots(request, open, {}, stop);
  }

  const test::TemporaryFolder folder_;
  std::map<std::string, Script> scripts_;
};

TEST_F(FetchSnapshotsTest, EachSourceGetsAFolder) {
  v1::SnapshotBegin later = Beginning("docs", 0, 2000);
  later.set_sequence(9);
  Add("a:1", later);
  Add("b:1", Beginning("docs", 2000, 4096));
  const auto fetched = Fetch();
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  ASSERT_EQ(fetched->folders.size(), 2u);
  for (const std::string& folder : fetched->folders) EXPECT_EQ(ReadFiles(folder), SmallFiles());
  EXPECT_EQ(fetched->num_bytes, 2 * scripts_["a:1"].messages[0].begin().total_bytes());
  EXPECT_EQ(fetched->last_sequence, 9u);
}

TEST_F(FetchSnapshotsTest, OnlySourcesThatAreNeededAreRead) {
  Mutex mutex;
  std::vector<std::string> read;
  const auto note = [&](const std::string& address, int first, int end) {
    Add(address, Beginning("docs", first, end)).on_message = [&, address](size_t idx) {
      const MutexLock lock(&mutex);
      if (idx == 1) read.push_back(address);
    };
  };
  note("a:1", 0, 1000);
  note("b:1", 0, 2000);
  note("c:1", 1500, 3000);
  note("d:1", 1800, 2500);
  note("e:1", 2000, 4096);
  const auto fetched = Fetch({.first = 500, .end = 2800});
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  std::sort(read.begin(), read.end());
  EXPECT_THAT(read, ElementsAre("b:1", "e:1"));
}

TEST_F(FetchSnapshotsTest, AMissingSlotIsNamed) {
  Add("a:1", Beginning("docs", 0, 1000));
  Add("b:1", Beginning("docs", 1001, 4096));
  const absl::Status status = Fetch().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client::FieldOf(status), "sources");
  EXPECT_THAT(std::string(status.message()), HasSubstr("none has slot 1000 of the wanted 0-4095"));
  EXPECT_THAT(ReadFiles(folder_ / "to"), IsEmpty());
  EXPECT_TRUE(Fetch({.first = 1001, .end = 4096}).ok());
}

TEST_F(FetchSnapshotsTest, ADiskThatIsTooSmallIsNotWrittenTo) {
  Script& script = Add("a:1", Beginning("docs"));
  script.messages[0].mutable_begin()->set_total_bytes(uint64_t{1} << 60);
  const absl::Status status = Fetch().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("1152921504606846976"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "to"));
}

TEST_F(FetchSnapshotsTest, ErrorsNameTheSourceAndBlameItAndNotTheClient) {
  const std::vector<std::pair<absl::Status, absl::StatusCode>> cases = {
      {absl::UnavailableError("no connection"), absl::StatusCode::kUnavailable},
      {absl::UnauthenticatedError("no token"), absl::StatusCode::kFailedPrecondition},
      {absl::PermissionDeniedError("a reader"), absl::StatusCode::kFailedPrecondition},
      {absl::NotFoundError("no collection"), absl::StatusCode::kFailedPrecondition},
      {absl::UnimplementedError("an old version"), absl::StatusCode::kFailedPrecondition},
      {absl::CancelledError("it stops"), absl::StatusCode::kUnavailable},
      {absl::DeadlineExceededError("stalled"), absl::StatusCode::kUnavailable},
      {absl::FailedPreconditionError("local"), absl::StatusCode::kFailedPrecondition},
  };
  for (const auto& [end, code] : cases) {
    scripts_["a:1"] = {.end = end};
    absl::Status status = Fetch().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("source a:1: "));
    // A source may also fail with this error after its first message.
    Script& script = Add("a:1", Beginning("docs"));
    script.messages.resize(3);
    script.end = end;
    std::filesystem::remove_all(folder_ / "to");
    std::filesystem::create_directory(folder_ / "to");
    status = Fetch().status();
    EXPECT_EQ(status.code(), code) << status;
  }
}

TEST_F(FetchSnapshotsTest, ABusySourceSaysWhenToComeBack) {
  absl::Status busy = absl::ResourceExhaustedError("4 calls of ReadSnapshot are in progress");
  client::SetRetryAfter(absl::Seconds(10), busy);
  scripts_["a:1"] = {.end = busy};
  const absl::Status status = Fetch().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client::RetryAfter(status), absl::Seconds(10));
}

TEST_F(FetchSnapshotsTest, AWrongFirstMessageIsRefused) {
  const auto refused = [&](const v1::SnapshotBegin& begin) {
    Add("a:1", begin);
    return Fetch().status();
  };
  EXPECT_EQ(refused(Beginning("other")).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(refused(Beginning("docs", 5, 5)).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(refused(Beginning("docs", 5, 4097)).code(), absl::StatusCode::kInternal);
  v1::SnapshotBegin begin = Beginning("docs");
  begin.set_sequence(uint64_t{1} << 60);
  EXPECT_EQ(refused(begin).code(), absl::StatusCode::kInternal);
  begin = Beginning("docs");
  begin.set_format_version(2);
  EXPECT_EQ(refused(begin).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused(begin).message()),
              HasSubstr("the snapshot has format version 2; this version reads up to 1"));
  begin = Beginning("docs");
  begin.mutable_collection()->mutable_live()->set_log("local");
  EXPECT_EQ(refused(begin).code(), absl::StatusCode::kFailedPrecondition);
  begin.mutable_collection()->clear_live();
  EXPECT_EQ(refused(begin).code(), absl::StatusCode::kFailedPrecondition);
  Add("a:1", Beginning("docs")).messages.erase(scripts_["a:1"].messages.begin());
  EXPECT_EQ(Fetch().status().code(), absl::StatusCode::kInternal);
  scripts_["a:1"] = {};
  EXPECT_EQ(Fetch().status().code(), absl::StatusCode::kInternal);
}

TEST_F(FetchSnapshotsTest, TheErrorOfOneSourceEndsTheOthers) {
  Add("a:1", Beginning("docs", 0, 2000)).blocks_before = 2;
  Script& broken = Add("b:1", Beginning("docs", 2000, 4096));
  broken.messages[2].mutable_data()->front() ^= 1;
  const absl::Status status = Fetch().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("source b:1: "));
}

TEST_F(FetchSnapshotsTest, SourcesAreOpenedAtTheSameTime) {
  // Each source waits for the other one before it sends its first message.
  std::atomic<int> num_opened{0};
  for (const char* const address : {"a:1", "b:1"}) {
    Add(address, Beginning("docs")).on_message = [&](size_t idx) {
      if (idx > 0) return;
      ++num_opened;
      EXPECT_TRUE(test::Eventually([&] { return num_opened == 2; }));
    };
  }
  EXPECT_TRUE(Fetch().ok());
}

TEST_F(FetchSnapshotsTest, ASourceThatIsLostEndsTheOpeningOfTheOthers) {
  Add("a:1", Beginning("docs", 0, 2000)).blocks_before = 0;
  scripts_["b:1"] = {.end = absl::UnavailableError("no connection")};
  const absl::Status status = Fetch().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("source b:1: "));
}

TEST_F(FetchSnapshotsTest, EndsWhenItIsStopped) {
  for (const size_t blocks_before : {size_t{0}, size_t{1}, size_t{3}}) {
    Add("a:1", Beginning("docs")).blocks_before = blocks_before;
    StopSignal stop;
    std::thread stopper([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      stop.Request(absl::StatusCode::kUnavailable);
    });
    EXPECT_EQ(Fetch({}, &stop).status().code(), absl::StatusCode::kUnavailable);
    stopper.join();
    std::filesystem::remove_all(folder_ / "to/source-0");
  }
}

}  // namespace
}  // namespace maxsim::service
