// Tests that the gauges of a live collection show its state, and disappear when it is unloaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/observability/metrics.h"
#include "server/service/collection_admin.h"
#include "server/store/collection/changes.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;
using testing::Not;

// Serves a generation without changes. Its state is what the test says.
class StatedLive final : public store::LiveDocuments {
 public:
  explicit StatedLive(const store::LiveState* state) : state_(state) {}

  void Submit(std::vector<store::Write> writes, const store::WriteCaller&, Done done) override {
    done(absl::UnimplementedError("no writes"));
  }
  absl::Status Compact(const StopSignal* stop, bool* changed) override { return absl::UnimplementedError("compact"); }
  absl::StatusOr<uint64_t> SnapshotTo(const std::string& folder, const StopSignal* stop) override { return 0; }
  store::LiveState state() const override { return *state_; }
  absl::StatusOr<uint64_t> VersionOf(std::string_view id) const override { return 0; }
  absl::StatusOr<uint64_t> VersionOf(int64_t id) const override { return 0; }
  absl::Status ReadBehind(uint64_t, const collection::CollectionLog::Visitor&) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> VersionOfWrite(uint64_t) const override { return 0; }
  absl::StatusOr<collection::Tombstones> TombstonesOf(const collection::Manifest& manifest) const override {
    return collection::Tombstones();
  }
  absl::Status Serve(std::shared_ptr<const store::Generation> generation, Publish publish,
                     const StopSignal* stop) override {
    changes_ = std::make_shared<store::Changes>(std::move(generation));
    publish(changes_->Snapshot(1));
    return absl::OkStatus();
  }
  void Stop() override {}

 private:
  const store::LiveState* const state_;
  std::shared_ptr<store::Changes> changes_;
};

TEST(LiveGaugesTest, AreThoseOfTheStateAndGoWithTheCollection) {
  const test::TemporaryFolder folder;
  test::BuildCorpus(folder.path(), test::SmallDocuments(1, 10), {});
  store::LiveState state;
  state.sequence = 90;
  state.compacted_sequence = 40;
  state.num_changed_documents = 30;
  state.num_deleted_documents = 20;
  state.num_segments = 2;
  state.segment_bytes = 4096;
  state.segment_used_bytes = 1024;
  state.log_bytes = 9000;
  state.is_compacting = true;
  test::FakeBackend backend;
  store::DeviceSet devices({{&backend, 0}}, store::OnDeviceLoss::kExit);
  store::CollectionStore store(&devices, {});
  store.SetOpenLive([&](const store::LiveRequest& request) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> {
    return std::make_shared<StatedLive>(&state);
  });
  Metrics metrics;
  CollectionAdmin admin(&store, &devices, &metrics, {});
  const auto load = [&](const std::string& name, bool live) {
    return store
        .Load(name, folder.path(), store::Residency::kAuto, store::Replication::kAuto, "", /*stop=*/nullptr, live)
        .status();
  };
  ASSERT_TRUE(load("news", /*live=*/true).ok());
  ASSERT_TRUE(load("docs", /*live=*/false).ok());
  admin.UpdateMetrics();
  std::string exposed = metrics.Expose();
  for (const char* line : {"sequence{collection=\"news\"} 90\n", "compacted_sequence{collection=\"news\"} 40\n",
                           "changed_documents{collection=\"news\"} 30\n", "deleted_documents{collection=\"news\"} 20\n",
                           "segments{collection=\"news\"} 2\n", "segment_bytes{collection=\"news\"} 4096\n",
                           "segment_used_bytes{collection=\"news\"} 1024\n", "log_bytes{collection=\"news\"} 9000\n",
                           "accepts_writes{collection=\"news\"} 1\n", "compacting{collection=\"news\"} 1\n"}) {
    EXPECT_THAT(exposed, HasSubstr("\nmaxsim_live_" + std::string(line)));
  }
  EXPECT_THAT(exposed, Not(HasSubstr("maxsim_live_sequence{collection=\"docs\"}"))) << "it is not live";

  state.status = absl::ResourceExhaustedError("the disk is full");
  admin.UpdateMetrics();
  EXPECT_THAT(metrics.Expose(), HasSubstr("\nmaxsim_live_accepts_writes{collection=\"news\"} 0\n"));

  ASSERT_TRUE(admin.Unload("news", /*remove_settings=*/false, {}).ok());
  exposed = metrics.Expose();
  EXPECT_THAT(exposed, Not(HasSubstr("\"news\"")));
  EXPECT_THAT(exposed, HasSubstr("maxsim_collection_documents{collection=\"docs\"}"));
}

}  // namespace
}  // namespace maxsim::service
