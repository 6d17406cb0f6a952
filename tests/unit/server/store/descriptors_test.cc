// Tests how many file descriptors and mappings collections take, and loads that come close to the limits.
#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "server/store/collection_store.h"
#include "server/store/memory/file_ledger.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::AllOf;
using testing::HasSubstr;

int64_t NumOpen() {
  DIR* const folder = opendir("/proc/self/fd");
  int64_t count = -1;  // begins at -1, because the folder's own descriptor is listed, too
  while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
  closedir(folder);
  return count;
}

// Sets the soft limit until it is destroyed.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int64_t limit) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit lower = {static_cast<rlim_t>(limit), before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  }
  ~DescriptorLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

class DescriptorsTest : public testing::Test {
 protected:
  collection::Manifest Publish(uint64_t seed) {
    return test::BuildCorpus(folder_.path(), test::SmallDocuments(seed, 1000), {.max_shard_bytes = 8192});
  }

  const test::TemporaryFolder folder_;
};

TEST_F(DescriptorsTest, AShardHoldsOneOnTierDiskAndNoneElsewhere) {
  const auto num_shards = static_cast<int64_t>(Publish(1).shards.size());
  ASSERT_GT(num_shards, 20);
  struct Case {
    const char* backend;
    Residency residency;
    int64_t held;
  };
  for (const Case& item :
       {Case{"cpu", Residency::kHost, 0}, Case{"cpu", Residency::kDisk, num_shards}, Case{"cuda", Residency::kGpu, 0},
        Case{"cuda", Residency::kHost, 0}, Case{"cuda", Residency::kDisk, num_shards}}) {
    test::FakeBackend backend(item.backend);
    CollectionStore store(&backend, {.memory_reserve_bytes = 0});
    const int64_t before = NumOpen();
    ASSERT_TRUE(store.Load("a", folder_.path(), item.residency).ok());
    EXPECT_EQ(NumOpen() - before, item.held) << item.backend << " " << Name(item.residency);
    ASSERT_TRUE(store.Unload("a").ok());
    EXPECT_EQ(NumOpen(), before);
  }
}

TEST_F(DescriptorsTest, AReloadForWhichThereAreTooFewIsRefusedAndTheOldGenerationServed) {
  const auto num_shards = static_cast<int64_t>(Publish(1).shards.size());
  test::FakeBackend backend;
  CollectionStore store(&backend, {});
  // The limit suffices for one and a half generations (versions of the collection), for the eighth that is kept free,
  // and for the descriptors of the reading threads.
  const DescriptorLimit limit((NumOpen() + num_shards * 3 / 2 + 4) * 8 / 7 + 1);
  ASSERT_TRUE(store.Load("a", folder_.path(), Residency::kDisk).ok());
  const int64_t open = NumOpen();
  Publish(2);
  const absl::Status status = store.Reload("a", nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("generation 2 of collection a"), HasSubstr("file descriptors"), HasSubstr("ulimit -n"),
                    HasSubstr("LimitNOFILE=")));
  EXPECT_EQ((*store.Find("a"))->manifest().generation, 1);
  EXPECT_TRUE((*store.Find("a"))->Check().ok());
  EXPECT_EQ(NumOpen(), open);
}

TEST_F(DescriptorsTest, AFileThatCannotBeOpenedForWantOfThemSaysHowManyThereAre) {
  test::WriteFile(folder_ / "file", "x");
  const int next = dup(STDIN_FILENO);
  ASSERT_GE(next, 0);
  close(next);
  const DescriptorLimit limit(next);  // open() takes the lowest free number, which is `next` and so beyond the limit
  const absl::Status status = InputFile::Open(folder_ / "file").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("the limit of this process is"), HasSubstr("ulimit -n")));
}

TEST_F(DescriptorsTest, TwoLoadsCannotBothTakeTheLast) {
  FileLedger ledger;
  const DescriptorLimit limit(NumOpen() + 100);
  // A limit this low keeps twelve descriptors free.
  auto first = ledger.Reserve({.descriptors = 60, .mappings = 0}, "the first");
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = ledger.Reserve({.descriptors = 60, .mappings = 0}, "the second");
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("the second needs 60 file descriptors"));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("reserved by other loads 60"));
  // Descriptors that have been opened count as open and no longer as reserved. Otherwise they would count twice.
  (*first)->Commit({.descriptors = 60, .mappings = 0});
  const auto third = ledger.Reserve({.descriptors = 60, .mappings = 0}, "the third");
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_FALSE(ledger.Reserve({.descriptors = 60, .mappings = 0}, "the fourth").ok());
}

TEST_F(DescriptorsTest, MoreMappingsThanTheSystemAllowsAreRefused) {
  FileLedger ledger;
  const absl::Status status = ledger.Reserve({.descriptors = 0, .mappings = int64_t{1} << 40}, "a load").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("a load needs 1099511627776 memory mappings"), HasSubstr("sysctl vm.max_map_count")));
}

}  // namespace
}  // namespace maxsim::store
