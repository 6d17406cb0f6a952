// Tests that a bootstrap (copying a collection from other servers) and a creation of the same name do not disturb each
// other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "server/service/creation/created_collections.h"
#include "server/store/shared_settings.h"
#include "tests/unit/server/service/bootstrap/admin_fixture.h"

namespace maxsim::service {
namespace {

using testing::UnorderedElementsAre;

// Accepts all settings, and calls a function when a creation claims them.
class ClaimHook final : public store::SettingsRegistry {
 public:
  explicit ClaimHook(std::function<void()> on_claim) : on_claim_(std::move(on_claim)) {}
  absl::Status Check(const store::SharedSettings&) const override { return absl::OkStatus(); }
  absl::StatusOr<bool> Claim(const store::SharedSettings&) override {
    on_claim_();
    return true;
  }
  absl::Status Remove(const std::string&) override { return absl::OkStatus(); }
  bool MayCreate(const std::string&) const override { return true; }
  bool IsUnused(const std::string&) const override { return false; }
  void NoteUnloaded(const std::string&) override {}

 private:
  const std::function<void()> on_claim_;
};

class BootstrapCreationTest : public testing::Test {
 protected:
  BootstrapCreationTest() {
    std::filesystem::create_directory(root_);
    MakeLive(folder_ / "peer", 20);
  }
  static absl::Status Create(ServerRun& run) {
    v1::CreateCollectionRequest request;
    request.set_name("docs");
    request.set_dim(16);
    return run.admin.CreateForClient(request, {}).status();
  }
  // Expects that the bootstrapped collection is in the list, so that a restart serves it.
  void ExpectListed() {
    EXPECT_THAT(NamesIn(root_), UnorderedElementsAre("docs.1", kCreatedCollectionsName));
    const auto list = CreatedCollections().List(root_);
    ASSERT_TRUE(list.ok()) << list.status();
    ASSERT_EQ(list->size(), 1u);
    EXPECT_EQ(list->front().path, root_ + "/docs.1");
  }

  const test::TemporaryFolder folder_;
  const std::string root_ = folder_ / "root";
};

TEST_F(BootstrapCreationTest, NothingIsCreatedWhileTheCollectionIsBootstrapped) {
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  absl::Status created;
  run.on_assemble = [&](const auto&, const auto&) {
    created = Create(run);
    return absl::OkStatus();
  };
  const auto response = run.Bootstrap({"a:1"});
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(created, absl::FailedPreconditionError("collection docs is being bootstrapped"));
  EXPECT_EQ(run.NumDocuments(), 20u);
  ExpectListed();
}

TEST_F(BootstrapCreationTest, ABootstrapWaitsForARunningCreationAndReplacesItsCollection) {
  ServerRun run({root_});
  run.EnableBootstrap(folder_ / "peer");
  absl::Status bootstrapped = absl::UnknownError("");
  std::thread bootstrap;
  // The running creation holds the name. A bootstrap that did not wait would take the name, and the creation would
  // fail.
  ClaimHook registry([&] {
    bootstrap = std::thread([&] { bootstrapped = run.Bootstrap({"a:1"}).status(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  run.admin.SetRegistry(&registry);
  const absl::Status created = Create(run);
  bootstrap.join();
  EXPECT_TRUE(created.ok()) << created;
  EXPECT_TRUE(bootstrapped.ok()) << bootstrapped;
  EXPECT_EQ(run.NumDocuments(), 20u);
  ExpectListed();
}

TEST(CreatedCollectionsListTest, RemovesAnEntryOnlyIfItHasThePath) {
  const test::TemporaryFolder folder;
  const std::string root = folder.path();
  CreatedCollections list;
  ASSERT_TRUE(list.Add(root, {.name = "docs", .path = root + "/docs.1", .residency = "auto"}).ok());
  EXPECT_TRUE(list.RemoveOf(root, "docs", root + "/docs").ok());
  EXPECT_TRUE(list.RemoveOf(root, "news", root + "/docs.1").ok());
  EXPECT_EQ(list.List(root)->size(), 1u);
  EXPECT_TRUE(list.RemoveOf(root, "docs", root + "/docs.1").ok());
  EXPECT_TRUE(list.List(root)->empty());
}

}  // namespace
}  // namespace maxsim::service
