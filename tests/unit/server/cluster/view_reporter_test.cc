#include "server/cluster/groups/view_reporter.h"

#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/observability/logging.h"
#include "server/observability/metrics.h"
#include "spdlog/sinks/ostream_sink.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;
using testing::Not;

class ViewReporterTest : public testing::Test {
 protected:
  ViewReporterTest() : logger_before_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_)));
    spdlog::default_logger()->set_formatter(log::TextFormatter());
  }
  ~ViewReporterTest() override { spdlog::set_default_logger(logger_before_); }

  // Reports the state of the groups at `seconds` after the start. Returns the lines that the report logs.
  std::string Report(double seconds) {
    lines_.str("");
    view_ = View::Of(groups_, view_.get());
    reporter_.Report(*view_, absl::UnixEpoch() + absl::Seconds(1) * seconds);
    return lines_.str();
  }

  void SayOf(size_t group, uint64_t generation) {
    Say(*groups_[group]->replicas()[0],
        {InfoOf("c", generation, collection::PartitionOf(static_cast<int32_t>(group), 2))});
  }

  const std::shared_ptr<spdlog::logger> logger_before_;
  std::ostringstream lines_;
  Metrics metrics_;
  ViewReporter reporter_{&metrics_.cluster()};
  const std::vector<std::shared_ptr<Group>> groups_ = MakeGroups(2);
  std::shared_ptr<const View> view_;
};

TEST_F(ViewReporterTest, ACollectionThatLacksDocumentsIsLoggedOnceAndWhenItIsWholeAgain) {
  EXPECT_EQ(Report(0), "");
  SayOf(0, 2);
  EXPECT_EQ(Report(1), "");
  EXPECT_EQ(Report(2.9), "") << "a reload may be in progress";
  const std::string logged = Report(3);
  EXPECT_THAT(logged, HasSubstr("collection_is_partial"));
  EXPECT_THAT(logged, HasSubstr("group g1 has generation 1 and not 2"));
  EXPECT_THAT(logged, HasSubstr("replica_left_out"));
  EXPECT_EQ(Report(4), "");
  SayOf(1, 2);
  EXPECT_THAT(Report(5), HasSubstr("collection_is_whole"));
  EXPECT_EQ(Report(6), "");
}

TEST_F(ViewReporterTest, AShortProblemIsNotLogged) {
  SayOf(0, 2);
  EXPECT_EQ(Report(1), "");
  SayOf(1, 2);
  EXPECT_EQ(Report(2), "");
  SayOf(0, 3);
  EXPECT_EQ(Report(3), "") << "this is another problem";
  EXPECT_EQ(Report(4.9), "");
}

TEST_F(ViewReporterTest, ACollectionThatCannotBeServedIsAnError) {
  Say(*groups_[1]->replicas()[0], {InfoOf("c", 1, {1300, 4096})});
  EXPECT_EQ(Report(0), "");
  const std::string logged = Report(2);
  EXPECT_THAT(logged, HasSubstr("collection_not_served"));
  EXPECT_THAT(logged, HasSubstr("both hold slot 1300"));
  EXPECT_THAT(metrics_.Expose(), HasSubstr("maxsim_router_collection_served{collection=\"c\"} 0"));
}

TEST_F(ViewReporterTest, GaugesShowWhatIsMissingAndWhatReplicasHave) {
  SayOf(0, 2);
  Report(0);
  std::string text = metrics_.Expose();
  EXPECT_THAT(text, HasSubstr("maxsim_router_collection_served{collection=\"c\"} 1"));
  EXPECT_THAT(text, HasSubstr("maxsim_router_collection_missing_groups{collection=\"c\"} 1"));
  const std::string labels = "{collection=\"c\",group=\"g1\",replica=\"localhost:2\"}";
  EXPECT_THAT(text, HasSubstr("maxsim_replica_generation" + labels + " 1"));
  EXPECT_THAT(text, HasSubstr("maxsim_replica_left_out" + labels + " 1"));
  v1::CollectionInfo live = InfoOf("d", 1, {});
  live.mutable_live()->set_log(kStreamLog);
  live.mutable_live()->set_sequence(41);
  live.mutable_live()->set_lag(7);
  Say(*groups_[1]->replicas()[0], {live});
  Report(1);
  text = metrics_.Expose();
  const std::string of_live = "{collection=\"d\",group=\"g1\",replica=\"localhost:2\"}";
  EXPECT_THAT(text, HasSubstr("maxsim_replica_sequence" + of_live + " 41"));
  EXPECT_THAT(text, HasSubstr("maxsim_replica_lag_writes" + of_live + " 7"));
  EXPECT_THAT(text, Not(HasSubstr("maxsim_replica_generation" + labels))) << "the replica no longer has it";
  for (const auto& group : groups_) Say(*group->replicas()[0], {});
  Report(2);
  EXPECT_THAT(metrics_.Expose(), Not(HasSubstr("maxsim_router_collection_served{")));
}

TEST_F(ViewReporterTest, AGroupInOneZoneIsLoggedOnceAndAGaugeShowsIt) {
  groups_[0]->SetReplicas({groups_[0]->replicas()[0], MakeReplica("localhost:3")});
  Say(*groups_[0]->replicas()[1], {InfoOf("c", 1, collection::PartitionOf(0, 2))});
  const std::string gauge = "maxsim_group_in_one_zone{group=\"g0\"}";
  EXPECT_EQ(Report(0), "");
  EXPECT_THAT(metrics_.Expose(), HasSubstr(gauge + " 0"));
  SayZone(*groups_[1]->replicas()[0], "b");
  for (const auto& replica : groups_[0]->replicas()) SayZone(*replica, "a");
  EXPECT_EQ(Report(1), "") << "a replica may be about to report another zone";
  EXPECT_THAT(metrics_.Expose(), HasSubstr(gauge + " 1"));
  const std::string logged = Report(3);
  EXPECT_THAT(logged, HasSubstr("group_in_one_zone"));
  EXPECT_THAT(logged, HasSubstr("g0"));
  EXPECT_EQ(Report(4), "");
  SayZone(*groups_[0]->replicas()[1], "b");
  EXPECT_THAT(Report(5), HasSubstr("group_no_longer_in_one_zone"));
  EXPECT_THAT(metrics_.Expose(), HasSubstr(gauge + " 0"));
  EXPECT_EQ(Report(6), "");
  reporter_.Report(*View::Of({groups_[1]}), absl::UnixEpoch() + absl::Seconds(7));
  EXPECT_THAT(metrics_.Expose(), Not(HasSubstr(gauge))) << "the group is gone";
}

}  // namespace
}  // namespace maxsim::cluster
