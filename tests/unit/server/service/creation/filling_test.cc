// A server fills itself with a collection of the cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/error_details.h"
#include "collection/manifest.h"
#include "server/service/creation/created_collections.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/service/bootstrap/admin_fixture.h"
#include "tests/unit/server/service/creation/fake_registry.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// The fake servers of the group, and a fake object store. Records from which of them documents are fetched.
struct Peers {
  std::map<std::string, uint64_t> sequences;  // by address, of those that answer
  std::vector<std::string> fetched;           // the addresses or URLs from which documents were fetched, in order
  absl::StatusOr<std::string> backup = absl::NotFoundError("there is none");  // the URL of the newest backup
};

// A server whose peers are a:1 and b:1. Both peers send the folder `from`.
struct FillingRun : ServerRun {
  FillingRun(const std::string& root, const std::string& from, FakeRegistry* shared, Peers* peers)
      : ServerRun({root}), registry(shared) {
    admin.SetRegistry(registry);
    max_stall = absl::Milliseconds(50);
    BootstrapOptions options = OptionsWith(from);
    sources["b:1"] = sources["a:1"];
    options.open = [peers, open = options.open](const std::string& address, const std::string& name,
                                                const tracing::SpanParent& span, const StopSignal* stop) {
      peers->fetched.push_back(address);
      return open(address, name, span, stop);
    };
    options.find_backup = [peers](const std::string& name, const StopSignal*) {
      EXPECT_EQ(name, "docs");
      return peers->backup;
    };
    options.fetch_backup = [peers, from](const std::string& url, const FetchRequest& request, const StopSignal*) {
      peers->fetched.push_back(url);
      const std::string folder = request.folder + "/part";
      std::filesystem::copy(from, folder, std::filesystem::copy_options::recursive);
      return FetchedSnapshots{.folders = {folder}, .num_bytes = 1, .last_sequence = 7};
    };
    options.peers = [] { return std::vector<std::string>{"a:1", "b:1"}; };
    options.info = [peers](const std::string& address) -> absl::StatusOr<v1::GetInfoResponse> {
      const auto found = peers->sequences.find(address);
      if (found == peers->sequences.end()) return absl::UnavailableError("connection refused");
      v1::GetInfoResponse response;
      v1::CollectionInfo& info = *response.add_collections();
      info = Beginning("docs").collection();
      info.set_state(v1::COLLECTION_STATE_READY);
      info.mutable_live()->set_sequence(found->second);
      return response;
    };
    admin.SetBootstrap(std::move(options));
    Start();
  }

  absl::Status Fill() { return admin.CreateShared(registry->shared.at("docs"), {}); }
  // Returns what is shown of the collection.
  v1::CollectionInfo Info() const {
    const std::vector<v1::CollectionInfo> all = admin.List();
    return all.empty() ? v1::CollectionInfo() : all.front();
  }
  // Expects that the collection is shown as one that is not there, with a reason.
  void ExpectAwaited(const std::string& reason) {
    EXPECT_EQ(Info().name(), "docs");
    EXPECT_EQ(Info().state(), v1::COLLECTION_STATE_LOADING);
    EXPECT_THAT(Info().error(), HasSubstr(reason));
    const absl::Status found = store.Find("docs").status();
    EXPECT_TRUE(absl::IsUnavailable(found)) << found;
    EXPECT_THAT(std::string(found.message()), HasSubstr(reason));
    admin.UpdateMetrics();
    EXPECT_THAT(metrics.Expose(), HasSubstr("\nmaxsim_collections_awaited 1\n"));
  }

  FakeRegistry* const registry;
};

// A stream that lacks its first messages.
void DropMessages(const std::string&, test::FakeLiveDocuments& made) {
  made.live_state.stream->connected = false;
  made.live_state.status = absl::FailedPreconditionError("the messages between are gone");
}

// A stream with a message that the collection does not apply.
void StayBehind(const std::string&, test::FakeLiveDocuments& made) { made.live_state.stream->last_sequence = 8; }

class FillingTest : public testing::Test {
 protected:
  FillingTest() {
    std::filesystem::create_directory(root_);
    MakeLive(peer_, 20);
    registry_.shared["docs"].options = {.name = "docs", .dim = collection::ReadManifest(peer_)->dim};
  }

  void StopWhileTheStreamBringsDocuments() {
    FillingRun run(root_, peer_, &registry_, &peers_);
    run.on_open = StayBehind;
    std::thread stop([&] {
      EXPECT_TRUE(test::Eventually([&] { return std::filesystem::exists(root_ + "/docs/collection.json"); }));
      run.admin.StopBootstraps();
    });
    const absl::Status status = run.Fill();
    stop.join();
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }

  // Expects that a restarted server serves the collection in this folder.
  void ExpectServedAfterARestart(const std::string& name, uint64_t num_documents) {
    EXPECT_THAT(NamesIn(root_), UnorderedElementsAre(name, kCreatedCollectionsName));
    FillingRun run(root_, peer_, &registry_, &peers_);
    EXPECT_EQ(run.Path(), root_ + "/" + name);
    EXPECT_EQ(run.NumDocuments(), num_documents);
    EXPECT_TRUE(run.Fill().ok());
    EXPECT_EQ(run.Path(), root_ + "/" + name) << "there is nothing left to fill";
  }

  const test::TemporaryFolder folder_;
  const std::string root_ = folder_ / "root";
  const std::string peer_ = folder_ / "peer";
  FakeRegistry registry_;
  Peers peers_;
};

TEST_F(FillingTest, TheServerWithTheMostWritesSendsItsSnapshot) {
  peers_.sequences = {{"a:1", 5}, {"b:1", 7}};
  {
    FillingRun run(root_, peer_, &registry_, &peers_);
    run.on_assemble = [&](const auto&, const auto&) {
      run.ExpectAwaited("fetches a snapshot from b:1");
      return absl::OkStatus();
    };
    const absl::Status status = run.Fill();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(run.NumDocuments(), 20u);
    EXPECT_EQ(run.Info().state(), v1::COLLECTION_STATE_READY);
    EXPECT_THAT(run.Info().error(), IsEmpty());
    run.admin.UpdateMetrics();
    EXPECT_THAT(run.metrics.Expose(), HasSubstr("\nmaxsim_collections_awaited 0\n"));
    EXPECT_THAT(peers_.fetched, ElementsAre("b:1"));
  }
  ExpectServedAfterARestart("docs.1", 20);
}

TEST_F(FillingTest, IfOneServerFailsTheNextOneIsAsked) {
  peers_.sequences = {{"a:1", 5}, {"b:1", 7}};
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.sources["b:1"].end = absl::ResourceExhaustedError("it is busy");
  run.sources["b:1"].messages.resize(1);
  const absl::Status status = run.Fill();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(peers_.fetched, ElementsAre("b:1", "a:1"));
  EXPECT_EQ(run.NumDocuments(), 20u);
}

TEST_F(FillingTest, AServerThatSaysItHasMoreThanTheStreamIsGivenUp) {
  peers_.sequences = {{"a:1", 5}, {"b:1", 1'000'000}};
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.sources["b:1"].messages[0].mutable_begin()->set_sequence(1'000'000);
  const absl::Status status = run.Fill();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(peers_.fetched, ElementsAre("b:1", "a:1"));
  EXPECT_THAT(NamesIn(root_), UnorderedElementsAre("docs.1", kCreatedCollectionsName));
}

TEST_F(FillingTest, IfAllServersThatHaveItFailTheyAreTriedAgain) {
  peers_.sequences = {{"a:1", 5}};
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.sources["a:1"].end = absl::ResourceExhaustedError("it is busy");
  run.sources["a:1"].messages.resize(1);
  const absl::Status status = run.Fill();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  run.ExpectAwaited("waits for the next attempt, because: source a:1: it is busy");
  EXPECT_THAT(NamesIn(root_), IsEmpty()) << "the stream has the documents, but fetching them is faster";
  run.sources["a:1"] = run.sources["b:1"];
  EXPECT_TRUE(run.Fill().ok());
  EXPECT_EQ(run.NumDocuments(), 20u);
}

TEST_F(FillingTest, IfNoServerHasItItsStreamBringsTheDocuments) {
  {
    FillingRun run(root_, peer_, &registry_, &peers_);
    // A server that has no write of the collection has nothing to send.
    peers_.sequences = {{"b:1", 0}};
    run.on_open = [&](const std::string& path, const test::FakeLiveDocuments&) {
      EXPECT_EQ(path, root_ + "/docs");
      run.ExpectAwaited("applies the messages of its stream");
    };
    const absl::Status status = run.Fill();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_THAT(peers_.fetched, IsEmpty());
    EXPECT_EQ(run.Info().state(), v1::COLLECTION_STATE_READY);
  }
  ExpectServedAfterARestart("docs", 0);
}

TEST_F(FillingTest, IfTheStreamLacksMessagesTheServerWaitsForAnotherOne) {
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.on_open = DropMessages;
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = run.Fill();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    run.ExpectAwaited(
        "the messages between are gone; no server of cluster.peers has it: a:1 does not answer: "
        "connection refused; b:1 does not answer: connection refused");
    EXPECT_THAT(NamesIn(root_), IsEmpty()) << "no part of a collection stays";
    v1::ReloadCollectionRequest reload;
    reload.set_name("docs");
    EXPECT_TRUE(absl::IsUnavailable(run.admin.Reload(reload, {}).status()));
    run.ExpectAwaited("the messages between are gone");
  }
  peers_.sequences = {{"b:1", 7}};
  run.on_open = nullptr;
  const absl::Status status = run.Fill();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(run.NumDocuments(), 20u);
}

TEST_F(FillingTest, ABackupIsFetchedIfNoServerHasTheCollection) {
  peers_.backup = "s3://backups/docs/monday";
  {
    FillingRun run(root_, peer_, &registry_, &peers_);
    run.on_assemble = [&](const auto&, const auto&) {
      run.ExpectAwaited("fetches the backup s3://backups/docs/monday");
      return absl::OkStatus();
    };
    const absl::Status status = run.Fill();
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(run.NumDocuments(), 20u);
    EXPECT_THAT(peers_.fetched, ElementsAre("s3://backups/docs/monday"));
  }
  ExpectServedAfterARestart("docs.1", 20);
}

TEST_F(FillingTest, AServerOfTheGroupIsPreferredToABackup) {
  peers_.backup = "s3://backups/docs/monday";
  peers_.sequences = {{"a:1", 7}};
  FillingRun run(root_, peer_, &registry_, &peers_);
  ASSERT_TRUE(run.Fill().ok());
  EXPECT_THAT(peers_.fetched, ElementsAre("a:1"));
}

TEST_F(FillingTest, ABackupThatIsOfNoUseIsFetchedOnlyOnce) {
  peers_.backup = "s3://backups/docs/monday";
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.on_open = DropMessages;
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = run.Fill();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    run.ExpectAwaited("the newest backup, s3://backups/docs/monday, ");
    EXPECT_THAT(peers_.fetched, ElementsAre("s3://backups/docs/monday"));
    EXPECT_THAT(NamesIn(root_), IsEmpty());
  }
  // A newer one is fetched.
  peers_.backup = "s3://backups/docs/tuesday";
  run.on_open = nullptr;
  EXPECT_TRUE(run.Fill().ok());
  EXPECT_EQ(run.NumDocuments(), 20u);
}

TEST_F(FillingTest, IfObjectStorageDoesNotAnswerTheStreamBringsTheDocuments) {
  peers_.backup = absl::UnavailableError("no answer, 7 times");
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.on_open = DropMessages;
  EXPECT_FALSE(run.Fill().ok());
  run.ExpectAwaited("cluster.backups cannot be searched for a backup of it: no answer, 7 times");
  run.on_open = nullptr;
  EXPECT_TRUE(run.Fill().ok());
  EXPECT_EQ(run.Path(), root_ + "/docs");
}

TEST_F(FillingTest, ASnapshotOfACollectionWithOtherSettingsIsRefused) {
  registry_.shared["docs"].options.dim += 1;
  peers_.sequences = {{"a:1", 7}};
  FillingRun run(root_, peer_, &registry_, &peers_);
  const absl::Status status = run.Fill();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(client::FieldOf(status), "dim");
  run.ExpectAwaited("differs");
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(FillingTest, AServerThatStopsMeanwhileGoesOnAfterItsRestart) {
  StopWhileTheStreamBringsDocuments();
  EXPECT_THAT(NamesIn(root_), ElementsAre("docs")) << "the collection is not listed before it is complete";
  test::WriteFile(root_ + "/docs/applied", "");
  FillingRun run(root_, peer_, &registry_, &peers_);
  EXPECT_THAT(run.Info().name(), IsEmpty()) << "it may lack documents";
  const absl::Status status = run.Fill();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(run.Path(), root_ + "/docs");
  EXPECT_TRUE(std::filesystem::exists(root_ + "/docs/applied")) << "what the first run has applied is used";
}

TEST_F(FillingTest, AnUnfinishedFolderThatLacksMessagesOfTheStreamIsLeftForACopy) {
  StopWhileTheStreamBringsDocuments();
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.on_open = [&](const std::string& path, test::FakeLiveDocuments& made) {
    if (path == root_ + "/docs") DropMessages(path, made);
  };
  const absl::Status refused = run.Fill();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  run.ExpectAwaited("the messages between are gone; no server of cluster.peers has it");
  peers_.sequences = {{"b:1", 7}};
  const absl::Status status = run.Fill();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(run.Path(), root_ + "/docs.1");
  EXPECT_EQ(run.NumDocuments(), 20u);
  EXPECT_TRUE(std::filesystem::exists(root_ + "/docs/collection.json")) << "an operator may need it";
}

TEST_F(FillingTest, WhatWasAppliedIsKeptWhileTheStreamIsAway) {
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.on_open = [](const std::string&, test::FakeLiveDocuments& made) {
    made.live_state.stream->connected = false;
    made.live_state.status = absl::UnavailableError("NATS does not answer");
  };
  EXPECT_TRUE(absl::IsUnavailable(run.Fill()));
  run.ExpectAwaited("NATS does not answer");
  ASSERT_THAT(NamesIn(root_), ElementsAre("docs"));
  test::WriteFile(root_ + "/docs/applied", "");
  run.on_open = nullptr;
  ASSERT_TRUE(run.Fill().ok());
  EXPECT_EQ(run.Path(), root_ + "/docs");
  EXPECT_TRUE(std::filesystem::exists(root_ + "/docs/applied"));
}

TEST_F(FillingTest, ALoadByAClientThatFailsDoesNotEndTheAttempts) {
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.on_open = DropMessages;
  EXPECT_FALSE(run.Fill().ok());
  std::filesystem::create_directory(root_ + "/empty");
  v1::LoadCollectionRequest request;
  request.set_name("docs");
  request.set_path(root_ + "/empty");
  EXPECT_FALSE(run.admin.LoadForClient(request, {}).ok());
  run.on_open = nullptr;
  ASSERT_TRUE(run.Fill().ok());
  EXPECT_EQ(run.Path(), root_ + "/docs");
}

TEST_F(FillingTest, AnUnloadEndsIt) {
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.on_open = StayBehind;
  absl::Status filled = absl::UnknownError("");
  std::thread fill([&] { filled = run.Fill(); });
  EXPECT_TRUE(test::Eventually([&] { return std::filesystem::exists(root_ + "/docs/collection.json"); }));
  const absl::Status status = run.admin.Unload("docs", /*remove_settings=*/false, {});
  fill.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(filled.ok()) << filled;
  EXPECT_THAT(run.Info().name(), IsEmpty());
  EXPECT_THAT(registry_.unloaded, ElementsAre("docs"));
  EXPECT_THAT(NamesIn(root_), IsEmpty());
}

TEST_F(FillingTest, AClientCannotCreateWhatIsAwaited) {
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.on_open = DropMessages;
  EXPECT_FALSE(run.Fill().ok());
  v1::CreateCollectionRequest request;
  request.set_name("docs");
  request.set_dim(static_cast<uint32_t>(registry_.shared["docs"].options.dim));
  const absl::Status status = run.admin.CreateForClient(request, {}).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("waits for its documents"));
  // A bootstrap by an operator fills the server.
  run.on_open = nullptr;
  EXPECT_TRUE(run.Bootstrap({"a:1"}).ok());
  EXPECT_EQ(run.NumDocuments(), 20u);
}

TEST_F(FillingTest, ACollectionThatLeavesTheClusterIsAwaitedNoLonger) {
  FillingRun run(root_, peer_, &registry_, &peers_);
  run.on_open = DropMessages;
  EXPECT_FALSE(run.Fill().ok());
  run.admin.StopAwaiting("docs");
  EXPECT_THAT(run.Info().name(), IsEmpty());
  run.on_open = nullptr;
  ASSERT_TRUE(run.Fill().ok());
  run.admin.StopAwaiting("docs");
  EXPECT_EQ(run.Info().name(), "docs") << "a collection that is served stays";
}

}  // namespace
}  // namespace maxsim::service
