// Tests shard files that change while their collection is served: overwritten by `cp` or `rsync --inplace`, or cut off
// by a full disk.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;

class ChangedFilesTest : public testing::Test {
 protected:
  ChangedFilesTest() : documents_(test::SmallDocuments(3, 2000)) {
    manifest_ = test::BuildCorpus(folder_.path(), documents_, {.max_shard_bytes = 200'000, .payloads = true});
    EXPECT_GE(manifest_.shards.size(), 2u);
    // Waits so that a later change gets a different time: file systems record times in steps of some milliseconds.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  std::string Path(size_t shard) const { return folder_ / manifest_.shards[shard].file; }

  // Overwrites the file's contents. The file keeps its inode.
  static void WriteInPlace(const std::string& path, std::string_view bytes) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_TRUNC);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    ::close(fd);
  }

  static void ExpectIdsPayloadsAndLengths(const Collection& collection, const test::RandomDocuments& documents) {
    for (uint64_t ordinal = 0; ordinal < collection.num_documents(); ++ordinal) {
      const auto document = static_cast<int64_t>(ordinal);
      ASSERT_EQ(collection.string_id(ordinal), test::CorpusId({}, document));
      ASSERT_EQ(collection.Find(test::CorpusId({}, document)), ordinal);
      ASSERT_EQ(collection.payload(ordinal), "{\"n\":" + std::to_string(ordinal) + "}");
      ASSERT_EQ(collection.num_document_tokens(ordinal), documents.length(document));
    }
  }

  const test::TemporaryFolder folder_;
  const test::RandomDocuments documents_;
  collection::Manifest manifest_;
};

// Copies another corpus of the same shape over the files of the served one. A collection on a GPU must keep its own
// ids, payloads and lengths.
TEST_F(ChangedFilesTest, ACollectionOnAGpuDoesNotNeedItsFilesAnyMore) {
  test::FakeBackend gpu("cuda");
  CollectionStore store(&gpu, {});
  const auto loaded = store.Load("a", folder_.path(), Residency::kGpu);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const test::TemporaryFolder other;
  test::BuildCorpus(other.path(), documents_, {.max_shard_bytes = 200'000, .id_prefix = "cod-", .payloads = true});
  WriteInPlace(Path(0), test::ReadFile(other / manifest_.shards[0].file));
  ASSERT_EQ(::truncate(Path(1).c_str(), 4096), 0);
  ExpectIdsPayloadsAndLengths(**loaded, documents_);
  EXPECT_TRUE((*loaded)->Check().ok()) << (*loaded)->Check();
}

// Scores the whole collection on the CPU, one part after the other.
absl::Status Score(const Collection& collection, Executor& executor) {
  const test::RandomQuery query = test::MakeQuery(5, collection.storage(), collection.dim(), 8);
  const Query call = query.view(20);
  std::vector<std::vector<Scored>> results(1);
  for (const Part& part : collection.generation().parts()) {
    absl::Status status = executor.TopK(*part.replicas.front().documents, {&call, 1}, absl::MakeSpan(results), nullptr);
    if (!status.ok()) return status;
    std::vector<TokenMatch> matches(8);
    status = executor.Align(*part.replicas.front().documents, call, {0}, absl::MakeSpan(matches));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

TEST_F(ChangedFilesTest, ACollectionOnDiskFailsItsRequestsUntilItIsReloadedAndKeepsItsIds) {
  const std::unique_ptr<Backend> backend = *CreateCpuBackend({.num_threads = 2, .isa = ""});
  const std::unique_ptr<Executor> executor = *backend->CreateExecutor({});
  CollectionStore store(backend.get(), {});
  ASSERT_TRUE(store.Load("a", folder_.path(), Residency::kDisk).ok());
  const std::string good = test::ReadFile(Path(1));
  const std::string changes[] = {good.substr(0, 4096), std::string(), std::string(good.size(), '\xff')};
  for (const std::string& change : changes) {
    const std::shared_ptr<const Collection> served = *store.Find("a");
    EXPECT_TRUE(Score(*served, *executor).ok());
    WriteInPlace(Path(1), change);
    const absl::Status status = Score(*served, *executor);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(Path(1) + ": changed while it was in use"));
    EXPECT_EQ(served->Check(), status);
    ExpectIdsPayloadsAndLengths(*served, documents_);

    // A reload must refuse the damaged file. It must load the repaired file, although its generation number is already
    // served.
    EXPECT_EQ(store.Reload("a", nullptr).status().code(), absl::StatusCode::kDataLoss);
    WriteInPlace(Path(1), good);
    bool changed = false;
    const auto reloaded = store.Reload("a", &changed);
    ASSERT_TRUE(reloaded.ok()) << reloaded.status();
    EXPECT_TRUE(changed);
    EXPECT_TRUE(Score(**reloaded, *executor).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST_F(ChangedFilesTest, ACollectionInMemoryIsUntouched) {
  const std::unique_ptr<Backend> backend = *CreateCpuBackend({.num_threads = 2, .isa = ""});
  const std::unique_ptr<Executor> executor = *backend->CreateExecutor({});
  CollectionStore store(backend.get(), {});
  const auto loaded = store.Load("a", folder_.path(), Residency::kHost);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (size_t shard = 0; shard < manifest_.shards.size(); ++shard) WriteInPlace(Path(shard), "");
  EXPECT_TRUE(Score(**loaded, *executor).ok());
  ExpectIdsPayloadsAndLengths(**loaded, documents_);
}

// The file changes while the backend copies it, so the copied bytes are not those that were checked. The load must
// fail.
TEST_F(ChangedFilesTest, AChangeDuringTheUploadFailsTheLoad) {
  test::FakeBackend gpu("cuda");
  gpu.OnLoad([this] { WriteInPlace(Path(0), test::ReadFile(Path(1))); });
  CollectionStore store(&gpu, {.load_threads = 1});
  const absl::Status status = store.Load("a", folder_.path(), Residency::kGpu).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path(0)));
  EXPECT_EQ(gpu.num_documents_alive(), 0);
}

}  // namespace
}  // namespace maxsim::store
