// A server that creates the collections that others have created.
#include "server/live/shared/collection_learner.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/live/shared/layout_value.h"
#include "server/live/shared/settings_value.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/live/fake_keys.h"

namespace maxsim::live {
namespace {

using collection::SlotLayout;
using collection::SlotRange;
using store::SharedSettings;
using testing::HasSubstr;

SharedSettings SharedBy(const std::string& group, bool is_partitioned = false) {
  SharedSettings settings;
  settings.options = {.name = "docs", .dim = 96};
  settings.is_partitioned = is_partitioned;
  settings.group = group;
  return settings;
}

const SlotRange kAllSlots;
const SlotRange kFirstHalf{.first = 0, .end = 2048};
const SlotRange kSecondHalf{.first = 2048, .end = 4096};
const SlotLayout kTwoHalves{.revision = 7, .owners = {{"g0", 0, 2048}, {"g1", 2048, 4096}}};
const SlotLayout kOneGroup{.revision = 8, .owners = {{"g0", 0, 4096}}};

void ExpectSlots(const absl::StatusOr<SlotRange>& slots, const SlotRange& expected) {
  ASSERT_TRUE(slots.ok()) << slots.status();
  EXPECT_EQ(*slots, expected);
}

void ExpectUnknown(const absl::StatusOr<SlotRange>& slots, const std::string& reason) {
  EXPECT_TRUE(absl::IsFailedPrecondition(slots.status())) << slots.status();
  EXPECT_THAT(std::string(slots.status().message()), HasSubstr(reason));
}

TEST(SlotsOfServerTest, ALayoutDecidesForAServerThatKnowsItsGroup) {
  ExpectSlots(SlotsOfServer(SharedBy("g0", true), &kTwoHalves, {.group = "g1"}), kSecondHalf);
  // cluster.partition says what the server had at the beginning.
  ExpectSlots(SlotsOfServer(SharedBy("g0", true), &kTwoHalves, {.group = "g1", .partition = kFirstHalf}), kSecondHalf);
  const auto none = SlotsOfServer(SharedBy("g0", true), &kTwoHalves, {.group = "g2"});
  EXPECT_TRUE(absl::IsNotFound(none.status())) << none.status();
}

TEST(SlotsOfServerTest, WithoutAGroupTheLayoutMustHaveExactlyTheConfiguredSlots) {
  ExpectSlots(SlotsOfServer(SharedBy(""), &kTwoHalves, {.partition = kFirstHalf}), kFirstHalf);
  ExpectSlots(SlotsOfServer(SharedBy(""), &kOneGroup, {}), kAllSlots);
  ExpectUnknown(SlotsOfServer(SharedBy(""), &kTwoHalves, {}), "set cluster.group");
  ExpectUnknown(SlotsOfServer(SharedBy(""), &kTwoHalves, {.partition = SlotRange{.first = 0, .end = 2047}}),
                "no group has slots 0 .. 2046 in the layout of revision 7");
}

TEST(SlotsOfServerTest, WithoutALayoutThePartitionDecides) {
  ExpectSlots(SlotsOfServer(SharedBy("", true), nullptr, {.partition = kFirstHalf}), kFirstHalf);
  ExpectSlots(SlotsOfServer(SharedBy("g0", true), nullptr, {.group = "g1", .partition = kFirstHalf}), kFirstHalf);
  ExpectUnknown(SlotsOfServer(SharedBy("g0", true), nullptr, {.group = "g0"}),
                "cluster.partition to the slots of this server");
}

TEST(SlotsOfServerTest, AWholeCollectionIsForServersOfTheSameGroup) {
  ExpectSlots(SlotsOfServer(SharedBy(""), nullptr, {}), kAllSlots);
  ExpectSlots(SlotsOfServer(SharedBy("g0"), nullptr, {.group = "g0"}), kAllSlots);
  ExpectUnknown(SlotsOfServer(SharedBy("g0"), nullptr, {.group = "g1"}), "need the same cluster.group");
  ExpectUnknown(SlotsOfServer(SharedBy("g0"), nullptr, {}), "need the same cluster.group");
}

class CollectionLearnerTest : public testing::Test {
 protected:
  // Starts a learner that notes which collections it is to create.
  void Start(OwnSlots own = {}, absl::Duration retry_wait = absl::Milliseconds(1)) {
    learner_ = std::make_unique<CollectionLearner>(&shared_, &layouts_,
                                                   CollectionLearner::Options{.own = std::move(own),
                                                                              .poll_interval = absl::Milliseconds(1),
                                                                              .retry_wait = retry_wait,
                                                                              .max_retry_wait = retry_wait,
                                                                              .on_removed =
                                                                                  [this](const std::string& name) {
                                                                                    const MutexLock lock(&mutex_);
                                                                                    removed_.push_back(name);
                                                                                  }},
                                                   [this](const SharedSettings& settings, const SlotRange& slots) {
                                                     if (on_create_ != nullptr) on_create_();
                                                     const MutexLock lock(&mutex_);
                                                     ++num_calls_;
                                                     if (status_.ok()) created_[settings.options.name] = slots;
                                                     return status_;
                                                   });
    const absl::Status status = learner_->Start();
    ASSERT_TRUE(status.ok()) << status;
  }
  void Share(const std::string& name, const SharedSettings& settings = SharedBy("")) {
    server_.Write(SettingsKeyOf(name), FormatSettingsValue(settings));
  }
  std::optional<SlotRange> CreatedSlots(const std::string& name) {
    const MutexLock lock(&mutex_);
    const auto found = created_.find(name);
    return found == created_.end() ? std::nullopt : std::optional(found->second);
  }
  bool IsCreated(const std::string& name) {
    return test::Eventually([&] { return CreatedSlots(name).has_value(); });
  }
  int num_calls() {
    const MutexLock lock(&mutex_);
    return num_calls_;
  }
  void SetStatus(const absl::Status& status) {
    const MutexLock lock(&mutex_);
    status_ = status;
  }

  FakeKeyServer server_;
  // `shared_` uses the store of `layouts_`, which is destroyed first.
  std::unique_ptr<KeyValueStore> connection_ = server_.Connect();
  KeyValueStore* const keys_ = connection_.get();
  SharedCollections shared_{keys_, {}};
  Layouts layouts_{std::move(connection_)};

  Mutex mutex_;
  std::map<std::string, SlotRange> created_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> removed_ ABSL_GUARDED_BY(mutex_);
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_create_;             // called on the learner's thread; set it before Start
  std::unique_ptr<CollectionLearner> learner_;  // destroyed first
};

TEST_F(CollectionLearnerTest, CreatesWhatIsThereAndWhatComes) {
  Share("docs");
  Start();
  EXPECT_TRUE(IsCreated("docs"));
  Share("cor.pus");
  EXPECT_TRUE(IsCreated("cor.pus"));
  EXPECT_EQ(*CreatedSlots("cor.pus"), kAllSlots);
}

TEST_F(CollectionLearnerTest, CreatesTheSlotsOfTheGroupInTheLayout) {
  server_.Write(LayoutKeyOf("docs"), FormatLayoutValue(kTwoHalves.owners));
  Share("docs", SharedBy("g0", true));
  Start({.group = "g1"});
  ASSERT_TRUE(IsCreated("docs"));
  EXPECT_EQ(*CreatedSlots("docs"), kSecondHalf);
}

TEST_F(CollectionLearnerTest, AGroupWithoutSlotsGetsTheCollectionOnceTheLayoutGivesItSome) {
  server_.Write(LayoutKeyOf("docs"), FormatLayoutValue(kOneGroup.owners));
  Share("docs");
  Share("marker", SharedBy("g1"));
  Start({.group = "g1"}, absl::Hours(1));
  ASSERT_TRUE(IsCreated("marker"));  // so "docs", which comes before it, was looked at
  EXPECT_FALSE(CreatedSlots("docs").has_value());
  server_.Write(LayoutKeyOf("docs"), FormatLayoutValue(kTwoHalves.owners));
  ASSERT_TRUE(IsCreated("docs"));
  EXPECT_EQ(*CreatedSlots("docs"), kSecondHalf);
}

TEST_F(CollectionLearnerTest, AnUnreadableLayoutIsNotTakenForNone) {
  const std::string of_later_version = R"({"format_version": 2, "owners": []})";
  server_.Write(LayoutKeyOf("docs"), of_later_version);
  Share("docs", SharedBy("g0"));
  Share("marker", SharedBy("g0"));
  Start({.group = "g0"}, absl::Hours(1));
  ASSERT_TRUE(IsCreated("marker"));  // so "docs", which comes before it, was looked at
  EXPECT_FALSE(CreatedSlots("docs").has_value());
  server_.Write(LayoutKeyOf("docs"), FormatLayoutValue(kTwoHalves.owners));
  ASSERT_TRUE(IsCreated("docs"));
  EXPECT_EQ(*CreatedSlots("docs"), kFirstHalf);
}

TEST_F(CollectionLearnerTest, ACreationThatFailsIsTriedAgain) {
  SetStatus(absl::ResourceExhaustedError("the disk is full"));
  Share("docs");
  Start();
  ASSERT_TRUE(test::Eventually([&] { return num_calls() >= 3; }));
  EXPECT_FALSE(CreatedSlots("docs").has_value());
  SetStatus(absl::OkStatus());
  EXPECT_TRUE(IsCreated("docs"));
}

TEST_F(CollectionLearnerTest, AfterALongAttemptTheWaitIsAtLeastAsLong) {
  SetStatus(absl::ResourceExhaustedError("the collection does not fit into the memory"));
  Share("docs");
  std::vector<std::pair<absl::Time, absl::Time>> attempts;  // when each began and ended
  on_create_ = [&] {
    const absl::Time begin = MonotonicNow();
    if (attempts.empty()) absl::SleepFor(absl::Milliseconds(300));
    attempts.emplace_back(begin, MonotonicNow());
  };
  Start({}, absl::Milliseconds(1));
  EXPECT_TRUE(test::Eventually([&] { return num_calls() >= 2; }));
  learner_.reset();  // ends the thread, which writes to `attempts`
  ASSERT_GE(attempts.size(), 2u);
  const auto& [begin, end] = attempts[0];
  EXPECT_GE(attempts[1].first - end, end - begin);
}

TEST_F(CollectionLearnerTest, ACreationThatFailsIsNotTriedAgainBeforeTheWait) {
  SetStatus(absl::ResourceExhaustedError("the disk is full"));
  Share("docs");
  Start({}, absl::Hours(1));
  ASSERT_TRUE(test::Eventually([&] { return num_calls() == 1; }));
  SetStatus(absl::OkStatus());
  Share("marker");
  ASSERT_TRUE(IsCreated("marker"));
  EXPECT_FALSE(CreatedSlots("docs").has_value());
}

TEST_F(CollectionLearnerTest, SaysThatACollectionThatCouldNotBeCreatedIsNoLongerShared) {
  SetStatus(absl::ResourceExhaustedError("the disk is full"));
  Share("docs");
  Start({}, absl::Hours(1));
  ASSERT_TRUE(test::Eventually([&] { return num_calls() == 1; }));
  server_.Remove(SettingsKeyOf("docs"));
  EXPECT_TRUE(test::Eventually([&] {
    const MutexLock lock(&mutex_);
    return removed_ == std::vector<std::string>{"docs"};
  }));
}

TEST_F(CollectionLearnerTest, AnUnloadedCollectionIsNotCreatedAgain) {
  shared_.Follow();
  Share("docs");
  shared_.NoteUnloaded("docs");
  Share("marker");
  Start();
  ASSERT_TRUE(IsCreated("marker"));
  EXPECT_FALSE(CreatedSlots("docs").has_value());
  server_.Remove(SettingsKeyOf("docs"));
  Share("docs");
  EXPECT_TRUE(IsCreated("docs"));
}

TEST_F(CollectionLearnerTest, EndsWithoutAStore) {
  server_.SetStatus(absl::UnavailableError("the fake keys do not answer"));
  Share("docs");
  Start();
  learner_->RequestStop();
  learner_.reset();
  EXPECT_EQ(num_calls(), 0);
}

}  // namespace
}  // namespace maxsim::live
