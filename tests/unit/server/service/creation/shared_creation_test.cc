// Tests that servers share the settings of created collections, and create collections whose settings others have
// shared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "collection/compact/create.h"
#include "collection/manifest.h"
#include "server/observability/metrics.h"
#include "server/service/collection_admin.h"
#include "server/store/collection_store.h"
#include "server/store/shared_settings.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"
#include "tests/unit/server/service/creation/fake_registry.h"

namespace maxsim::service {
namespace {

using collection::SlotRange;
using store::SharedSettings;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const SlotRange kFirstHalf{.first = 0, .end = 2048};

// One run of a server, from its start to its end.
struct SharingRun {
  SharingRun(const std::string& root, FakeRegistry* registry, store::StoreOptions options = {})
      : store(&devices, std::move(options)), admin(&store, &devices, &metrics, {root}) {
    store.SetOpenLive([this](const store::LiveRequest&) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> {
      if (!open_status.ok()) return open_status;
      auto made = std::make_shared<test::FakeLiveDocuments>();
      made->live_state.sequence = 7;
      made->live_state.stream = store::StreamState{.connected = true, .last_sequence = 7};
      return made;
    });
    admin.SetRegistry(registry);
  }
  absl::Status Create(const std::string& name, uint32_t dim = 8, const StopSignal* stop = nullptr) {
    v1::CreateCollectionRequest request;
    request.set_name(name);
    request.set_dim(dim);
    request.set_replicate(true);
    return admin.CreateForClient(request, {.stop = stop}).status();
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const v1::CollectionInfo& info : admin.List()) names.push_back(info.name());
    return names;
  }

  absl::Status open_status;
  test::FakeBackend backend;
  store::DeviceSet devices{{{&backend, 0}}, store::OnDeviceLoss::kExit};
  store::CollectionStore store;
  Metrics metrics;
  CollectionAdmin admin;
};

class SharedCreationTest : public testing::Test {
 protected:
  std::string Root(const std::string& name) {
    std::filesystem::create_directories(folder_ / name);
    return folder_ / name;
  }
  SharedSettings Settings(const std::string& name, int32_t dim = 8) {
    SharedSettings settings;
    settings.options = {.name = name, .dim = dim};
    registry_.shared[name] = settings;
    return settings;
  }

  const test::TemporaryFolder folder_;
  FakeRegistry registry_;
};

TEST_F(SharedCreationTest, ACreatedCollectionIsSharedWithItsSettings) {
  SharingRun run(Root("a"), &registry_, {.partition = kFirstHalf});
  const absl::Status status = run.Create("docs");
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(registry_.shared.count("docs"), 1u);
  const SharedSettings& settings = registry_.shared["docs"];
  EXPECT_EQ(settings.options.dim, 8);
  EXPECT_TRUE(settings.is_partitioned);
  EXPECT_EQ(settings.residency, store::Residency::kAuto);
  EXPECT_TRUE(settings.replicate);
  EXPECT_EQ(registry_.num_removals, 0);
}

TEST_F(SharedCreationTest, OtherSettingsAreRefusedAndNothingIsCreated) {
  SharingRun a(Root("a"), &registry_);
  SharingRun b(Root("b"), &registry_);
  ASSERT_TRUE(a.Create("docs").ok());
  for (SharingRun* const run : {&a, &b}) {
    const absl::Status status = run->Create("docs", 16);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(client::FieldOf(status), "dim");
  }
  EXPECT_THAT(b.Names(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "b/docs"));
  EXPECT_TRUE(b.Create("docs").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(a.Create("docs")));
}

TEST_F(SharedCreationTest, WithoutNatsNothingIsCreated) {
  SharingRun run(Root("a"), &registry_);
  registry_.status = absl::UnavailableError("NATS does not answer");
  EXPECT_TRUE(absl::IsUnavailable(run.Create("docs")));
  EXPECT_THAT(run.Names(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a/docs"));
}

TEST_F(SharedCreationTest, ACollectionThatCannotBeLoadedIsSharedNoLonger) {
  SharingRun a(Root("a"), &registry_);
  a.open_status = absl::ResourceExhaustedError("no room");
  EXPECT_TRUE(absl::IsResourceExhausted(a.Create("docs")));
  EXPECT_THAT(registry_.shared, IsEmpty());
  EXPECT_THAT(registry_.unloaded, IsEmpty()) << "no client has unloaded it";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a/docs"));
  // The settings that another server has shared stay.
  SharingRun b(Root("b"), &registry_);
  ASSERT_TRUE(b.Create("docs").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(a.Create("docs")));
  EXPECT_EQ(registry_.shared.count("docs"), 1u);
}

TEST_F(SharedCreationTest, AServerCreatesASharedCollectionAndLoadsItAgainAfterARestart) {
  const std::string root = Root("a");
  {
    SharingRun run(root, &registry_);
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = run.admin.CreateShared(Settings("docs"), kFirstHalf);
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_THAT(run.Names(), ElementsAre("docs"));
    const auto manifest = collection::ReadManifest(root + "/docs");
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(manifest->dim, 8);
    EXPECT_EQ(manifest->slots(), kFirstHalf);
    EXPECT_THAT(manifest->created_by, HasSubstr("maxsimd"));
  }
  SharingRun run(root, &registry_);
  run.admin.LoadCreated();
  EXPECT_THAT(run.Names(), ElementsAre("docs"));
}

TEST_F(SharedCreationTest, TheLayoutsSlotsMayDifferFromThePartition) {
  SharingRun run(Root("a"), &registry_, {.partition = SlotRange{.first = 2048, .end = 4096}});
  const absl::Status status = run.admin.CreateShared(Settings("docs"), kFirstHalf);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SharedCreationTest, AFolderWithTheCollectionIsLoaded) {
  const std::string root = Root("a");
  ASSERT_TRUE(collection::CreateLiveCollection(root + "/docs", {.name = "docs", .dim = 8}).ok());
  test::WriteFile(root + "/docs/mine", "kept");
  SharingRun run(root, &registry_);
  const absl::Status status = run.admin.CreateShared(Settings("docs"), {});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(run.Names(), ElementsAre("docs"));
  EXPECT_TRUE(std::filesystem::exists(root + "/docs/mine"));
}

TEST_F(SharedCreationTest, AFolderWithAnythingElseIsNotTouched) {
  const std::string root = Root("a");
  ASSERT_TRUE(collection::CreateLiveCollection(root + "/docs", {.name = "docs", .dim = 16}).ok());
  ASSERT_TRUE(collection::CreateLiveCollection(root + "/news", {.name = "news", .dim = 8}).ok());
  std::filesystem::create_directory(folder_ / "elsewhere");
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", root + "/link");
  std::filesystem::create_directory(root + "/mine");
  test::WriteFile(root + "/mine/notes.txt", "kept");
  SharingRun run(root, &registry_);
  absl::Status status = run.admin.CreateShared(Settings("mine"), {});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("holds no collection"));
  EXPECT_TRUE(std::filesystem::exists(root + "/mine/notes.txt"));
  status = run.admin.CreateShared(Settings("docs"), {});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(root + "/docs is in the way of collection docs"));
  status = run.admin.CreateShared(Settings("news"), kFirstHalf);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("it holds all slots, but this server's group has slots 0 .. 2047"));
  status = run.admin.CreateShared(Settings("link"), {});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is a symbolic link"));
  for (const v1::CollectionInfo& info : run.admin.List()) {
    EXPECT_EQ(info.state(), v1::COLLECTION_STATE_LOADING) << info.name();
    EXPECT_THAT(info.error(), HasSubstr(root)) << info.name();
  }
  EXPECT_EQ(collection::ReadManifest(root + "/docs")->dim, 16);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "elsewhere"));
}

TEST_F(SharedCreationTest, AnOldFolderStaysWhenItsCollectionDoesNotLoad) {
  const std::string root = Root("a");
  ASSERT_TRUE(collection::CreateLiveCollection(root + "/docs", {.name = "docs", .dim = 8}).ok());
  SharingRun run(root, &registry_);
  run.open_status = absl::ResourceExhaustedError("no room");
  EXPECT_TRUE(absl::IsResourceExhausted(run.admin.CreateShared(Settings("docs"), {})));
  EXPECT_TRUE(absl::IsResourceExhausted(run.admin.CreateShared(Settings("news"), {})));
  EXPECT_TRUE(std::filesystem::exists(root + "/docs"));
  EXPECT_FALSE(std::filesystem::exists(root + "/news")) << "this folder was new";
  EXPECT_THAT(registry_.unloaded, IsEmpty());
}

TEST_F(SharedCreationTest, AnUnloadRemovesTheSettingsOnlyIfItIsToldTo) {
  SharingRun run(Root("a"), &registry_);
  ASSERT_TRUE(run.Create("docs").ok());
  ASSERT_TRUE(run.Create("news").ok());
  ASSERT_TRUE(run.admin.Unload("docs", /*remove_settings=*/false, {}).ok());
  EXPECT_EQ(registry_.shared.count("docs"), 1u);
  ASSERT_TRUE(run.admin.Unload("news", /*remove_settings=*/true, {}).ok());
  EXPECT_EQ(registry_.shared.count("news"), 0u);
  EXPECT_THAT(registry_.unloaded, ElementsAre("docs", "news"));
  // A server that does not have the collection removes the settings too.
  EXPECT_TRUE(absl::IsNotFound(run.admin.Unload("docs", /*remove_settings=*/true, {})));
  EXPECT_THAT(registry_.shared, IsEmpty());
}

TEST_F(SharedCreationTest, AnUnloadWaitsForNatsButNotForItsPermission) {
  SharingRun run(Root("a"), &registry_);
  ASSERT_TRUE(run.Create("docs").ok());
  registry_.status = absl::UnavailableError("NATS does not answer");
  EXPECT_TRUE(absl::IsUnavailable(run.admin.Unload("docs", /*remove_settings=*/true, {})));
  EXPECT_THAT(run.Names(), ElementsAre("docs"));
  registry_.status = absl::FailedPreconditionError("it is forbidden");
  EXPECT_TRUE(run.admin.Unload("docs", /*remove_settings=*/true, {}).ok());
  EXPECT_THAT(run.Names(), IsEmpty());
}

TEST_F(SharedCreationTest, WithoutNatsAnUnknownNameIsNotFound) {
  SharingRun run(Root("a"), &registry_);
  Settings("shared");
  registry_.status = absl::UnavailableError("NATS does not answer");
  EXPECT_TRUE(absl::IsNotFound(run.admin.Unload("base", /*remove_settings=*/true, {})));
  EXPECT_TRUE(absl::IsUnavailable(run.admin.Unload("shared", /*remove_settings=*/true, {})));
  registry_.has_read = false;
  EXPECT_TRUE(absl::IsUnavailable(run.admin.Unload("base", /*remove_settings=*/true, {})))
      << "other servers may have shared settings under this name";
}

TEST_F(SharedCreationTest, AClientAndTheClusterDoNotCreateOneCollectionTwice) {
  SharingRun run(Root("a"), &registry_);
  absl::Status of_cluster = absl::UnknownError("");
  std::thread learner;
  // While the client's call holds the name, CreateShared waits. It then finds that the collection exists.
  registry_.on_claim = [&] {
    SharedSettings settings;
    settings.options = {.name = "docs", .dim = 8};
    learner = std::thread([&, settings] { of_cluster = run.admin.CreateShared(settings, {}); });
  };
  const absl::Status of_client = run.Create("docs");
  learner.join();
  EXPECT_TRUE(of_client.ok()) << of_client;
  EXPECT_TRUE(of_cluster.ok()) << of_cluster;
  EXPECT_THAT(run.Names(), ElementsAre("docs"));
}

TEST_F(SharedCreationTest, ACollectionThatWasUnloadedMeanwhileIsNotCreated) {
  const std::string root = Root("a");
  ASSERT_TRUE(collection::CreateLiveCollection(root + "/removed", {.name = "removed", .dim = 8}).ok());
  SharingRun run(root, &registry_);
  // The learner has read all these settings.
  const SharedSettings removed = Settings("removed");
  const SharedSettings unloaded = Settings("unloaded");
  const SharedSettings unknown = Settings("unknown");
  EXPECT_TRUE(absl::IsNotFound(run.admin.Unload("removed", /*remove_settings=*/true, {})));
  ASSERT_TRUE(run.Create("unloaded").ok());
  ASSERT_TRUE(run.admin.Unload("unloaded", /*remove_settings=*/false, {}).ok());
  EXPECT_TRUE(absl::IsNotFound(run.admin.Unload("unknown", /*remove_settings=*/false, {})));
  for (const SharedSettings& settings : {removed, unloaded, unknown}) {
    const absl::Status status = run.admin.CreateShared(settings, {});
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_THAT(run.Names(), ElementsAre("unknown")) << "the server did not have it, so it was not unloaded";
  EXPECT_TRUE(std::filesystem::exists(root + "/removed"));
}

TEST_F(SharedCreationTest, AnUnloadWaitsForARunningCreation) {
  SharingRun run(Root("a"), &registry_);
  absl::Status of_unload = absl::UnknownError("");
  std::thread unload;
  // The running Create holds the name. An Unload that did not wait for it would get NOT_FOUND.
  registry_.on_claim = [&] {
    unload = std::thread([&] { of_unload = run.admin.Unload("docs", /*remove_settings=*/false, {}); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  const absl::Status of_create = run.Create("docs");
  unload.join();
  EXPECT_TRUE(of_create.ok()) << of_create;
  EXPECT_TRUE(of_unload.ok()) << of_unload;
  EXPECT_THAT(run.Names(), IsEmpty());
}

TEST_F(SharedCreationTest, ACallWaitsForAnotherCreationOnlyUntilItsDeadline) {
  SharingRun run(Root("a"), &registry_);
  absl::Status of_second;
  registry_.on_claim = [&] {
    const StopSignal stop(StopSignal::Clock::now());
    of_second = run.Create("docs", 8, &stop);
  };
  const absl::Status of_first = run.Create("docs");
  EXPECT_TRUE(of_first.ok()) << of_first;
  EXPECT_TRUE(absl::IsDeadlineExceeded(of_second)) << of_second;
}

}  // namespace
}  // namespace maxsim::service
