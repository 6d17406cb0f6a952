#include "server/cluster/groups/cluster_options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ClusterOptionsTest, AGroupIsANameAndItsTargets) {
  const absl::StatusOr<GroupOptions> group = ParseGroup("g0=a:7070  dns:///b.example:1\t[::1]:65535");
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(group->name, "g0");
  EXPECT_THAT(group->targets, ElementsAre("a:7070", "dns:///b.example:1", "[::1]:65535"));
  EXPECT_EQ(ParseGroup(FormatGroup(*group)).value(), *group);
}

TEST(ClusterOptionsTest, WhatIsNoGroupIsRefusedWithItsText) {
  for (const char* text : {"", "g0", "=a:1", "g 0=a:1", "g0=", "g0=a", "g0=a:0", "g0=a:65536", "g0=:1", "g0=a:x",
                           "g0=dns:///a", "g0=dns:///:1"}) {
    const absl::Status status = ParseGroup(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(std::string(ParseGroup("g0=a:0").status().message()), HasSubstr("\"a:0\""));
  EXPECT_FALSE(ParseGroup(std::string(65, 'g') + "=a:1").ok());
  EXPECT_TRUE(ParseGroup(std::string(64, 'g') + "=a:1").ok());
}

TEST(ClusterOptionsTest, AFileHasAGroupALine) {
  const auto groups = ParseGroups("# the cluster\n\n g0=a:1 b:1\r\ng1=c:1\n", "groups");
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_THAT(*groups, ElementsAre(GroupOptions{"g0", {"a:1", "b:1"}}, GroupOptions{"g1", {"c:1"}}));
}

TEST(ClusterOptionsTest, AWrongFileNamesItsLineOrWhatIsTwiceInIt) {
  EXPECT_THAT(std::string(ParseGroups("g0=a:1\nwrong\n", "groups").status().message()), HasSubstr("groups:2: "));
  EXPECT_THAT(std::string(ParseGroups("# none\n", "groups").status().message()), HasSubstr("has no group"));
  EXPECT_THAT(std::string(ParseGroups("g0=a:1\ng0=b:1", "groups").status().message()),
              HasSubstr("group g0 appears twice"));
  EXPECT_THAT(std::string(ParseGroups("g0=a:1\ng1=a:1", "groups").status().message()),
              HasSubstr("\"a:1\" appears in group g0 and in group g1"));
}

TEST(ClusterOptionsTest, AFileThatCannotBeReadNamesItsKey) {
  ClusterOptions options;
  options.groups_file = "/nowhere/groups";
  const absl::Status status = ReadGroups(options).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cluster.groups_file: "));
}

}  // namespace
}  // namespace maxsim::cluster
