// Puts pipes, sockets, devices and links in the place of files. No program may wait for them or write through them.
// Also tests how programs print the text of a file on the terminal.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/file.h"
#include "collection/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/run_shard.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/collection/zip_writer.h"

namespace {

// Counts how many more calls of fsync succeed for the folder with this inode. -1 means that all succeed.
int folder_syncs_left = -1;
ino_t failing_folder = 0;

}  // namespace

// Replaces the C library's fsync. This one fails when a test has asked for it, as if the disk had failed.
extern "C" int fsync(int fd) {
  struct stat info;
  if (folder_syncs_left >= 0 && ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) && info.st_ino == failing_folder &&
      folder_syncs_left-- == 0) {
    folder_syncs_left = 0;
    errno = EIO;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OddFilesTest : public ::testing::Test {
 protected:
  std::vector<std::string> BuildArguments() {
    WriteBytes(folder_.Path("tokens.npy"), NpyBytes("<f4", "(3, 8)", AsBytes(std::vector<float>(24, 0.5f))));
    WriteBytes(folder_.Path("lengths.npy"), NpyBytes("<i8", "(2,)", AsBytes<int64_t>({2, 1})));
    return {
        "build",  "--tokens", folder_.Path("tokens.npy"), "--lengths", folder_.Path("lengths.npy"), "--output", out_,
        "--name", "two"};
  }
  static void MakePipe(const std::string& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0644), 0) << path; }

  TemporaryFolder folder_;
  const std::string out_ = folder_.Path("out");
};

TEST_F(OddFilesTest, APipeInThePlaceOfATemporaryFileIsAnErrorAndStays) {
  ASSERT_EQ(::mkdir(out_.c_str(), 0755), 0);
  for (const char* name : {"shard-000001-00000.safetensors.tmp", "collection.json.tmp"}) {
    const std::string pipe = JoinPath(out_, name);
    MakePipe(pipe);
    const shard_tool::Outcome outcome = shard_tool::RunShard(BuildArguments());
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(pipe), HasSubstr("a pipe of that name is in the way")));
    EXPECT_FALSE(ReadManifest(out_).ok());
    ASSERT_EQ(::unlink(pipe.c_str()), 0) << "it is not the build's to remove";
  }
  EXPECT_EQ(shard_tool::RunShard(BuildArguments()).code, 0);
}

TEST_F(OddFilesTest, NothingIsWrittenThroughALinkInThePlaceOfATemporaryFile) {
  ASSERT_EQ(::mkdir(out_.c_str(), 0755), 0);
  WriteBytes(folder_.Path("precious"), "precious");
  ASSERT_EQ(::symlink(folder_.Path("precious").c_str(), JoinPath(out_, "collection.json.tmp").c_str()), 0);
  const shard_tool::Outcome outcome = shard_tool::RunShard(BuildArguments());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("a symbolic link of that name is in the way"));
  EXPECT_EQ(ReadBytes(folder_.Path("precious")), "precious");
}

TEST_F(OddFilesTest, AHardLinkInThePlaceOfATemporaryFileKeepsItsBytes) {
  ASSERT_EQ(::mkdir(out_.c_str(), 0755), 0);
  WriteBytes(folder_.Path("precious"), "precious");
  ASSERT_EQ(::link(folder_.Path("precious").c_str(), JoinPath(out_, "collection.json.tmp").c_str()), 0);
  EXPECT_EQ(shard_tool::RunShard(BuildArguments()).code, 0);
  EXPECT_EQ(ReadBytes(folder_.Path("precious")), "precious");
}

TEST_F(OddFilesTest, InputsThatAreNoFilesAreNamedForWhatTheyAre) {
  std::vector<std::string> arguments = BuildArguments();
  const std::string pipe = folder_.Path("pipe");
  MakePipe(pipe);
  const std::string socket_path = folder_.Path("socket");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  for (const auto& [path, kind] :
       {std::pair(pipe, "but a pipe"), std::pair(socket_path, "but a socket"),
        std::pair(std::string("/dev/null"), "but a device"), std::pair(folder_.path(), "but a folder")}) {
    arguments[2] = path;
    const shard_tool::Outcome outcome = shard_tool::RunShard(arguments);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(path), HasSubstr("not a regular file"), HasSubstr(kind)));
  }
  ::close(fd);
}

TEST_F(OddFilesTest, APipeInThePlaceOfAManifestIsNotWaitedFor) {
  ASSERT_EQ(::mkdir(out_.c_str(), 0755), 0);
  MakePipe(JoinPath(out_, "collection.json"));
  for (const char* command : {"inspect", "verify"}) {
    const shard_tool::Outcome outcome = shard_tool::RunShard({command, out_});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("collection.json: not a regular file, but a pipe"));
  }
  EXPECT_EQ(shard_tool::RunShard(BuildArguments()).code, 1);
}

TEST_F(OddFilesTest, ANamedPipeWithoutAWriterReadsAsEmpty) {
  MakePipe(folder_.Path("pipe"));
  EXPECT_EQ(ReadToEnd(folder_.Path("pipe")), "");
  EXPECT_FALSE(ReadToEnd("/dev/zero").has_value());
  EXPECT_EQ(errno, EFBIG);
}

TEST_F(OddFilesTest, NamesInArchivesReachTheTerminalWithoutControls) {
  const std::string evil = "\x1b]0;owned\a\x1b[31m";
  WriteBytes(folder_.Path("a.npz"), ZipBytes({{evil + ".npy", "x"}}, {}));
  const shard_tool::Outcome npz = shard_tool::RunShard({"build", "--input", folder_.Path("a.npz"), "--output", out_});
  EXPECT_EQ(npz.code, 1);
  EXPECT_THAT(npz.err, AllOf(HasSubstr("it holds: ?]0;owned??[31m.npy"), Not(HasSubstr("\x1b"))));
  std::string header = R"({"\u001b[31m":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  WriteBytes(folder_.Path("a.safetensors"), bytes + header + "x");
  const shard_tool::Outcome safetensors =
      shard_tool::RunShard({"build", "--input", folder_.Path("a.safetensors"), "--output", out_});
  EXPECT_EQ(safetensors.code, 1);
  EXPECT_THAT(safetensors.err, AllOf(HasSubstr("it holds: ?[31m"), Not(HasSubstr("\x1b"))));
}

TEST_F(OddFilesTest, AGenerationWhoseFolderCannotBeSynchronisedIsPublishedWithAWarning) {
  ASSERT_EQ(shard_tool::RunShard(BuildArguments()).code, 0);
  ASSERT_EQ(shard_tool::RunShard(BuildArguments()).code, 0);
  struct stat info;
  ASSERT_EQ(::stat(out_.c_str(), &info), 0);
  failing_folder = info.st_ino;
  // The sync before the rename succeeds, and the sync after the rename fails.
  folder_syncs_left = 1;
  const shard_tool::Outcome outcome = shard_tool::RunShard(BuildArguments());
  folder_syncs_left = -1;
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("warning: the new generation is published"), HasSubstr("Input/output")));
  EXPECT_EQ(ReadManifest(out_)->generation, 3);
  EXPECT_EQ(shard_tool::RunShard({"verify", out_}).code, 0);
  // A power failure may bring back the previous generation. So its shards must still be there.
  EXPECT_THAT(FilesIn(out_), ::testing::Contains("shard-000002-00000.safetensors"));
  EXPECT_THAT(FilesIn(out_), ::testing::Contains("shard-000001-00000.safetensors"));

  // The sync before the rename fails. So nothing is published, and the build fails.
  folder_syncs_left = 0;
  EXPECT_EQ(shard_tool::RunShard(BuildArguments()).code, 1);
  folder_syncs_left = -1;
  EXPECT_EQ(ReadManifest(out_)->generation, 3);
}

}  // namespace
}  // namespace maxsim::collection
