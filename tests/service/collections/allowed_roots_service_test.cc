// Tests that clients cannot reach files outside of store.allowed_roots, even if another program replaces folders and
// files by links.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collection/manifest.h"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kNumOutside = kNumDocuments + 1;

class AllowedRootsServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    Publish(root_ / "c", ServedDocuments(77));
    Publish(outside_ / "c", SmallDocuments(78, kNumOutside, ScalarType::kF16, kDim));
  }

  grpc::Status Load(const std::string& name, const std::string& path, v1::CollectionInfo* info = nullptr) {
    grpc::ClientContext context;
    v1::LoadCollectionRequest request;
    request.set_name(name);
    request.set_path(path);
    v1::LoadCollectionResponse response;
    grpc::Status status = server_.admin().LoadCollection(&context, request, &response);
    if (info != nullptr) *info = response.collection();
    return status;
  }
  grpc::Status Reload(const std::string& name, v1::ReloadCollectionResponse* response) {
    grpc::ClientContext context;
    v1::ReloadCollectionRequest request;
    request.set_name(name);
    return server_.admin().ReloadCollection(&context, request, response);
  }
  void Unload(const std::string& name) {
    grpc::ClientContext context;
    v1::UnloadCollectionRequest request;
    request.set_name(name);
    v1::UnloadCollectionResponse response;
    EXPECT_TRUE(server_.admin().UnloadCollection(&context, request, &response).ok());
  }
  static std::string FirstShard(const std::string& folder) {
    const auto manifest = collection::ReadManifest(folder);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return manifest->shards.front().file;
  }
  // Replaces the file by a link to `target`.
  static void ReplaceByLink(const std::string& path, const std::string& target) {
    ASSERT_EQ(unlink(path.c_str()), 0);
    ASSERT_EQ(symlink(target.c_str(), path.c_str()), 0);
  }

  TemporaryFolder root_;
  TemporaryFolder outside_;
  RunningServer server_{[this](config::Config* config) { config->allowed_roots = {root_.path()}; }};
};

TEST_F(AllowedRootsServiceTest, AShardThatIsALinkOutIsNotLoaded) {
  // The link leads to a copy of the same shard, so that only its location is forbidden and not its contents.
  const std::string shard = FirstShard(root_ / "c");
  std::filesystem::copy_file(root_ / "c/" + shard, outside_ / "stolen");
  ReplaceByLink(root_ / "c/" + shard, outside_ / "stolen");
  const grpc::Status status = Load("c", root_ / "c");
  EXPECT_EQ(status.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr(shard));
  EXPECT_THAT(status.error_message(), Not(HasSubstr(outside_.path())));
  // A link to a missing file gives the same error.
  ReplaceByLink(root_ / "c/" + shard, outside_ / "nothing");
  EXPECT_EQ(Load("c", root_ / "c").error_message(), status.error_message());
}

TEST_F(AllowedRootsServiceTest, AManifestThatIsALinkToASecretTellsNothingOfIt) {
  WriteFile(outside_ / "secret", "hunter2: the password\n");
  ReplaceByLink(root_ / "c/collection.json", outside_ / "secret");
  const grpc::Status link = Load("c", root_ / "c");
  EXPECT_EQ(link.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_THAT(link.error_message(), Not(HasSubstr("parse")));
  // The error must also not show the contents of a file that is inside the root but is no valid manifest.
  WriteFile(root_ / "c/collection.json", "xyzzy: the password\n");
  const grpc::Status text = Load("c", root_ / "c");
  EXPECT_EQ(text.error_code(), grpc::DATA_LOSS);
  EXPECT_THAT(text.error_message(), HasSubstr("malformed JSON: parse error at line 1, column 1"));
  EXPECT_THAT(text.error_message(), Not(HasSubstr("'x")));
  WriteFile(root_ / "c/collection.json", R"({"format":"xyzzy"})");
  const grpc::Status status = Load("c", root_ / "c");
  EXPECT_THAT(status.error_message(), HasSubstr("format: is not"));
  EXPECT_THAT(status.error_message(), Not(HasSubstr("xyzzy")));
}

TEST_F(AllowedRootsServiceTest, LinksThatStayInsideAreFollowed) {
  const std::string shard = FirstShard(root_ / "c");
  ASSERT_EQ(mkdir((root_ / "blobs").c_str(), 0755), 0);
  for (const std::string& target : {root_ / "blobs/absolute", std::string("../blobs/relative")}) {
    std::filesystem::copy(root_ / "c/" + shard, root_ / "blobs" + target.substr(target.rfind('/')));  // follows a link
    ReplaceByLink(root_ / "c/" + shard, target);
    std::filesystem::remove(root_ / "current");
    ASSERT_EQ(symlink("c", (root_ / "current").c_str()), 0);
    v1::CollectionInfo info;
    const grpc::Status status = Load("c", root_ / "current", &info);
    EXPECT_TRUE(status.ok()) << target << ": " << status.error_message();
    EXPECT_EQ(info.path(), std::filesystem::canonical(root_ / "c").string());
    Unload("c");
  }
}

TEST_F(AllowedRootsServiceTest, AReloadStaysInsideToo) {
  ASSERT_TRUE(Load("c", root_ / "c").ok());
  std::filesystem::rename(root_ / "c", root_ / "before");
  ASSERT_EQ(symlink((outside_ / "c").c_str(), (root_ / "c").c_str()), 0);
  v1::ReloadCollectionResponse response;
  EXPECT_EQ(Reload("c", &response).error_code(), grpc::PERMISSION_DENIED);
  v1::ListCollectionsResponse list;
  grpc::ClientContext context;
  ASSERT_TRUE(server_.admin().ListCollections(&context, {}, &list).ok());
  EXPECT_EQ(list.collections(0).num_documents(), uint64_t{kNumDocuments}) << "the one before is served";
  // store.allowed_roots must not restrict the collection that the server's configuration names.
  EXPECT_TRUE(Reload("corpus", &response).ok());
}

// Swaps two names again and again until it is destroyed. Each swap is atomic.
class Swapping {
 public:
  Swapping(std::string a, std::string b)
      : thread_([this, a = std::move(a), b = std::move(b)] {
          while (!stop_) {
            if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) ++count_;
          }
        }) {}
  ~Swapping() {
    stop_ = true;
    thread_.join();
    EXPECT_GT(count_, 0);
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> count_{0};
  std::thread thread_;
};

TEST_F(AllowedRootsServiceTest, NothingOutsideIsLoadedWhileFoldersAndLinksAreSwapped) {
  // Makes two links to folders outside the root. The test then swaps each link with a folder: one with the last folder
  // of a path, the other with an earlier folder of a path.
  ASSERT_EQ(symlink((outside_ / "c").c_str(), (root_ / "link").c_str()), 0);
  std::filesystem::create_directories(root_ / "deep/d");
  std::filesystem::copy(root_ / "c", root_ / "deep/d/c", std::filesystem::copy_options::recursive);
  std::filesystem::create_directories(outside_ / "d");
  std::filesystem::copy(outside_ / "c", outside_ / "d/c", std::filesystem::copy_options::recursive);
  ASSERT_EQ(symlink((outside_ / "d").c_str(), (root_ / "deep/link").c_str()), 0);
  int loaded = 0;
  int refused = 0;
  {
    const Swapping last(root_ / "c", root_ / "link");
    const Swapping before(root_ / "deep/d", root_ / "deep/link");
    const auto until = std::chrono::steady_clock::now() + 1s;
    for (int turn = 0; std::chrono::steady_clock::now() < until; ++turn) {
      v1::CollectionInfo info;
      const grpc::Status status = Load("raced", turn % 2 == 0 ? root_ / "c" : root_ / "deep/d/c", &info);
      (status.ok() ? loaded : refused) += 1;
      if (!status.ok()) continue;
      EXPECT_EQ(info.num_documents(), uint64_t{kNumDocuments});
      v1::ReloadCollectionResponse reloaded;
      if (Reload("raced", &reloaded).ok()) {
        EXPECT_EQ(reloaded.collection().num_documents(), uint64_t{kNumDocuments});
      }
      Unload("raced");
    }
  }
  EXPECT_GT(loaded, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace maxsim::test
