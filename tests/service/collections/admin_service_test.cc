// Tests collections that are loaded and unloaded at run time.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grpcpp/create_channel.h"
#include "tests/service/collections/admin_calls.h"
#include "tests/service/server_fixture.h"
#include "tests/support/fake_backend.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::vector<int64_t> AllOrdinals() {
  std::vector<int64_t> ordinals;
  for (int64_t i = 0; i < kNumDocuments; ++i) ordinals.push_back(i);
  return ordinals;
}

TEST(AdminServiceTest, CollectionsAreLoadedListedAndUnloaded) {
  TemporaryFolder folder;
  Publish(folder / "second", ServedDocuments(77));
  RunningServer server([&](config::Config* config) { config->allowed_roots = {folder.path()}; });
  const grpc::Status loaded = Load(server, "second", folder / "second", "host");
  ASSERT_TRUE(loaded.ok()) << loaded.error_message();
  EXPECT_EQ(Load(server, "second", folder / "second").error_code(), grpc::ALREADY_EXISTS);
  v1::ListCollectionsResponse list;
  grpc::ClientContext context;
  ASSERT_TRUE(server.admin().ListCollections(&context, {}, &list).ok());
  ASSERT_EQ(list.collections_size(), 2);
  EXPECT_EQ(list.collections(1).name(), "second");
  EXPECT_EQ(list.collections(1).residency(), "host");
  const auto request = MakeRequest("second", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1"}, 5);
  v1::RerankResponse response;
  EXPECT_TRUE(server.Rerank(request, &response).ok());
  EXPECT_THAT(server.server().metrics().Expose(), HasSubstr("maxsim_collection_generation{collection=\"second\"} 1"));
  EXPECT_TRUE(Unload(server, "second").ok());
  EXPECT_EQ(Unload(server, "second").error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(server.Rerank(request, &response).error_code(), grpc::NOT_FOUND);
  EXPECT_THAT(server.server().metrics().Expose(), testing::Not(HasSubstr("generation{collection=\"second\"}")));
}

TEST(AdminServiceTest, NamesThatClientsChoseLeaveNoSeriesBehind) {
  TemporaryFolder folder;
  Publish(folder / "good", ServedDocuments(77));
  Publish(folder / "bad", ServedDocuments(78));
  WriteFile(folder / "bad/collection.json", "{ not a manifest");
  RunningServer server([&](config::Config* config) { config->allowed_roots = {folder.path()}; });
  const auto exposed = [&] { return server.server().metrics().Expose(); };
  v1::ReloadCollectionResponse reloaded;
  EXPECT_EQ(Load(server, "broken", folder / "bad").error_code(), grpc::DATA_LOSS);
  const auto request = MakeRequest("broken", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1"}, 5);
  v1::RerankResponse response;
  EXPECT_EQ(server.Rerank(request, &response).error_code(), grpc::NOT_FOUND) << "nothing of that name was ever there";
  EXPECT_FALSE(Reload(server, "broken", &reloaded).ok());
  EXPECT_FALSE(Reload(server, "unknown", &reloaded).ok());
  EXPECT_THAT(exposed(), testing::Not(HasSubstr("\"broken\"")));
  EXPECT_THAT(exposed(), testing::Not(HasSubstr("\"unknown\"")));
  ASSERT_TRUE(Load(server, "second", folder / "good").ok());
  EXPECT_FALSE(Load(server, "second", folder / "good").ok());
  EXPECT_THAT(exposed(), HasSubstr("maxsim_collection_loads_total{collection=\"second\",result=\"ok\"} 1"));
  EXPECT_THAT(exposed(), HasSubstr("maxsim_collection_loads_total{collection=\"second\",result=\"error\"} 1"));
  EXPECT_THAT(exposed(), HasSubstr("maxsim_collection_load_duration_seconds_count{collection=\"second\"} 2"));
  ASSERT_TRUE(Unload(server, "second").ok());
  EXPECT_THAT(exposed(), testing::Not(HasSubstr("\"second\"")));
  ASSERT_TRUE(Load(server, "second", folder / "good").ok());
  EXPECT_THAT(exposed(), HasSubstr("maxsim_collection_loads_total{collection=\"second\",result=\"ok\"} 1"));
}

TEST(AdminServiceTest, LoadsStayInsideTheAllowedFolders) {
  TemporaryFolder folder;
  TemporaryFolder outside;
  Publish(outside / "c", ServedDocuments(77));
  RunningServer closed;
  EXPECT_EQ(Load(closed, "c", outside / "c").error_code(), grpc::PERMISSION_DENIED);
  RunningServer server([&](config::Config* config) { config->allowed_roots = {folder.path()}; });
  EXPECT_EQ(Load(server, "c", outside / "c").error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(Load(server, "c", folder.path() + "/../" + outside.path().substr(outside.path().rfind('/') + 1) + "/c")
                .error_code(),
            grpc::PERMISSION_DENIED);
  ASSERT_EQ(symlink((outside / "c").c_str(), (folder / "link").c_str()), 0);
  EXPECT_EQ(Load(server, "c", folder / "link").error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(Load(server, "c", folder.path() + "x/c").error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(Load(server, "c", outside / "nothing").error_code(), grpc::PERMISSION_DENIED);
  ASSERT_EQ(symlink((outside / "nothing").c_str(), (folder / "dangling").c_str()), 0);
  EXPECT_EQ(Load(server, "c", folder / "dangling").error_code(), grpc::PERMISSION_DENIED);
  EXPECT_EQ(Load(server, "c", "somewhere/c").error_message(),
            absl::StrCat("path: somewhere/c (", std::filesystem::current_path().string(),
                         "/somewhere/c on the server) is not under store.allowed_roots (", folder.path(), ")"));
  const grpc::Status empty = Load(server, "c", "");
  EXPECT_EQ(empty.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(empty.error_message(), HasSubstr("path: is empty"));
  EXPECT_EQ(Load(server, "c", folder / "nothing").error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(Load(server, "c", (folder / "c") + std::string("\0x", 2)).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(Load(server, "a b", folder / "nothing").error_code(), grpc::INVALID_ARGUMENT);
  const grpc::Status residency = Load(server, "c", folder / "nothing", "moon");
  EXPECT_EQ(residency.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(residency.error_message(), HasSubstr("residency: is \"moon\""));
}

TEST(AdminServiceTest, WhatWasCheckedIsWhatIsLoadedLater) {
  TemporaryFolder folder;
  TemporaryFolder outside;
  Publish(folder / "c", ServedDocuments(77));
  Publish(outside / "c", ServedDocuments(78));
  Publish(outside / "c", ServedDocuments(79));
  RunningServer server([&](config::Config* config) { config->allowed_roots = {folder.path()}; });
  ASSERT_EQ(symlink((folder / "c").c_str(), (folder / "link").c_str()), 0);
  ASSERT_TRUE(Load(server, "c", folder / "link").ok());
  ASSERT_EQ(unlink((folder / "link").c_str()), 0);
  ASSERT_EQ(symlink((outside / "c").c_str(), (folder / "link").c_str()), 0);
  v1::ReloadCollectionResponse reloaded;
  ASSERT_TRUE(Reload(server, "c", &reloaded).ok());
  EXPECT_FALSE(reloaded.changed()) << "the link leads outside now";
}

TEST(AdminServiceTest, NothingIsChangedBeforeTheConfiguredCollectionsAreLoaded) {
  TemporaryFolder folder;
  Publish(folder / "corpus", ServedDocuments(77));
  auto backend = std::make_unique<FakeBackend>();
  Server* server = nullptr;
  std::once_flag once;
  grpc::Status loaded, reloaded, unloaded, reranked;
  v1::GetInfoResponse said;
  backend->OnLoad([&] {
    std::call_once(once, [&] {
      auto admin = v1::Admin::NewStub(
          grpc::CreateChannel("127.0.0.1:" + std::to_string(server->grpc_port()), grpc::InsecureChannelCredentials()));
      grpc::ClientContext load, reload, unload;
      v1::LoadCollectionResponse load_response;
      v1::ReloadCollectionResponse reload_response;
      v1::UnloadCollectionResponse unload_response;
      loaded = admin->LoadCollection(&load, {}, &load_response);
      reloaded = admin->ReloadCollection(&reload, {}, &reload_response);
      unloaded = admin->UnloadCollection(&unload, {}, &unload_response);
      auto reranker = v1::Reranker::NewStub(
          grpc::CreateChannel("127.0.0.1:" + std::to_string(server->grpc_port()), grpc::InsecureChannelCredentials()));
      grpc::ClientContext rerank;
      v1::RerankResponse rerank_response;
      grpc::ClientContext info;
      EXPECT_TRUE(reranker->GetInfo(&info, {}, &said).ok());
      reranked = reranker->Rerank(&rerank, MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1"}, 5),
                                  &rerank_response);
    });
  });
  config::Config config = TestConfig();
  config.collections.push_back({.name = "corpus", .path = folder / "corpus", .residency = store::Residency::kAuto});
  std::vector<NumberedBackend> backends;
  backends.push_back({std::move(backend), 0});
  auto created = Server::Create(config, std::move(backends));
  ASSERT_TRUE(created.ok()) << created.status();
  server = created->get();
  const absl::Status started = server->Start();
  EXPECT_TRUE(started.ok()) << started;
  for (const grpc::Status& status : {loaded, reloaded, unloaded}) {
    EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
    EXPECT_EQ(status.error_message(), "the server is loading its configured collections");
  }
  EXPECT_EQ(reranked.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(reranked.error_message(), "the server is loading");
  EXPECT_TRUE(said.loading());
  EXPECT_THAT(server->metrics().Expose(), HasSubstr("maxsim_rejections_total{reason=\"loading\"} 1"));
}

TEST(AdminServiceTest, ASmallEngineIsWarmedUpWithAQueryThatFits) {
  RunningServer server([](config::Config* config) {
    config->engine.executor.max_query_tokens = 8;
    config->limits.max_query_tokens = 8;
  });
  EXPECT_EQ(HealthOf(server.channel(), "maxsim.v1.Admin"), Health::kServing);
}

TEST(AdminServiceTest, ADisabledAdminServiceIsNotThere) {
  RunningServer server([](config::Config* config) { config->admin.enabled = false; });
  EXPECT_EQ(Unload(server, "corpus").error_code(), grpc::UNIMPLEMENTED);
  EXPECT_EQ(HealthOf(server.channel(), "maxsim.v1.Admin"), Health::kUnknown);
  EXPECT_EQ(HealthOf(server.channel(), "maxsim.v1.Reranker"), Health::kServing);
}

TEST(AdminServiceTest, AReloadUnderLoadNeverMixesGenerations) {
  RunningServer server;
  // Odd generations hold one set of documents, and even generations another set with the same ids.
  const RandomDocuments other = ServedDocuments(TestSeed() + 1000);
  const RandomQuery query = MakeQuery(TestSeed() + 1, ScalarType::kF16, kDim, 8);
  const v1::RerankRequest request = MakeRequest("corpus", query, AllIds(), 20);
  std::atomic<bool> stop{false};
  std::atomic<int> answers{0};
  std::vector<std::thread> clients;
  for (int c = 0; c < 4; ++c) {
    clients.emplace_back([&] {
      while (!stop) {
        v1::RerankResponse response;
        const grpc::Status status = server.Rerank(request, &response);
        EXPECT_TRUE(status.ok()) << status.error_message();
        if (!status.ok()) return;
        const RandomDocuments& truth = response.generation() % 2 == 1 ? server.documents() : other;
        EXPECT_EQ(WrongAnswer(truth, query, AllOrdinals(), 20, response.results(0)), "")
            << "generation " << response.generation();
        ++answers;
      }
    });
  }
  for (uint64_t generation = 2; generation <= 6; ++generation) {
    Publish(server.folder(), generation % 2 == 1 ? server.documents() : other);
    v1::ReloadCollectionResponse reloaded;
    ASSERT_TRUE(Reload(server, "corpus", &reloaded).ok());
    EXPECT_TRUE(reloaded.changed());
    EXPECT_EQ(reloaded.collection().generation(), generation);
    const int before = answers;
    while (answers < before + 4) std::this_thread::sleep_for(1ms);
  }
  stop = true;
  for (std::thread& client : clients) client.join();
  v1::ReloadCollectionResponse again;
  ASSERT_TRUE(Reload(server, "corpus", &again).ok());
  EXPECT_FALSE(again.changed());
  EXPECT_EQ(Reload(server, "nothing", &again).error_code(), grpc::NOT_FOUND);
}

TEST(AdminServiceTest, AReloadThatFailsKeepsTheOldGeneration) {
  RunningServer server;
  Publish(server.folder(), ServedDocuments(5));
  WriteFile(server.folder() + "/collection.json", "{ not a manifest");
  v1::ReloadCollectionResponse reloaded;
  EXPECT_FALSE(Reload(server, "corpus", &reloaded).ok());
  v1::RerankResponse response;
  const auto request = MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 2), {"doc-1"}, 5);
  ASSERT_TRUE(server.Rerank(request, &response).ok());
  EXPECT_EQ(response.generation(), 1u);
  EXPECT_THAT(server.server().metrics().Expose(),
              HasSubstr("maxsim_collection_loads_total{collection=\"corpus\",result=\"error\"} 1"));
}

}  // namespace
}  // namespace maxsim::test
