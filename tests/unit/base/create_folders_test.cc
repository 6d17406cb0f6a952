// Tests which folders CreateFolders synchronises to the disk. The test defines its own fsync, which replaces the C
// library's and records its calls.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

std::vector<std::string> synced;
std::string not_syncable;

}  // namespace

extern "C" int fsync(int fd) {
  std::string path(4096, '\0');
  const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path.data(), path.size());
  path.resize(size < 0 ? 0 : static_cast<size_t>(size));
  synced.push_back(path);
  if (path == not_syncable) {
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace maxsim {
namespace {

using ::testing::Contains;

class CreateFoldersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "maxsim-folders-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = std::filesystem::canonical(pattern).string();
    synced.clear();
    not_syncable.clear();
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string root_;
};

TEST_F(CreateFoldersTest, SyncsTheParentOfEachNewFolder) {
  ASSERT_TRUE(CreateFolders(root_ + "/a/b/c").ok());
  EXPECT_TRUE(std::filesystem::is_directory(root_ + "/a/b/c"));
  for (const char* parent : {"", "/a", "/a/b"}) EXPECT_THAT(synced, Contains(root_ + parent));
}

TEST_F(CreateFoldersTest, SyncsTheParentsOfFoldersThatACallThatWasKilledMayHaveMade) {
  std::filesystem::create_directories(root_ + "/a/b/c");
  ASSERT_TRUE(CreateFolders(root_ + "/a/b/c/").ok());
  for (const char* parent : {"", "/a", "/a/b"}) EXPECT_THAT(synced, Contains(root_ + parent));
  synced.clear();
  ASSERT_TRUE(CreateFolders(root_ + "/a/b/c/d").ok());
  for (const char* parent : {"", "/a", "/a/b", "/a/b/c"}) EXPECT_THAT(synced, Contains(root_ + parent));
}

TEST_F(CreateFoldersTest, GoesOnWhereTheParentOfAnExistingFolderCannotBeSynced) {
  std::filesystem::create_directories(root_ + "/a/b");
  not_syncable = root_ + "/a";
  EXPECT_TRUE(CreateFolders(root_ + "/a/b").ok());
  EXPECT_TRUE(CreateFolders(root_ + "/a/b/c").ok());
  EXPECT_FALSE(CreateFolders(root_ + "/a/new/d").ok());
  EXPECT_FALSE(std::filesystem::exists(root_ + "/a/new"));
}

}  // namespace
}  // namespace maxsim
