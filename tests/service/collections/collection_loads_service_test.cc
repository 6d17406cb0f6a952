// Tests loads that take long. The server must handle other calls meanwhile, and a client or a stop must end the load.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "collection/manifest.h"
#include "tests/service/server_fixture.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// The limit within which a load must stop. A busy machine needs less, and hashing the file would take much longer.
constexpr auto kSoon = kTestLimit;

// Publishes a collection with one shard, a sparse file of 4 TiB. Hashing it would take hours. With residency "disk" it
// needs almost no memory.
void PublishHole(const std::string& folder) {
  constexpr int64_t kBytes = int64_t{4} << 40;
  constexpr int64_t kRowBytes = kDim * 2;
  collection::Manifest manifest;
  manifest.name = "hole";
  manifest.generation = 1;
  manifest.dim = kDim;
  manifest.storage = ScalarType::kF16;
  manifest.num_tokens = kBytes / kRowBytes;
  manifest.num_documents = manifest.num_tokens / kMaxDocumentTokens + 1;
  manifest.created_by = "test";
  manifest.created_at = "2026-01-01T00:00:00Z";
  manifest.shards = {{.file = "hole.safetensors",
                      .num_documents = manifest.num_documents,
                      .num_tokens = manifest.num_tokens,
                      .num_bytes = kBytes,
                      .checksum = "xxh3-128:" + std::string(32, '0')}};
  mkdir(folder.c_str(), 0755);
  const int fd = open((folder + "/hole.safetensors").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(ftruncate(fd, kBytes), 0) << "the file system has no files of 4 TiB";
  close(fd);
  const absl::Status published = collection::PublishManifest(manifest, folder);
  ASSERT_TRUE(published.ok()) << published;
}

// Makes a LoadCollection call in a thread.
class Loading {
 public:
  Loading(RunningServer& server, const std::string& name, const std::string& path,
          const std::string& residency = "disk", std::chrono::milliseconds timeout = kTestLimit)
      : status_(std::async(std::launch::async, [this, &server, name, path, residency, timeout] {
          context_.set_deadline(std::chrono::system_clock::now() + timeout);
          v1::LoadCollectionRequest request;
          request.set_name(name);
          request.set_path(path);
          request.set_residency(residency);
          v1::LoadCollectionResponse response;
          return server.admin().LoadCollection(&context_, request, &response);
        })) {}
  void Cancel() { context_.TryCancel(); }
  bool IsDone() { return status_.wait_for(0s) == std::future_status::ready; }
  grpc::Status Wait() { return status_.get(); }

 private:
  grpc::ClientContext context_;
  std::future<grpc::Status> status_;
};

class CollectionLoadsServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    PublishHole(folder_ / "hole");
    Publish(folder_ / "good", ServedDocuments(77));
  }

  // Waits until ListCollections lists the collection as loading. Returns false if that does not happen in time.
  bool WaitForLoading(const std::string& name) {
    return Eventually([&] {
      const std::vector<v1::CollectionInfo> list = List();
      return std::any_of(list.begin(), list.end(), [&](const auto& info) { return info.name() == name; });
    });
  }
  std::vector<v1::CollectionInfo> List() {
    grpc::ClientContext context;
    v1::ListCollectionsResponse list;
    EXPECT_TRUE(server_.admin().ListCollections(&context, {}, &list).ok());
    return {list.collections().begin(), list.collections().end()};
  }
  grpc::Status Load(const std::string& name) {
    return Loading(server_, name, folder_ / "good", "", std::chrono::milliseconds(kSoon)).Wait();
  }
  grpc::Status Unload(const std::string& name) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kSoon);
    v1::UnloadCollectionRequest request;
    request.set_name(name);
    v1::UnloadCollectionResponse response;
    return server_.admin().UnloadCollection(&context, request, &response);
  }
  grpc::Status Reload(const std::string& name, v1::ReloadCollectionResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kSoon);
    v1::ReloadCollectionRequest request;
    request.set_name(name);
    return server_.admin().ReloadCollection(&context, request, response);
  }

  TemporaryFolder folder_;
  RunningServer server_{[this](config::Config* config) { config->allowed_roots = {folder_.path()}; }};
};

TEST_F(CollectionLoadsServiceTest, OthersAreLoadedReloadedAndUnloadedBesideALongLoad) {
  Loading hole(server_, "hole", folder_ / "hole");
  ASSERT_TRUE(WaitForLoading("hole"));
  const grpc::Status loaded = Load("second");
  EXPECT_TRUE(loaded.ok()) << loaded.error_message();
  Publish(server_.folder(), ServedDocuments(5));
  v1::ReloadCollectionResponse reloaded;
  EXPECT_TRUE(Reload("corpus", &reloaded).ok());
  EXPECT_EQ(reloaded.collection().generation(), 2u);
  EXPECT_TRUE(Unload("second").ok());
  EXPECT_FALSE(hole.IsDone());
  hole.Cancel();
  EXPECT_EQ(hole.Wait().error_code(), grpc::CANCELLED);
}

TEST_F(CollectionLoadsServiceTest, AReloadOfAllComesToTheOthersBesideALongLoad) {
  Loading hole(server_, "a-hole", folder_ / "hole");  // its name sorts before the other collection's name
  ASSERT_TRUE(WaitForLoading("a-hole"));
  Publish(server_.folder(), ServedDocuments(5));
  server_.server().RequestReload();
  const auto generation = [&] {
    for (const v1::CollectionInfo& info : List()) {
      if (info.name() == "corpus") return info.generation();
    }
    return uint64_t{0};
  };
  EXPECT_TRUE(Eventually([&] { return generation() == 2; }));
  EXPECT_FALSE(hole.IsDone());
  hole.Cancel();
}

TEST_F(CollectionLoadsServiceTest, ALoadEndsSoonAfterItsClientGaveUp) {
  Loading hole(server_, "hole", folder_ / "hole");
  ASSERT_TRUE(WaitForLoading("hole"));
  hole.Cancel();
  EXPECT_EQ(hole.Wait().error_code(), grpc::CANCELLED);
  // Loads of one name run one after another. So when this load has ended, the first one has ended too.
  const grpc::Status loaded = Load("hole");
  EXPECT_TRUE(loaded.ok()) << loaded.error_message();
  EXPECT_THAT(server_.server().metrics().Expose(),
              HasSubstr("maxsim_requests_total{code=\"CANCELLED\",method=\"LoadCollection\"} 1"));
}

TEST_F(CollectionLoadsServiceTest, ALoadEndsWithItsDeadline) {
  Loading hole(server_, "hole", folder_ / "hole", "disk", 500ms);
  EXPECT_EQ(hole.Wait().error_code(), grpc::DEADLINE_EXCEEDED);
  const grpc::Status loaded = Load("hole");
  EXPECT_TRUE(loaded.ok()) << loaded.error_message();
}

TEST_F(CollectionLoadsServiceTest, ACallThatWaitsForAnotherOfItsNameEndsWhenItsClientGivesUp) {
  Loading hole(server_, "hole", folder_ / "hole");
  ASSERT_TRUE(WaitForLoading("hole"));
  Loading second(server_, "hole", folder_ / "good", "disk", 300ms);
  EXPECT_EQ(second.Wait().error_code(), grpc::DEADLINE_EXCEEDED);
  // On a busy machine the server may notice the client's cancellation before it notices that the deadline has passed.
  // So either code may be counted.
  const auto counted = [&] {
    const std::string metrics = server_.server().metrics().Expose();
    const auto has = [&](const std::string& code) {
      return metrics.find("maxsim_requests_total{code=\"" + code + "\",method=\"LoadCollection\"} 1") !=
             std::string::npos;
    };
    return has("DEADLINE_EXCEEDED") || has("CANCELLED");
  };
  EXPECT_TRUE(Eventually(counted)) << "the server still holds the call";
  EXPECT_FALSE(hole.IsDone());
  hole.Cancel();
}

TEST_F(CollectionLoadsServiceTest, WhatDoesNotFitIsRefusedBeforeAByteIsRead) {
  const grpc::Status status =
      Loading(server_, "hole", folder_ / "hole", "host", std::chrono::milliseconds(kSoon)).Wait();
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("needs 4.00 TiB"));
}

TEST_F(CollectionLoadsServiceTest, ALongLoadEndsWithTheServer) {
  Loading hole(server_, "hole", folder_ / "hole");
  ASSERT_TRUE(WaitForLoading("hole"));
  EXPECT_EQ(server_.Stop(), 0);  // the load would take hours
  EXPECT_EQ(hole.Wait().error_code(), grpc::UNAVAILABLE);
}

}  // namespace
}  // namespace maxsim::test
