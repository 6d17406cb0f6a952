// A GroupsWatcher's thread repeatedly reads the list of groups and looks up their addresses. Tests what a caller gets
// that takes the result only after several rounds.
#include "server/cluster/groups/groups_watcher.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;

using Addresses = absl::StatusOr<std::vector<std::string>>;
using List = absl::StatusOr<std::vector<GroupOptions>>;

// Runs rounds in which the list and the look-up of addresses give these results. Returns what a caller takes after the
// last one.
std::optional<absl::StatusOr<std::vector<ResolvedGroup>>> TakeAfter(std::vector<std::pair<List, Addresses>> rounds) {
  struct Script {
    explicit Script(std::vector<std::pair<List, Addresses>> results)
        : rounds(std::move(results)), rounds_left(static_cast<int>(rounds.size())) {}
    const std::pair<List, Addresses>& current() const { return rounds[std::min(round, rounds.size() - 1)]; }

    const std::vector<std::pair<List, Addresses>> rounds;
    absl::BlockingCounter rounds_left;
    size_t round = 0;  // of the watcher's thread
  };
  // The watcher's thread may outlive the watcher, so it shares ownership of the script.
  auto script = std::make_shared<Script>(std::move(rounds));
  GroupsWatcher watcher([script] { return script->current().first; },
                        [script](const std::string&) { return script->current().second; }, absl::Milliseconds(1),
                        [script] {
                          if (script->round++ < script->rounds.size()) script->rounds_left.DecrementCount();
                        });
  script->rounds_left.Wait();
  return watcher.Take();
}

const List kList = std::vector<GroupOptions>{{.name = "g", .targets = {"dns:///a:1"}}};
const Addresses kAway = absl::UnavailableError("no name server");

TEST(GroupsWatcherTest, TheNewestAddressesAreTaken) {
  const auto taken = TakeAfter({{kList, Addresses({"1.1.1.1:1"})}, {kList, Addresses({"2.2.2.2:1"})}});
  ASSERT_TRUE(taken.has_value() && taken->ok());
  EXPECT_THAT(*(**taken)[0].targets[0].addresses, ElementsAre("2.2.2.2:1"));
}

TEST(GroupsWatcherTest, AFailedLookUpDoesNotHideOneThatNobodyHasTaken) {
  const auto taken = TakeAfter({{kList, Addresses({"1.1.1.1:1"})}, {kList, kAway}, {kList, kAway}});
  ASSERT_TRUE(taken.has_value() && taken->ok());
  ASSERT_TRUE((**taken)[0].targets[0].addresses.ok());
  EXPECT_THAT(*(**taken)[0].targets[0].addresses, ElementsAre("1.1.1.1:1"));
}

TEST(GroupsWatcherTest, AListThatCannotBeReadDoesNotHideOneThatNobodyHasTaken) {
  const List unreadable = absl::NotFoundError("no such file");
  const auto taken = TakeAfter({{kList, Addresses({"1.1.1.1:1"})}, {unreadable, kAway}});
  ASSERT_TRUE(taken.has_value() && taken->ok());
  EXPECT_THAT(*(**taken)[0].targets[0].addresses, ElementsAre("1.1.1.1:1"));
  EXPECT_FALSE(TakeAfter({{unreadable, kAway}, {unreadable, kAway}})->ok());
}

}  // namespace
}  // namespace maxsim::cluster
