// Tests how many live collections clients may open.
#include "server/service/live_room.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collection/log/collection_log.h"
#include "server/observability/metrics.h"
#include "server/service/collection_admin.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;

constexpr int kMaxCollections = 3;

class LiveRoomTest : public testing::Test {
 protected:
  LiveRoomTest() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit lowered = {2 * kMaxCollections * collection::kMaxLogDescriptors + 1, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &lowered);
    store_.SetOpenLive([](const store::LiveRequest&) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> {
      return std::make_shared<test::FakeLiveDocuments>();
    });
  }
  ~LiveRoomTest() override { setrlimit(RLIMIT_NOFILE, &before_); }

  absl::Status Create(const std::string& name) {
    v1::CreateCollectionRequest request;
    request.set_name(name);
    request.set_dim(8);
    request.set_storage(v1::DATA_TYPE_F16);
    return admin_.CreateForClient(request, {}).status();
  }

  const test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  store::DeviceSet devices_{{{&backend_, 0}}, store::OnDeviceLoss::kExit};
  store::CollectionStore store_{&devices_, {}};
  Metrics metrics_;
  CollectionAdmin admin_{&store_, &devices_, &metrics_, {folder_.path()}};
  LiveRoom room_{&store_};

 private:
  rlimit before_{};
};

TEST_F(LiveRoomTest, HoldsWhatHalfOfTheDescriptorsAreEnoughFor) {
  for (int idx = 0; idx < kMaxCollections; ++idx) {
    const absl::Status created = Create("c" + std::to_string(idx));
    ASSERT_TRUE(created.ok()) << created;
  }
  const absl::Status refused = Create("d");
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("3 live collections are open or being opened"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("48 of the 289 file descriptors"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "d"));
  ASSERT_TRUE(admin_.Unload("c0", /*remove_settings=*/false, {}).ok());
  EXPECT_TRUE(Create("d").ok());
  v1::LoadCollectionRequest load;
  load.set_name("c0");
  load.set_path(folder_ / "c0");
  load.set_live(true);
  EXPECT_TRUE(absl::IsResourceExhausted(admin_.LoadForClient(load, {}).status()));
  test::BuildCorpus(folder_ / "fixed", test::SmallDocuments(1, 10), {});
  load.set_name("fixed");
  load.set_path(folder_ / "fixed");
  load.set_live(false);
  const absl::Status fixed = admin_.LoadForClient(load, {}).status();
  EXPECT_TRUE(fixed.ok()) << "one without a log needs no place: " << fixed;
}

TEST_F(LiveRoomTest, ConnectionsOfClientsTakeNoPlaces) {
  std::vector<int> connections;
  for (int idx = 0; idx < 200; ++idx) connections.push_back(open("/dev/null", O_RDONLY));
  const absl::Status created = Create("c");
  for (const int descriptor : connections) close(descriptor);
  EXPECT_TRUE(created.ok()) << created;
}

TEST_F(LiveRoomTest, CallsAtTheSameTimeCannotBothTakeTheLastPlace) {
  ASSERT_TRUE(Create("c").ok());
  std::vector<absl::StatusOr<std::unique_ptr<LiveRoom::Place>>> places(16);
  std::vector<std::thread> threads;
  for (size_t idx = 0; idx < places.size(); ++idx) {
    threads.emplace_back([this, idx, &places] { places[idx] = room_.Take("d" + std::to_string(idx)); });
  }
  for (std::thread& thread : threads) thread.join();
  int num_taken = 0;
  for (const auto& place : places) num_taken += place.ok() ? 1 : 0;
  EXPECT_EQ(num_taken, kMaxCollections - 1);
  EXPECT_TRUE(room_.Take("c").ok()) << "it is open already";
  EXPECT_FALSE(room_.Take("e").ok());
  places.clear();
  EXPECT_TRUE(room_.Take("e").ok());
}

}  // namespace
}  // namespace maxsim::service
