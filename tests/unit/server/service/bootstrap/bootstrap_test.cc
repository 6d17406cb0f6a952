// Tests the steps of Admin.BootstrapCollection: which calls are refused, which collection is served meanwhile and
// afterwards, and what a restart finds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "client/status.h"
#include "tests/unit/server/service/bootstrap/admin_fixture.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class BootstrapTest : public testing::Test {
 protected:
  BootstrapTest() {
    std::filesystem::create_directory(root_);
    MakeLive(folder_ / "peer", 20);
  }

  // Creates the collection "docs" as a client, without documents.
  static void Create(ServerRun& run) {
    v1::CreateCollectionRequest request;
    request.set_name("docs");
    request.set_dim(16);
    const auto created = run.admin.CreateForClient(request, {});
    ASSERT_TRUE(created.ok()) << created.status();
  }

  const test::TemporaryFolder folder_;
  const std::string root_ = folder_ / "root";
};

TEST_F(BootstrapTest, AnEmptyServerServesTheCollectionAlsoAfterARestart) {
  {
    ServerRun run({root_});
    run.EnableBootstrap(folder_ / "peer");
    const auto response = run.Bootstrap({"a:1"});
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->collection().name(), "docs");
    EXPECT_EQ(response->collection().num_documents(), 20u);
    EXPECT_EQ(response->fetched_bytes(), run.sources["a:1"].messages[0].begin().total_bytes());
    EXPECT_EQ(run.Path(), root_ + "/docs.1");
    EXPECT_THAT(NamesIn(root_), UnorderedElementsAre("docs.1", kCreatedCollectionsName));
  }
  ServerRun run({root_});
  run.Start();
  EXPECT_EQ(run.NumDocuments(), 20u);
}

TEST_F(BootstrapTest, ACreatedCollectionIsServedUntilItIsReplacedAndThenRemoved) {
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  Create(run);
  std::string served = root_ + "/docs";
  run.on_assemble = [&](const std::vector<std::string>& folders, const collection::AssembleOptions& options) {
    EXPECT_EQ(folders.size(), 1u);
    EXPECT_EQ(options.slots, collection::SlotRange());
    EXPECT_EQ(run.Path(), served);
    EXPECT_TRUE(run.store.Find("docs").ok());
    return absl::OkStatus();
  };
  ASSERT_TRUE(run.Bootstrap({"a:1"}).ok());
  EXPECT_EQ(run.NumDocuments(), 20u);
  EXPECT_THAT(NamesIn(root_), UnorderedElementsAre("docs.1", kCreatedCollectionsName));
  served = root_ + "/docs.1";
  ASSERT_TRUE(run.Bootstrap({"a:1"}).ok());
  EXPECT_THAT(NamesIn(root_), UnorderedElementsAre("docs.2", kCreatedCollectionsName));
  EXPECT_TRUE(run.admin.Unload("docs", /*remove_settings=*/false, {}).ok());
}

TEST_F(BootstrapTest, TheFolderOfALoadedCollectionStays) {
  MakeLive(root_ + "/mine", 5);
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  v1::LoadCollectionRequest request;
  request.set_name("docs");
  request.set_path(root_ + "/mine");
  ASSERT_TRUE(run.admin.LoadForClient(request, {}).ok());
  ASSERT_TRUE(run.Bootstrap({"a:1"}).ok());
  EXPECT_EQ(run.NumDocuments(), 20u);
  EXPECT_THAT(NamesIn(root_), UnorderedElementsAre("docs.1", "mine", kCreatedCollectionsName));
}

TEST_F(BootstrapTest, OtherSlotsThanThoseOfTheServerAreAllowed) {
  const store::StoreOptions options{.partition = collection::SlotRange{.first = 0, .end = 100}};
  {
    ServerRun run({root_}, options);
    run.EnableBootstrap(folder_ / "peer");
    ASSERT_TRUE(run.Bootstrap({"a:1"}).ok());
  }
  ServerRun run({root_}, options);
  run.Start();
  EXPECT_EQ(run.NumDocuments(), 20u);
}

TEST_F(BootstrapTest, InvalidFieldsAreNamed) {
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  using Change = std::function<void(v1::BootstrapCollectionRequest&)>;
  const std::vector<std::pair<std::string, Change>> cases = {
      {"name", [](auto& request) { request.set_name("a/b"); }},
      {"sources", [](auto& request) { request.clear_sources(); }},
      {"sources",
       [](auto& request) {
         for (int i = 0; i < 64; ++i) request.add_sources(absl::StrCat("b", i, ":1"));
       }},
      {"sources[1]", [](auto& request) { request.add_sources("a:1"); }},
      {"sources[0]", [](auto& request) { request.set_sources(0, "a"); }},
      {"sources[0]", [](auto& request) { request.set_sources(0, ":1"); }},
      {"sources[0]", [](auto& request) { request.set_sources(0, "a:0"); }},
      {"sources[0]", [](auto& request) { request.set_sources(0, "a:65536"); }},
      {"sources[0]", [](auto& request) { request.set_sources(0, "unix:/run/x:1"); }},
      {"sources[0]", [](auto& request) { request.set_sources(0, "unix-abstract:x:1"); }},
      {"sources[0]", [](auto& request) { request.set_sources(0, "ipv4:10.0.0.1:80,10.0.0.2:80"); }},
      {"sources[0]", [](auto& request) { request.set_sources(0, "a:80,b:80"); }},
      {"sources[0]", [](auto& request) { request.set_sources(0, "dns:///a:1"); }},
      {"sources[0]", [](auto& request) { request.set_sources(0, "a b:1"); }},
      {"slots", [](auto& request) { request.mutable_slots()->set_end_slot(4097); }},
      {"slots", [](auto& request) { request.mutable_slots(); }},
      {"residency", [](auto& request) { request.set_residency("tape"); }},
  };
  for (const auto& [field, change] : cases) {
    v1::BootstrapCollectionRequest request;
    request.set_name("docs");
    request.add_sources("a:1");
    change(request);
    const absl::Status status = run.admin.Bootstrap(request, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(client::FieldOf(status), field) << status;
  }
  EXPECT_EQ(client::FieldOf(run.Bootstrap({"b:1"}).status()), "sources") << "its slots are not all";
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(BootstrapTest, AServerThatOrdersItsOwnWritesRefuses) {
  ServerRun run({root_});
  const absl::Status status = run.Bootstrap({"a:1"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("live.log nats"));
}

TEST_F(BootstrapTest, AConfiguredCollectionStays) {
  MakeLive(folder_ / "configured", 5);
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  ASSERT_TRUE(run.admin.Load("docs", folder_ / "configured", store::Residency::kAuto).ok());
  const absl::Status status = run.Bootstrap({"a:1"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("configuration"));
  EXPECT_EQ(run.NumDocuments(), 5u);
}

TEST_F(BootstrapTest, ACollectionThatIsNotLiveStays) {
  test::BuildCorpus(root_ + "/still", test::SmallDocuments(1, 5));
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  v1::LoadCollectionRequest request;
  request.set_name("docs");
  request.set_path(root_ + "/still");
  ASSERT_TRUE(run.admin.LoadForClient(request, {}).ok());
  EXPECT_EQ(run.Bootstrap({"a:1"}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(run.NumDocuments(), 5u);
}

TEST_F(BootstrapTest, WithoutAnAllowedRootThereIsNoPlace) {
  ServerRun none({});
  none.EnableBootstrap(folder_ / "peer");
  EXPECT_EQ(none.Bootstrap({"a:1"}).status().code(), absl::StatusCode::kPermissionDenied);
  ServerRun missing({folder_ / "missing"});
  missing.EnableBootstrap(folder_ / "peer");
  EXPECT_EQ(missing.Bootstrap({"a:1"}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(BootstrapTest, AFailureLeavesNothingAndTheEarlierCollectionIsServed) {
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  Create(run);
  const auto expect_unchanged = [&](absl::StatusCode code) {
    const absl::Status status = run.Bootstrap({"a:1"}).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(run.Path(), root_ + "/docs");
    EXPECT_TRUE(run.store.Find("docs").ok());
    EXPECT_THAT(NamesIn(root_), UnorderedElementsAre("docs", kCreatedCollectionsName));
  };
  const ScriptedSnapshot::Script right = run.sources["a:1"];
  run.sources["a:1"].end = absl::UnavailableError("lost");
  expect_unchanged(absl::StatusCode::kUnavailable);
  run.sources["a:1"] = right;
  run.sources["a:1"].messages.pop_back();
  expect_unchanged(absl::StatusCode::kDataLoss);
  run.sources["a:1"] = right;

  run.on_assemble = [](const auto&, const auto&) { return absl::FailedPreconditionError("other streams"); };
  expect_unchanged(absl::StatusCode::kFailedPrecondition);
  run.on_assemble = nullptr;

  run.on_open = [](const std::string&, test::FakeLiveDocuments& made) {
    made.live_state.stream->connected = false;
    made.live_state.status = absl::FailedPreconditionError("the messages between are gone");
  };
  expect_unchanged(absl::StatusCode::kFailedPrecondition);
  run.on_open = nullptr;

  // The list of created collections cannot be written.
  const std::string obstacle = root_ + "/" + kCreatedCollectionsName + ".tmp";
  run.on_open = [&](const std::string&, const test::FakeLiveDocuments&) {
    std::filesystem::create_directory(obstacle);
  };
  EXPECT_FALSE(run.Bootstrap({"a:1"}).ok());
  std::filesystem::remove(obstacle);
  EXPECT_EQ(run.Path(), root_ + "/docs");
  EXPECT_THAT(NamesIn(root_), UnorderedElementsAre("docs", kCreatedCollectionsName));
  run.on_open = nullptr;

  EXPECT_TRUE(run.Bootstrap({"a:1"}).ok()) << "it can be repeated";
}

TEST_F(BootstrapTest, TheSwapComesWhenTheNewCollectionHasCaughtUp) {
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  Create(run);
  StopSignal stop;
  run.on_open = [](const std::string&, test::FakeLiveDocuments& made) { made.live_state.stream->last_sequence = 8; };
  std::thread stopper([&] {
    while (!std::filesystem::exists(root_ + "/docs.1")) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(run.Path(), root_ + "/docs");
    stop.Request(absl::StatusCode::kCancelled);
  });
  EXPECT_EQ(run.Bootstrap({"a:1"}, &stop).status().code(), absl::StatusCode::kCancelled);
  stopper.join();
  EXPECT_THAT(NamesIn(root_), UnorderedElementsAre("docs", kCreatedCollectionsName));
}

TEST_F(BootstrapTest, TheSwapWaitsForWritesThatASourceHas) {
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  run.sources["a:1"].messages[0].mutable_begin()->set_sequence(8);  // the stream reports 7
  const StopSignal stop(StopSignal::Clock::now() + std::chrono::milliseconds(200));
  EXPECT_EQ(run.Bootstrap({"a:1"}, &stop).status().code(), absl::StatusCode::kDeadlineExceeded);
  run.sources["a:1"].messages[0].mutable_begin()->set_sequence(7);
  EXPECT_TRUE(run.Bootstrap({"a:1"}).ok());
}

TEST_F(BootstrapTest, AnErrorThatKeepsTheCollectionFromCatchingUpEndsIt) {
  ServerRun run({root_});
  run.max_stall = absl::Milliseconds(100);
  run.EnableBootstrap(folder_ / "peer");
  Create(run);
  run.on_open = [](const std::string&, test::FakeLiveDocuments& made) {
    made.live_state.stream->last_sequence = 8;
    made.live_state.status = absl::ResourceExhaustedError("the disk is full");
    client::SetRetryAfter(absl::Seconds(1), made.live_state.status);
  };
  const absl::Status status = run.Bootstrap({"a:1"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("applied no message of the stream for 100ms: the disk is full"));
  EXPECT_FALSE(client::RetryAfter(status).has_value()) << "a client would fetch everything again at once";
  EXPECT_EQ(run.Path(), root_ + "/docs");
  EXPECT_THAT(NamesIn(root_), UnorderedElementsAre("docs", kCreatedCollectionsName));
}

TEST_F(BootstrapTest, ACompactionThatMayMakeRoomIsAwaited) {
  ServerRun run({root_});
  run.max_stall = absl::Milliseconds(1);
  run.EnableBootstrap(folder_ / "peer");
  absl::Status compaction;
  run.on_open = [&](const std::string&, test::FakeLiveDocuments& made) {
    made.live_state.stream->last_sequence = 8;
    made.live_state.status = absl::ResourceExhaustedError("the segments are full");
    made.live_state.is_compacting = true;
    made.live_state.compaction = compaction;
  };
  const StopSignal stop(StopSignal::Clock::now() + std::chrono::milliseconds(200));
  EXPECT_EQ(run.Bootstrap({"a:1"}, &stop).status().code(), absl::StatusCode::kDeadlineExceeded);
  compaction = absl::ResourceExhaustedError("the disk is full");  // the one that runs is another attempt
  EXPECT_EQ(run.Bootstrap({"a:1"}).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(BootstrapTest, ASecondBootstrapOfTheNameIsRefused) {
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  absl::Status second;
  run.on_assemble = [&](const auto&, const auto&) {
    second = run.Bootstrap({"a:1"}).status();
    return absl::OkStatus();
  };
  EXPECT_TRUE(run.Bootstrap({"a:1"}).ok());
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr("being bootstrapped already"));
}

TEST_F(BootstrapTest, AServerThatStopsEndsIt) {
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  run.sources["a:1"].blocks_before = 2;
  std::thread stopper([&] {
    while (NamesIn(root_).empty()) std::this_thread::yield();
    run.admin.StopBootstraps();
  });
  EXPECT_EQ(run.Bootstrap({"a:1"}).status().code(), absl::StatusCode::kUnavailable);
  stopper.join();
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

// Copies the root folder at several moments of a bootstrap. A server that starts with such a copy must serve the old
// collection or the new one, and remove the rest.
TEST_F(BootstrapTest, ACrashAtAnyMomentLeavesOneOfTheCopies) {
  std::vector<std::string> crashes;
  const auto crash = [&] {
    crashes.push_back(folder_ / absl::StrCat("crash-", crashes.size()));
    std::filesystem::copy(root_, crashes.back(), std::filesystem::copy_options::recursive);
  };
  {
    ServerRun run({root_});
    run.EnableBootstrap(folder_ / "peer");
    Create(run);
    run.sources["a:1"].on_message = [&](size_t idx) {
      if (idx < 4) crash();
    };
    run.on_assemble = [&](const auto&, const auto&) {
      crash();
      return absl::OkStatus();
    };
    run.on_open = [&](const std::string&, const test::FakeLiveDocuments&) { crash(); };
    // The earlier collection takes no writes any more: the new one is in the list.
    run.live[root_ + "/docs"].lock()->on_stop = crash;
    ASSERT_TRUE(run.Bootstrap({"a:1"}).ok());
    crash();
  }
  ASSERT_EQ(crashes.size(), 8u);
  size_t num_new = 0;
  for (const std::string& copy : crashes) {
    std::filesystem::remove_all(root_);
    std::filesystem::rename(copy, root_);
    ServerRun run({root_});
    run.Start();
    ASSERT_TRUE(run.store.Find("docs").ok()) << copy;
    const bool is_new = run.NumDocuments() == 20;
    num_new += is_new ? 1 : 0;
    EXPECT_THAT(NamesIn(root_), UnorderedElementsAre(is_new ? "docs.1" : "docs", kCreatedCollectionsName)) << copy;
  }
  EXPECT_EQ(num_new, 2u);
}

}  // namespace
}  // namespace maxsim::service
