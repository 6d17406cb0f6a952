// Sets layouts of collections, and shows them.
#include <memory>
#include <string>
#include <vector>

#include "client/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/observability/metrics.h"
#include "server/service/collection_admin.h"
#include "server/service/layout/layout_message.h"
#include "server/service/request/info.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;

v1::SetLayoutRequest RequestOf(const std::vector<collection::SlotOwner>& owners, uint64_t expected_revision = 0) {
  v1::SetLayoutRequest request;
  request.set_name("news");
  request.set_expected_revision(expected_revision);
  *request.mutable_owners() = ToProto(collection::SlotLayout{.revision = 1, .owners = owners}).owners();
  return request;
}

// A server with the live collection "news" and the collection "docs".
class SetLayoutTest : public testing::Test {
 protected:
  SetLayoutTest() {
    test::BuildCorpus(folder_.path(), test::SmallDocuments(1, 10), {});
    store_.SetOpenLive(
        [this](const store::LiveRequest&) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> { return live_; });
    for (const bool live : {true, false}) {
      const auto loaded = store_.Load(live ? "news" : "docs", folder_.path(), store::Residency::kAuto,
                                      store::Replication::kAuto, "", /*stop=*/nullptr, live);
      EXPECT_TRUE(loaded.ok()) << loaded.status();
    }
  }

  const test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  store::DeviceSet devices_{{{&backend_, 0}}, store::OnDeviceLoss::kExit};
  store::CollectionStore store_{&devices_, {}};
  Metrics metrics_;
  CollectionAdmin admin_{&store_, &devices_, &metrics_, {}};
  // Declared after the store, whose memory its generation uses.
  const std::shared_ptr<test::FakeLiveDocuments> live_ = std::make_shared<test::FakeLiveDocuments>();
};

TEST_F(SetLayoutTest, AValidLayoutGoesToTheCollection) {
  const auto layout = admin_.SetLayout(RequestOf({{"g0", 0, 7}, {"g1", 7, 4096}}, 41), {});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->revision(), 42u);
  ASSERT_EQ(layout->owners_size(), 2);
  EXPECT_EQ(layout->owners(1).group(), "g1");
  EXPECT_EQ(layout->owners(1).slots().first_slot(), 7u);
  EXPECT_EQ(layout->owners(1).slots().end_slot(), 4096u);
  ASSERT_NE(live_->live_state.layout, nullptr);
  EXPECT_EQ(live_->live_state.layout->owners, (std::vector<collection::SlotOwner>{{"g0", 0, 7}, {"g1", 7, 4096}}));
}

TEST_F(SetLayoutTest, AnInvalidLayoutIsRefusedWithTheField) {
  absl::Status status = admin_.SetLayout(RequestOf({{"g0", 0, 7}, {"g1", 8, 4096}}), {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(client::FieldOf(status), "owners[1].slots.first_slot");
  EXPECT_EQ(client::ReasonOf(status), client::kReasonInvalidField);
  status = admin_.SetLayout(RequestOf({{"g0", 0, 5000}}), {}).status();
  EXPECT_EQ(client::FieldOf(status), "owners[0].slots.end_slot");
  EXPECT_EQ(client::ReasonOf(status), client::kReasonLimitExceeded);
  EXPECT_EQ(client::LimitOf(status), 4096u);
  status = admin_.SetLayout(RequestOf({}), {}).status();
  EXPECT_EQ(client::FieldOf(status), "owners");
  EXPECT_EQ(client::LimitOf(status), collection::kMaxSlotOwners);
  v1::SetLayoutRequest without_slots = RequestOf({{"g0", 0, 4096}});
  without_slots.mutable_owners(0)->clear_slots();
  EXPECT_EQ(client::FieldOf(admin_.SetLayout(without_slots, {}).status()), "owners[0].slots.end_slot");
  EXPECT_EQ(live_->live_state.layout, nullptr);
}

TEST_F(SetLayoutTest, OnlyALiveCollectionOfAStreamHasALayout) {
  v1::SetLayoutRequest request = RequestOf({{"g0", 0, 4096}});
  request.set_name("nothing");
  EXPECT_TRUE(absl::IsNotFound(admin_.SetLayout(request, {}).status()));
  request.set_name("docs");
  EXPECT_TRUE(absl::IsFailedPrecondition(admin_.SetLayout(request, {}).status())) << "it is not live";
  live_->has_stream = false;
  request.set_name("news");
  const absl::Status status = admin_.SetLayout(request, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("collection news: no stream orders its writes"));
}

TEST_F(SetLayoutTest, InfoShowsTheLayoutIfThereIsOne) {
  EXPECT_FALSE(ToProto(live_->live_state).has_layout());
  ASSERT_TRUE(admin_.SetLayout(RequestOf({{"g0", 0, 4096}}, 8), {}).ok());
  const v1::LiveInfo info = ToProto(live_->live_state);
  ASSERT_TRUE(info.has_layout());
  EXPECT_EQ(info.layout().revision(), 9u);
  EXPECT_EQ(info.layout().owners(0).group(), "g0");
}

}  // namespace
}  // namespace maxsim::service
