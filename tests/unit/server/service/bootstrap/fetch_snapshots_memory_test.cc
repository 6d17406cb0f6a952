// Tests that FetchSnapshots returns an error, and the process goes on, if memory runs out in any of its threads.
#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <string>
#include <utility>

#include "base/start_thread.h"
#include "server/service/bootstrap/fetch_snapshots.h"
#include "tests/support/values/failing_memory.h"
#include "tests/unit/server/service/bootstrap/snapshot_fixture.h"

namespace maxsim::service {
namespace {

class FetchSnapshotsMemoryTest : public testing::Test {
 protected:
  FetchSnapshotsMemoryTest() {
    std::filesystem::create_directory(folder_ / "from");
    WriteFiles(folder_ / "from", {{"collection.json", "{}"}});
    MakeTarget();
  }

  void MakeTarget() const {
    std::filesystem::remove_all(folder_ / "to");
    std::filesystem::create_directory(folder_ / "to");
  }

  absl::Status Fetch() const {
    FetchRequest request{.collection = "docs", .sources = {}, .slots = {}, .folder = folder_ / "to"};
    for (const auto& [address, script] : scripts_) request.sources.push_back(address);
    const auto open = [this](const std::string& address, const std::string&, const tracing::SpanParent&,
                             const StopSignal* of_call) -> absl::StatusOr<std::unique_ptr<IncomingSnapshot>> {
      return std::make_unique<ScriptedSnapshot>(&scripts_.at(address), of_call);
    };
    return FetchSnapshots(request, open, {}, nullptr).status();
  }

  const test::TemporaryFolder folder_;
  std::map<std::string, ScriptedSnapshot::Script> scripts_;
};

TEST_F(FetchSnapshotsMemoryTest, ASourcesErrorForWhichThereIsNoMemoryIsAnErrorOfTheCall) {
  scripts_["a-host-with-a-long-name.example:1"] = {
      .end = absl::UnavailableError("no connection"),
      .on_message = [](size_t) { test::allocations_left = 0; }};  // of the source's thread
  const absl::Status status = Fetch();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(FetchSnapshotsMemoryTest, AFailedAllocationLeavesNoRunningThread) {
  scripts_["a:1"].messages = MessagesOf(folder_ / "from", Beginning("docs", 0, 2000));
  scripts_["b:1"].messages = MessagesOf(folder_ / "from", Beginning("docs", 2000, 4096));
  const int failed = test::FailAtEachAllocation([&] {
    const int64_t left = std::exchange(test::allocations_left, test::kEnoughMemory);
    MakeTarget();
    test::allocations_left = left;
    const absl::Status status = Fetch();
    if (absl::IsResourceExhausted(status)) throw std::bad_alloc();
    ASSERT_TRUE(status.ok()) << status;
  });
  EXPECT_GT(failed, 4) << "at least one allocation for each of two threads, twice";
}

TEST(StartThreadMemoryTest, AThreadForWhichThereIsNoMemoryIsAnError) {
  std::thread thread;
  absl::Status status;
  {
    const test::MemoryEnds ends(0);
    status = StartThread(
        "test", [] {}, &thread);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_FALSE(thread.joinable());
}

}  // namespace
}  // namespace maxsim::service
