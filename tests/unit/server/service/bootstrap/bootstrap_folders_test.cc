#include "server/service/bootstrap/bootstrap_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/server/service/bootstrap/snapshot_fixture.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class BootstrapFoldersTest : public testing::Test {
 protected:
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(root_.path())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  BootstrapFolders Make(const std::set<std::string>& taken = {}) {
    absl::StatusOr<BootstrapFolders> made = BootstrapFolders::Make(root_.path(), "docs", taken);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  static void Finish(const BootstrapFolders& folders) {
    WriteFiles(folders.unfinished(), {{"collection.json", "{}"}, {"log/CURRENT", "x"}});
  }

  const test::TemporaryFolder root_;
};

TEST_F(BootstrapFoldersTest, NoFolderThatExistsIsUsedAgain) {
  std::filesystem::create_directory(root_ / "docs.1");
  test::WriteFile(root_ / "docs.2", "a file");
  const BootstrapFolders third = Make();
  EXPECT_EQ(third.target(), root_ / "docs.3");
  const BootstrapFolders fourth = Make();
  EXPECT_EQ(fourth.target(), root_ / "docs.4") << "another bootstrap uses docs.3";
  EXPECT_EQ(Make({root_ / "docs.5"}).target(), root_ / "docs.6") << "docs.5 is on the list of created collections";
}

TEST_F(BootstrapFoldersTest, NothingIsLeftOfABootstrapThatFails) {
  for (const bool moved : {false, true}) {
    BootstrapFolders folders = Make();
    ASSERT_TRUE(folders.NoteReplaced(root_ / "docs").ok());
    std::filesystem::create_directory(folders.work() + "/source-0");
    Finish(folders);
    if (moved) {
      ASSERT_TRUE(folders.MoveToTarget().ok());
      EXPECT_TRUE(std::filesystem::exists(folders.target() + "/collection.json"));
    }
  }
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(BootstrapFoldersTest, ATargetThatAppearedMeanwhileIsNotReplaced) {
  {
    BootstrapFolders folders = Make();
    Finish(folders);
    std::filesystem::create_directory(folders.target());
    EXPECT_EQ(folders.MoveToTarget().code(), absl::StatusCode::kAlreadyExists);
  }
  EXPECT_THAT(Names(), ElementsAre("docs.1"));
}

TEST_F(BootstrapFoldersTest, TheReplacedFolderGoesAtTheEnd) {
  WriteFiles(root_ / "docs", {{"collection.json", "{}"}});
  BootstrapFolders folders = Make();
  ASSERT_TRUE(folders.NoteReplaced(root_ / "docs").ok());
  Finish(folders);
  ASSERT_TRUE(folders.MoveToTarget().ok());
  folders.Keep();
  folders.Finish();
  EXPECT_THAT(Names(), ElementsAre("docs.1"));
  EXPECT_EQ(ReadFiles(root_ / "docs.1"), (Files{{"collection.json", "{}"}, {"log/CURRENT", "x"}}));
}

// A process may die after every step of a bootstrap. The next start must keep the listed folder and remove what the
// bootstrap left over.
TEST_F(BootstrapFoldersTest, AStartRemovesWhatIsLeftOver) {
  for (const int steps : {1, 2, 3, 4}) {
    for (const bool is_listed : {false, true}) {
      if (is_listed && steps < 4) continue;
      WriteFiles(root_ / "docs", {{"collection.json", "{}"}});
      WriteFiles(root_ / "other.1", {{"collection.json", "{}"}});
      std::string target;
      {
        BootstrapFolders folders = Make();
        folders.Keep();
        target = folders.target();
        if (steps >= 2) {
          ASSERT_TRUE(folders.NoteReplaced(root_ / "docs").ok());
        }
        if (steps >= 3) Finish(folders);
        if (steps >= 4) {
          ASSERT_TRUE(folders.MoveToTarget().ok());
        }
      }
      RemoveLeftovers(root_.path(), {is_listed ? target : root_ / "docs"});
      EXPECT_THAT(Names(), UnorderedElementsAre(is_listed ? "docs.1" : "docs", "other.1")) << steps << " steps";
      std::filesystem::remove_all(root_ / "docs.1");
    }
  }
}

TEST_F(BootstrapFoldersTest, AFolderThatNoBootstrapMadeStays) {
  {
    BootstrapFolders folders = Make();
    folders.Keep();
  }
  // An operator made a folder of this name, after the process had died.
  WriteFiles(root_ / "docs.1", {{"collection.json", "{}"}});
  RemoveLeftovers(root_.path(), {});
  EXPECT_THAT(Names(), ElementsAre("docs.1"));
}

TEST_F(BootstrapFoldersTest, NoFolderOutsideOfTheRootIsRemoved) {
  const test::TemporaryFolder outside;
  WriteFiles(outside.path(), {{"collection.json", "{}"}});
  for (const std::string& replaced : {outside.path(), root_.path(), root_ / "docs.1"}) {
    std::string target;
    {
      BootstrapFolders folders = Make();
      folders.Keep();
      target = folders.target();
      ASSERT_TRUE(folders.NoteReplaced(replaced).ok());
      Finish(folders);
      ASSERT_TRUE(folders.MoveToTarget().ok());
    }
    RemoveLeftovers(root_.path(), {target});
    EXPECT_THAT(Names(), ElementsAre("docs.1"));
    EXPECT_TRUE(std::filesystem::exists(outside / "collection.json"));
    std::filesystem::remove_all(target);
  }
}

TEST_F(BootstrapFoldersTest, OnlySnapshotsOfOtherProcessesAreLeftOvers) {
  const std::string mine = NewReadingName();
  EXPECT_NE(NewReadingName(), mine);
  for (const std::string& name : {mine, "." + mine + ".1-0.tmp", std::string(".maxsimd-reading-0123-4"),
                                  std::string("..maxsimd-reading-0123-4.1-0.tmp"), std::string("docs")}) {
    std::filesystem::create_directory(root_ / name);
  }
  RemoveLeftovers(root_.path(), {});
  EXPECT_THAT(Names(), UnorderedElementsAre(mine, "." + mine + ".1-0.tmp", "docs"));
}

}  // namespace
}  // namespace maxsim::service
