// Tests files that change, shrink or vanish while they are mapped.
#include "base/mapping_guard.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "collection/shard.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kPage = 4096;

class MappedShardTest : public ::testing::TestWithParam<IdType> {
 protected:
  void SetUp() override {
    collection_.dim = 64;
    collection_.lengths = {60, 100, 7, 200};  // these are 47 KB of tokens
    collection_.id_type = GetParam();
    collection_.payloads = {R"({"t":"x"})", "", R"({"long":")" + std::string(5000, 'y') + "\"}", "{\"z\":1}"};
    const auto built = BuildSmall(collection_, {.folder = folder_.path(), .name = "small"});
    ASSERT_TRUE(built.ok()) << built.status();
    manifest_ = *built;
    path_ = folder_.Path(manifest_.shards[0].file);
  }

  std::shared_ptr<Shard> Open(Access access) {
    auto shard = Shard::Open(folder_.path(), manifest_, manifest_.shards[0], access, /*check_checksum=*/true);
    EXPECT_TRUE(shard.ok()) << shard.status();
    return shard.ok() ? *std::move(shard) : nullptr;
  }

  static std::string Tokens(const Shard& shard) {
    const DocumentsView& documents = shard.documents();
    return std::string(static_cast<const char*>(documents.tokens),
                       static_cast<size_t>(documents.num_tokens() * documents.dim) * SizeOf(documents.type));
  }

  void ExpectOwnIdsOffsetsAndPayloads(const Shard& shard) {
    int64_t offset = 0;
    for (size_t document = 0; document < collection_.lengths.size(); ++document) {
      const auto ordinal = static_cast<int64_t>(document);
      EXPECT_EQ(shard.documents().offsets[ordinal], offset);
      offset += collection_.lengths[document];
      if (GetParam() == IdType::kString) {
        EXPECT_EQ(shard.string_id(ordinal), collection_.ids[document]);
      } else {
        EXPECT_EQ(shard.int_id(ordinal), collection_.int_ids[document]);
      }
      EXPECT_EQ(shard.payload(ordinal), collection_.payloads[document]);
    }
    EXPECT_EQ(shard.documents().num_tokens(), offset);
  }

  // Overwrites the file in place, as `cp` and `rsync --inplace` do.
  void Overwrite(const std::string& bytes) {
    // Waits so that the modification time changes, too: file systems record it in steps of some milliseconds.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int fd = ::open(path_.c_str(), O_WRONLY);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    ::close(fd);
  }

  TemporaryFolder folder_;
  SmallCollection collection_;
  Manifest manifest_;
  std::string path_;
};

TEST_P(MappedShardTest, TruncationIsAnErrorThatNamesTheFileAndNoSignal) {
  for (const int64_t length : {kPage, int64_t{0}, 3 * kPage, 3 * kPage + 100}) {
    const std::string bytes = ReadBytes(path_);
    const std::shared_ptr<Shard> shard = Open(Access::kMapped);
    ASSERT_NE(shard, nullptr);
    EXPECT_EQ(shard->documents().source, shard.get());
    const std::string tokens = Tokens(*shard);
    EXPECT_TRUE(shard->Check().ok());
    ASSERT_EQ(::truncate(path_.c_str(), length), 0);
    EXPECT_TRUE(Tokens(*shard) != tokens) << "reads zeros, and lives";
    const absl::Status status = shard->Check();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path_), HasSubstr(Cat("now ", length))));
    ExpectOwnIdsOffsetsAndPayloads(*shard);
    // A file that was shortened and has grown again may have other bytes than before, although here they are the same.
    // So the shard stays invalid.
    WriteBytes(path_, bytes);
    EXPECT_EQ(shard->Check().code(), absl::StatusCode::kDataLoss);
    const std::shared_ptr<Shard> again = Open(Access::kMapped);
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(Tokens(*again), tokens);
  }
}

TEST_P(MappedShardTest, BytesWrittenOverItChangeNoIdAndAreNoticed) {
  const std::shared_ptr<Shard> shard = Open(Access::kMapped);
  ASSERT_NE(shard, nullptr);
  Overwrite(std::string(static_cast<size_t>(manifest_.shards[0].num_bytes), '\xff'));
  ExpectOwnIdsOffsetsAndPayloads(*shard);
  const absl::Status status = shard->Check();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path_), HasSubstr("another program wrote to it")));
}

TEST_P(MappedShardTest, AFileThatIsReplacedOrRemovedUnderItsNameIsServedOn) {
  const std::shared_ptr<Shard> shard = Open(Access::kMapped);
  ASSERT_NE(shard, nullptr);
  const std::string tokens = Tokens(*shard);
  WriteBytes(folder_.Path("other"), "something else");
  std::filesystem::rename(folder_.Path("other"), path_);
  EXPECT_TRUE(shard->Check().ok()) << shard->Check();
  std::filesystem::remove(path_);
  EXPECT_TRUE(shard->Check().ok()) << shard->Check();
  EXPECT_EQ(Tokens(*shard), tokens);
}

TEST_P(MappedShardTest, CopiesDoNotDependOnTheFile) {
  const std::shared_ptr<Shard> copied = Open(Access::kCopied);
  const std::shared_ptr<Shard> released = Open(Access::kMapped);
  ASSERT_TRUE(copied != nullptr && released != nullptr);
  const std::string tokens = Tokens(*copied);
  released->ReleaseTokens();
  EXPECT_EQ(released->documents().tokens, nullptr);
  ASSERT_EQ(::truncate(path_.c_str(), 100), 0);
  EXPECT_TRUE(copied->Check().ok());
  EXPECT_EQ(copied->documents().source, nullptr);
  EXPECT_EQ(Tokens(*copied), tokens);
  ExpectOwnIdsOffsetsAndPayloads(*copied);
  EXPECT_TRUE(released->Check().ok());
  EXPECT_EQ(released->documents().source, nullptr);
  ExpectOwnIdsOffsetsAndPayloads(*released);
}

std::string Text(const std::vector<std::byte>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST_P(MappedShardTest, ADocumentIsReadWhereverItsTokensAre) {
  const std::shared_ptr<Shard> mapped = Open(Access::kMapped);
  const std::shared_ptr<Shard> copied = Open(Access::kCopied);
  const std::shared_ptr<Shard> released = Open(Access::kMapped);
  ASSERT_TRUE(mapped != nullptr && copied != nullptr && released != nullptr);
  released->ReleaseTokens();
  const std::string tokens = Tokens(*copied);
  const DocumentsView& documents = copied->documents();
  const size_t row_bytes = static_cast<size_t>(documents.dim) * SizeOf(documents.type);
  for (int64_t document = 0; document < documents.num_documents; ++document) {
    const auto begin = static_cast<size_t>(documents.offsets[document]) * row_bytes;
    const auto end = static_cast<size_t>(documents.offsets[document + 1]) * row_bytes;
    for (const auto& shard : {mapped, copied, released}) {
      const auto rows = shard->ReadDocument(document);
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(Text(*rows), tokens.substr(begin, end - begin));
    }
  }
}

// A shard that has released its tokens reads them from the loaded file. Once another file has the shard's path, the
// read must fail.
TEST_P(MappedShardTest, AfterTheirReleaseTokensAreReadFromTheFileThatWasLoadedAlone) {
  const std::shared_ptr<Shard> shard = Open(Access::kMapped);
  ASSERT_NE(shard, nullptr);
  shard->ReleaseTokens();
  ASSERT_TRUE(shard->ReadDocument(1).ok());
  std::filesystem::copy_file(path_, folder_.Path("copy"));
  std::filesystem::rename(folder_.Path("copy"), path_);
  absl::Status status = shard->ReadDocument(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path_), HasSubstr("is no longer the file")));
  std::filesystem::remove(path_);
  status = shard->ReadDocument(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

TEST_P(MappedShardTest, ADocumentOfAChangedFileIsDataLoss) {
  const std::shared_ptr<Shard> shard = Open(Access::kMapped);
  ASSERT_NE(shard, nullptr);
  ASSERT_EQ(::truncate(path_.c_str(), 100), 0);
  EXPECT_EQ(shard->ReadDocument(3).status().code(), absl::StatusCode::kDataLoss);
}

// The status must not be UNAVAILABLE, which would mean that a device is lost.
TEST_P(MappedShardTest, AReadThatFailsIsDataLossThatNamesTheFile) {
  const std::shared_ptr<Shard> shard = Open(Access::kMapped);
  ASSERT_NE(shard, nullptr);
  std::vector<char> bytes(64);
  EXPECT_TRUE(shard->Read(shard->documents().tokens, bytes.size(), bytes.data()).ok());
  // Replaces the shard's file descriptor by one that cannot be read from.
  const int unreadable = ::open(path_.c_str(), O_WRONLY);
  ASSERT_GE(unreadable, 0);
  int replaced = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    std::error_code gone;  // the iterator's own descriptor
    const std::filesystem::path target = std::filesystem::read_symlink(entry.path(), gone);
    if (fd == unreadable || target != std::filesystem::canonical(path_)) continue;
    ASSERT_EQ(::dup2(unreadable, fd), fd);
    ++replaced;
  }
  ::close(unreadable);
  ASSERT_EQ(replaced, 1);
  const absl::Status status = shard->Read(shard->documents().tokens, bytes.size(), bytes.data());
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path_), HasSubstr("cannot read")));
}

INSTANTIATE_TEST_SUITE_P(Ids, MappedShardTest, ::testing::Values(IdType::kString, IdType::kInt64));

TEST(FileBytesTest, AMappedRangeIsThatOfTheFileWhereverItBegins) {
  TemporaryFolder folder;
  std::string text(5 * kPage + 77, '\0');
  for (size_t idx = 0; idx < text.size(); ++idx) text[idx] = static_cast<char>(idx * 7 + idx / 256);
  WriteBytes(folder.Path("x"), text);
  const auto file = InputFile::Open(folder.Path("x"));
  ASSERT_TRUE(file.ok());
  const auto size = static_cast<int64_t>(text.size());
  for (const int64_t begin : {int64_t{0}, int64_t{1}, kPage - 1, kPage, kPage + 1, 5 * kPage, size}) {
    for (const int64_t end : {begin, begin + 1, 2 * kPage, 4 * kPage + 5, 5 * kPage, 5 * kPage + 1, size}) {
      if (end < begin || end > size) continue;
      const auto bytes = FileBytes::MapRange(*file, begin, end);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      EXPECT_EQ(bytes->view(), text) << begin << " to " << end;
      EXPECT_FALSE(bytes->lost());
    }
  }
}

// Maps a file of 16 pages, which the test can shorten.
class GuardTest : public ::testing::Test {
 protected:
  GuardTest() { WriteBytes(path_, std::string(16 * kPage, 'x')); }
  void* Map() const {
    const int fd = ::open(path_.c_str(), O_RDONLY);
    void* const data = ::mmap(nullptr, 16 * kPage, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    EXPECT_NE(data, MAP_FAILED);
    return data;
  }
  static int64_t CountX(const void* data) {
    const auto* bytes = static_cast<const volatile char*>(data);
    int64_t count = 0;
    for (int64_t at = 0; at < 16 * kPage; at += 64) count += bytes[at] == 'x' ? 1 : 0;
    return count;
  }
  const TemporaryFolder folder_;
  const std::string path_ = folder_.Path("x");
};

TEST_F(GuardTest, ThreadsThatFaultTogetherAllGoOn) {
  for (int round = 0; round < 20; ++round) {
    WriteBytes(path_, std::string(16 * kPage, 'x'));
    void* const data = Map();
    void* const other = Map();
    {
      const MappingGuard guard(data, 16 * kPage);
      const MappingGuard other_guard(other, 16 * kPage);
      std::atomic<bool> stop{false};
      std::vector<std::thread> threads;
      for (int idx = 0; idx < 4; ++idx) {
        threads.emplace_back([&] {
          while (!stop) CountX(data);
        });
      }
      // Other guards come and go meanwhile.
      std::thread churn([&] {
        while (!stop) {
          void* const memory = ::mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          { const MappingGuard passing(memory, kPage); }
          ::munmap(memory, kPage);
        }
      });
      ASSERT_EQ(::truncate(path_.c_str(), 5 * kPage), 0);
      while (!guard.lost()) std::this_thread::yield();
      stop = true;
      for (std::thread& thread : threads) thread.join();
      churn.join();
      EXPECT_EQ(CountX(data), 0);
      EXPECT_FALSE(other_guard.lost()) << "a guard of the same file whose range nobody read";
    }
    ::munmap(data, 16 * kPage);
    ::munmap(other, 16 * kPage);
  }
}

TEST_F(GuardTest, AFaultElsewhereEndsTheProcessAsBefore) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        void* const guarded = Map();
        const MappingGuard guard(guarded, 16 * kPage);
        void* const data = Map();
        if (::truncate(path_.c_str(), 0) != 0) std::_Exit(0);
        CountX(data);
        std::_Exit(0);
      },
      "");
}

}  // namespace
}  // namespace maxsim::collection
