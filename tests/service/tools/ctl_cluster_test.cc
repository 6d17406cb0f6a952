// Tests maxsimctl cluster against a router and servers that the test plays.
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/service/tools/fake_cluster.h"
#include "tests/service/tools/run_ctl.h"
#include "tools/maxsimctl/cluster/layouts.h"
#include "tools/maxsimctl/cluster/runner.h"
#include "tools/maxsimctl/maxsimctl.h"

namespace maxsim::ctl {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kHeldByThree[] = "g0a 0-1364, g0b 0-1364, g1a 1365-2729, g1b 1365-2729, g2a 2730-4095, g2b 2730-4095";
constexpr char kHeldByTwo[] = "g0a 0-2047, g0b 0-2047, g1a 2048-4095, g1b 2048-4095";

Outcome RunInCluster(const FakeCluster& cluster, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--server", cluster.router.target(), "cluster"});
  return RunCtl(arguments);
}

// Moves slots without pauses to equal ranges for these groups.
absl::StatusOr<cluster::RunReport> MoveInCluster(const FakeCluster& fake, const std::vector<std::string>& groups,
                                                 std::string& err, absl::Duration patience = absl::Minutes(1)) {
  std::ostringstream out, err_stream;
  const Environment environment{.out = out, .err = err_stream};
  Context context(environment);
  context.options.server = fake.router.target();
  cluster::Servers servers(context, "");
  cluster::RunOptions options;
  options.plan.grace = absl::ZeroDuration();
  options.patience = patience;
  options.poll_interval = absl::Milliseconds(5);
  options.retry_pause = absl::Milliseconds(5);
  absl::StatusOr<cluster::RunReport> report =
      cluster::Runner(servers, context, "notes", options).Move(*cluster::EqualOwners(groups));
  err = err_stream.str();
  return report;
}

TEST(CtlClusterTest, TheLayoutIsShownWithWhatServersHold) {
  FakeCluster cluster(3, 2);
  Outcome run = RunInCluster(cluster, {"layout", "notes"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_THAT(run.out, StartsWith("no layout was set: each group answers for the slots that it holds\n\n"
                                  "group  slots      number\n"
                                  "g0     0-2047      2,048\n"
                                  "g1     2048-4095   2,048\n\n"
                                  "group  server"));
  EXPECT_THAT(run.out, ContainsRegex("g1 +127.0.0.1:[0-9]+ +2048-4095 +2.00 MiB +1,402 +0 +ready"));
  EXPECT_THAT(run.out, ContainsRegex("g2 +127.0.0.1:[0-9]+ +- +- +- +- +ready, without the collection"));
  run = RunInCluster(cluster, {"layout", "notes", "--json"});
  const json layout = json::parse(run.out);
  EXPECT_EQ(layout["revision"], 0);
  EXPECT_EQ(layout["owners"][1], json::parse(R"({"group": "g1", "slots": {"first_slot": 2048, "end_slot": 4096}})"));
  EXPECT_EQ(layout["groups"][1]["replicas"][0]["slots"]["first_slot"], 2048);
  EXPECT_EQ(layout["groups"][1]["replicas"][0]["bytes"], 2 << 20);
  EXPECT_FALSE(layout["groups"][2]["replicas"][0].contains("slots"));
}

TEST(CtlClusterTest, AGroupIsAddedAndRemoved) {
  FakeCluster cluster(3, 2);
  Outcome run = RunInCluster(cluster, {"add-group", "notes", "g2", "--grace", "0"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_THAT(run.out,
              AllOf(StartsWith("notes, layout 2: g0 0-1364, g1 1365-2729, g2 2730-4095; "), HasSubstr(" fetched in ")));
  EXPECT_THAT(run.err, AllOf(HasSubstr("13 steps, about "), HasSubstr("step 1: set the layout: g0 0-2047"),
                             HasSubstr(" MiB fetched in ")));
  EXPECT_EQ(cluster.Held(), kHeldByThree);
  EXPECT_EQ(cluster.Layout(), "2: g0 0-1364, g1 1365-2729, g2 2730-4095");
  EXPECT_THAT(cluster.Calls(), IsSupersetOf({"layout 1", "bootstrap g1a 1365-4095", "bootstrap g2b 2730-4095",
                                             "layout 2", "bootstrap g0a 0-1364"}));

  run = RunInCluster(cluster, {"add-group", "notes", "g2"});
  EXPECT_EQ(run.out, "nothing to do: the layout is g0 0-1364, g1 1365-2729, g2 2730-4095\n");
  run = RunInCluster(cluster, {"remove-group", "notes", "g2", "--grace", "0", "--json"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(json::parse(run.out)["revision"], 3);
  EXPECT_EQ(json::parse(run.out)["layout"].size(), 2);
  EXPECT_EQ(cluster.Held(), kHeldByTwo);
  EXPECT_THAT(cluster.Calls(), IsSupersetOf({"unload g2a", "unload g2b"}));
}

TEST(CtlClusterTest, SlotsMoveToANeighbour) {
  FakeCluster cluster(2, 2);
  const Outcome run = RunInCluster(cluster, {"move-slots", "notes", "2000-2047", "g0", "g1", "--grace", "0"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(cluster.Held(), "g0a 0-1999, g0b 0-1999, g1a 2000-4095, g1b 2000-4095");
}

TEST(CtlClusterTest, ADryRunChangesNothing) {
  FakeCluster cluster(3, 2);
  Outcome run = RunInCluster(cluster, {"rebalance", "notes", "--groups", "g0,g1,g2", "--dry-run", "--pace", "1MiB"});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_THAT(run.out, ContainsRegex("\n    3  bootstrap 127.0.0.1:[0-9]+ \\(g1\\) with slots 1365-4095 from 127.0.0.1:"
                                     "[0-9]+, 127.0.0.1:[0-9]+, about 4.00 MiB\n"));
  // Three grace periods of 10 s, and 10.7 MiB after each other.
  EXPECT_THAT(run.out, HasSubstr("\n13 steps, 17.33 MiB to move, about 41 s if each server gets 1.00 MiB a second"));
  run = RunInCluster(cluster, {"rebalance", "notes", "--groups", "g0,g1,g2", "--dry-run", "--json"});
  const json plan = json::parse(run.out);
  EXPECT_EQ(plan["steps"].size(), 13);
  EXPECT_EQ(plan["steps"][0]["step"], "set_layout");
  EXPECT_EQ(plan["steps"][2]["sources"][0], cluster.AddressOf("g0a"));
  EXPECT_THAT(cluster.Calls(), IsEmpty());
  EXPECT_EQ(cluster.Layout(), "none");
}

TEST(CtlClusterTest, ARunGoesOnAfterAFailure) {
  FakeCluster cluster(3, 2);
  cluster.FailOnce("bootstrap g1b", {grpc::StatusCode::DATA_LOSS, "a file is damaged"});
  const std::vector<std::string> command = {"add-group", "notes", "g2", "--grace", "0"};
  Outcome run = RunInCluster(cluster, command);
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, AllOf(HasSubstr("the same command goes on from here"),
                             HasSubstr("maxsimctl: DATA_LOSS: " + cluster.AddressOf("g1b") + ": a file is damaged")));
  EXPECT_EQ(cluster.Layout(), "1: g0 0-2047, g1 2048-4095");
  const size_t num_calls = cluster.Calls().size();
  run = RunInCluster(cluster, command);
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_EQ(cluster.Held(), kHeldByThree);
  std::vector<std::string> second = cluster.Calls();
  second.erase(second.begin(), second.begin() + static_cast<std::ptrdiff_t>(num_calls));
  EXPECT_THAT(second, Not(testing::Contains("bootstrap g1a 1365-4095"))) << "it has them already";
}

TEST(CtlClusterTest, StepsThatFailForAMomentAreTriedAgain) {
  FakeCluster cluster(3, 2);
  cluster.FailOnce("bootstrap g1a", {grpc::StatusCode::UNAVAILABLE, "a source is away"});
  cluster.FailOnce("bootstrap g2a", {grpc::StatusCode::RESOURCE_EXHAUSTED, "too many readers"});
  cluster.FailOnce("layout", {grpc::StatusCode::UNAVAILABLE, "NATS is away"});
  std::string err;
  const auto report = MoveInCluster(cluster, {"g0", "g1", "g2"}, err);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->revision, 2);
  EXPECT_EQ(cluster.Held(), kHeldByThree);
  EXPECT_THAT(err, AllOf(HasSubstr("a source is away; trying again"), HasSubstr("too many readers; trying again"),
                         HasSubstr("NATS is away; trying again")));
}

TEST(CtlClusterTest, AnotherCommandsLayoutEndsTheRun) {
  FakeCluster cluster(3, 2);
  cluster.ServerOf("g0a").on_set_layout = [&cluster](const auto& request, auto&) {
    v1::SlotLayout layout;
    layout.set_revision(request.expected_revision() + 1);
    v1::SlotOwner& owner = *layout.add_owners();
    owner.set_group("g1");
    owner.mutable_slots()->set_end_slot(4096);
    cluster.SetLayout(layout);
    return grpc::Status(grpc::StatusCode::ABORTED, "the revision is 1");
  };
  std::string err;
  const auto report = MoveInCluster(cluster, {"g0", "g1", "g2"}, err);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(report.status().message(), HasSubstr("another command has changed the layout meanwhile: revision 1 is g1 "
                                                   "0-4095"));
}

TEST(CtlClusterTest, ARouterThatDoesNotFollowEndsTheRun) {
  FakeCluster cluster(3, 2);
  cluster.FreezeRouter();
  std::string err;
  const auto report = MoveInCluster(cluster, {"g0", "g1", "g2"}, err, absl::Milliseconds(20));
  EXPECT_EQ(report.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(report.status().message(), HasSubstr("in vain: the router uses revision 0"));
  EXPECT_EQ(cluster.Held(), kHeldByTwo) << "no server gets slots before the routers know the layout";
}

TEST(CtlClusterTest, AReplacedServerGetsItsSlots) {
  FakeCluster cluster(2, 2);
  cluster.Empty("g1b");
  const std::string address = cluster.AddressOf("g1b");
  Outcome run = RunInCluster(cluster, {"replace-replica", "notes", address, "--dry-run"});
  EXPECT_THAT(run.out, HasSubstr("bootstrap " + address + " (g1) with slots 2048-4095 from " +
                                 cluster.AddressOf("g1a") + ", about 2.00 MiB"));
  run = RunInCluster(cluster, {"replace-replica", "notes", address});
  EXPECT_EQ(run.code, kExitOk) << run.err;
  EXPECT_THAT(run.out, StartsWith(address + " (g1) answers for slots 2048-4095 of notes; 2.00 MiB fetched in "));
  EXPECT_EQ(cluster.Held(), kHeldByTwo);
  run = RunInCluster(cluster, {"replace-replica", "notes", "10.1.2.3"});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, HasSubstr("no group of the router has a server \"10.1.2.3:7070\""));
}

TEST(CtlClusterTest, ServersGetTheRoutersTokenOrTheirOwn) {
  FakeCluster cluster(2, 2);
  const std::string folder = ::testing::TempDir() + "/ctl_cluster_" + std::to_string(getpid());
  std::ofstream(folder + "_router") << "secret-r\n";
  std::ofstream(folder + "_group") << "secret-g\n";
  EXPECT_EQ(RunInCluster(cluster, {"layout", "notes", "--token-file", folder + "_router"}).code, kExitOk);
  EXPECT_EQ(cluster.router.metadata("authorization"), "Bearer secret-r");
  EXPECT_EQ(cluster.ServerOf("g1b").metadata("authorization"), "Bearer secret-r");
  EXPECT_EQ(RunInCluster(cluster, {"layout", "notes", "--token-file", folder + "_router", "--group-token-file",
                                   folder + "_group"})
                .code,
            kExitOk);
  EXPECT_EQ(cluster.router.metadata("authorization"), "Bearer secret-r");
  EXPECT_EQ(cluster.ServerOf("g1b").metadata("authorization"), "Bearer secret-g");
  EXPECT_THAT(RunInCluster(cluster, {"layout", "notes", "--group-token-file", "/no/file"}).err,
              HasSubstr("--group-token-file: "));
}

TEST(CtlClusterTest, WhatCannotBeDoneIsRefusedFirst) {
  FakeCluster cluster(3, 2);
  struct Case {
    std::vector<std::string> arguments;
    const char* error;
  };
  for (const Case& one : std::vector<Case>{
           {{"rebalance", "notes", "--groups", "g0,g7"},
            "INVALID_ARGUMENT: no group \"g7\"; the router has g0, g1, g2"},
           {{"rebalance", "notes", "--groups", "g0,g0"}, "INVALID_ARGUMENT: --groups: names group \"g0\" twice"},
           {{"rebalance", "letters", "--groups", "g0"}, "NOT_FOUND: no collection 'letters'; the router has notes"},
           {{"add-group", "notes", "g2", "--at", "5"}, "INVALID_ARGUMENT: --at: 5; must be 0 to 2"},
           {{"move-slots", "notes", "0-9", "g0", "g1"}, "possible is a part of 1-2047 that ends with 2047"}}) {
    const Outcome run = RunInCluster(cluster, one.arguments);
    EXPECT_EQ(run.code, kExitFailed) << one.error;
    EXPECT_THAT(run.err, HasSubstr(one.error));
  }
  EXPECT_THAT(cluster.Calls(), IsEmpty());
}

TEST(CtlClusterTest, WrongCommandLinesAreRefused) {
  FakeCluster cluster(2, 2);
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"frob"},
                                             {"layout"},
                                             {"rebalance", "notes"},
                                             {"rebalance", "notes", "--groups", "g0", "--grace", "-1"},
                                             {"rebalance", "notes", "--groups", "g0", "--grace", "nan"},
                                             {"rebalance", "notes", "--groups", "g0", "--pace", "0"},
                                             {"rebalance", "notes", "--groups", "g0", "--pace", "fast"},
                                             {"rebalance", "notes", "--groups", "g0", "--residency", "tape"},
                                             {"move-slots", "notes", "9-3", "g0", "g1"},
                                             {"move-slots", "notes", "0-4096", "g0", "g1"},
                                             {"replace-replica", "notes", "http://a"}}) {
    const Outcome run = RunInCluster(cluster, arguments);
    EXPECT_EQ(run.code, kExitUsage) << ::testing::PrintToString(arguments);
    EXPECT_EQ(run.out, "");
  }
  EXPECT_THAT(RunInCluster(cluster, {"frob"}).err, HasSubstr("cluster has no subcommand \"frob\"; there are layout, "));
  for (const char* command : {"layout", "rebalance", "add-group", "remove-group", "move-slots", "replace-replica"}) {
    EXPECT_THAT(RunInCluster(cluster, {command, "--help"}).out,
                HasSubstr("Example: maxsimctl --server router:7070 cluster "));
  }
}

TEST(CtlClusterTest, OtherServersAndCollectionsAreRefused) {
  test::FakeServer server;
  v1::CollectionInfo& notes = *server.info.add_collections();
  notes.set_name("notes");
  notes.set_state(v1::COLLECTION_STATE_READY);
  const std::vector<std::string> command = {"--server", server.target(), "cluster", "layout", "notes"};
  EXPECT_THAT(RunCtl(command).err, HasSubstr("FAILED_PRECONDITION: --server: the server is not a router"));
  v1::ReplicaInfo& replica = *server.info.add_groups()->add_replicas();
  replica.set_target(server.target());
  notes.mutable_live()->set_log("local");
  EXPECT_THAT(RunCtl(command).err, HasSubstr("are not ordered by a stream (live.log: nats)"));
  notes.mutable_live()->set_log("nats");
  v1::SlotOwner& owner = *notes.mutable_live()->mutable_layout()->add_owners();
  notes.mutable_live()->mutable_layout()->set_revision(1);
  owner.mutable_slots()->set_end_slot(77);
  EXPECT_THAT(RunCtl(command).err, HasSubstr("INTERNAL: the layout ends before slot 77"));
  notes.mutable_live()->clear_layout();
  notes.mutable_partition()->set_first_slot(5000);
  EXPECT_THAT(RunCtl(command).err, HasSubstr("is wrong: slots 5000 up to 0"));
}

TEST(CtlClusterTest, AServerThatDoesNotAnswerIsLeftAloneAndNamed) {
  FakeCluster cluster(2, 2);
  cluster.ServerOf("g1b").on_info = [](auto&) { return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "no token"); };
  Outcome run = RunInCluster(cluster, {"layout", "notes"});
  EXPECT_EQ(run.code, kExitOk);
  EXPECT_THAT(run.err, HasSubstr(cluster.AddressOf("g1b") + " (g1) does not answer maxsimctl: no token"));
  EXPECT_THAT(run.out, ContainsRegex(cluster.AddressOf("g1b") + " +2048-4095"));
  run = RunInCluster(cluster, {"move-slots", "notes", "2000-2047", "g0", "g1"});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, HasSubstr(cluster.AddressOf("g1a") + " is the only server that answers for group g1"));
}

}  // namespace
}  // namespace maxsim::ctl
