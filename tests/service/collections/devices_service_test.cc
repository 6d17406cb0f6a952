// Tests a whole server on several devices, before and after it has lost one of them.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/server_fixture.h"
#include "tests/support/fake_backend.h"
#include "tests/support/values/eventually.h"

namespace maxsim::test {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::RerankRequest WholeCollection() {
  v1::RerankRequest request = MakeRequest("corpus", MakeQuery(1, ScalarType::kF16, kDim, 4), {}, kNumDocuments);
  request.mutable_candidates()->mutable_whole_collection();
  return request;
}

// The fake devices, and pointers by which the test controls them.
struct Fakes {
  explicit Fakes(size_t count) {
    for (size_t idx = 0; idx < count; ++idx) {
      owned.push_back(std::make_unique<FakeBackend>("cuda"));
      backends.push_back(static_cast<FakeBackend*>(owned.back().get()));
    }
  }
  std::vector<std::unique_ptr<Backend>> owned;
  std::vector<FakeBackend*> backends;
};

v1::GetInfoResponse Info(RunningServer& server) {
  grpc::ClientContext context;
  v1::GetInfoResponse info;
  EXPECT_TRUE(server.stub().GetInfo(&context, {}, &info).ok());
  return info;
}

TEST(DevicesServiceTest, TheAnswersAreThoseOfOneDevice) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (int idx = 0; idx < 3; ++idx) backends.push_back(*CreateCpuBackend({.num_threads = 1, .isa = ""}));
  RunningServer server(nullptr, std::move(backends));
  const RandomQuery query = MakeQuery(5, ScalarType::kF16, kDim, 7);
  std::vector<int64_t> ordinals;
  for (int64_t i = 0; i < kNumDocuments; ++i) ordinals.push_back(i);
  v1::RerankResponse response;
  const grpc::Status status = server.Rerank(MakeRequest("corpus", query, AllIds(), 20), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(WrongAnswer(server.documents(), query, ordinals, 20, response.results(0), "doc-"), "");
  EXPECT_EQ(response.results(0).unavailable_documents(), 0u);

  const v1::GetInfoResponse info = Info(server);
  ASSERT_EQ(info.devices_size(), 3);
  EXPECT_EQ(info.devices(2).number(), 2u);
  EXPECT_EQ(info.devices(2).lost(), "");
  ASSERT_EQ(info.collections(0).tiers_size(), 3);
  uint64_t shards = 0;
  for (const v1::TierInfo& tier : info.collections(0).tiers()) {
    EXPECT_EQ(tier.tier(), "host");
    EXPECT_GT(tier.resident_bytes(), 0u);
    shards += tier.num_shards();
  }
  EXPECT_EQ(shards, info.collections(0).num_shards());
  const std::string metrics = server.server().metrics().Expose();
  for (const char* device : {"0", "1", "2"}) {
    EXPECT_THAT(metrics, HasSubstr("maxsim_device_up{device=\"" + std::string(device) + "\"} 1\n"));
    EXPECT_THAT(metrics, Not(HasSubstr("maxsim_device_batches_total{device=\"" + std::string(device) + "\"} 0\n")));
    EXPECT_THAT(metrics, HasSubstr("maxsim_collection_resident_bytes{collection=\"corpus\",device=\"" +
                                   std::string(device) + "\",tier=\"host\"}"));
  }
}

TEST(DevicesServiceTest, ALostDeviceTakesItsDocumentsOutAndEverybodyIsTold) {
  Fakes fakes(2);
  RunningServer server(nullptr, std::move(fakes.owned));
  v1::RerankResponse response;
  ASSERT_TRUE(server.Rerank(WholeCollection(), &response).ok());
  EXPECT_EQ(response.results(0).scores_size(), kNumDocuments);
  EXPECT_EQ(HttpGet(server.http_port(), "/readyz").body, "ok\n");

  fakes.backends[1]->SetHealth(absl::UnavailableError("Xid 79"));
  ASSERT_TRUE(Eventually([&] { return !server.server().Losses().empty(); }));
  response.Clear();
  const grpc::Status status = server.Rerank(WholeCollection(), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const uint64_t missing = response.results(0).unavailable_documents();
  EXPECT_GT(missing, 0u);
  EXPECT_EQ(static_cast<uint64_t>(response.results(0).scores_size()) + missing, static_cast<uint64_t>(kNumDocuments));
  v1::RerankRequest all_or_nothing = WholeCollection();
  all_or_nothing.set_missing_policy(v1::MISSING_POLICY_FAIL);
  EXPECT_EQ(server.Rerank(all_or_nothing, &response).error_code(), grpc::UNAVAILABLE);
  EXPECT_TRUE(server.Rerank(WholeCollection(), &response).ok()) << "that was the request's own wish";

  const HttpAnswer ready = HttpGet(server.http_port(), "/readyz");
  EXPECT_EQ(ready.status, 200);
  EXPECT_EQ(ready.body, "ok\nlost: device 1: Xid 79\ncollection corpus: " + std::to_string(missing) +
                            " of 200 documents cannot be scored\n");
  EXPECT_EQ(HealthOf(server.channel(), ""), Health::kServing);
  const v1::GetInfoResponse info = Info(server);
  EXPECT_EQ(info.devices(0).lost(), "");
  EXPECT_EQ(info.devices(1).lost(), "device 1: Xid 79");
  EXPECT_EQ(info.collections(0).unavailable_documents(), missing);
  EXPECT_TRUE(Eventually([&] {
    const std::string metrics = server.server().metrics().Expose();
    return metrics.find("maxsim_device_up{device=\"1\"} 0\n") != std::string::npos &&
           metrics.find("maxsim_collection_unavailable_documents{collection=\"corpus\"} " + std::to_string(missing) +
                        "\n") != std::string::npos;
  }));
  EXPECT_THAT(server.server().metrics().Expose(), HasSubstr("maxsim_device_up{device=\"0\"} 1\n"));

  // Answers over HTTP also lack the lost device's documents.
  std::string row = "1";
  for (int32_t i = 1; i < kDim; ++i) row += ",0";
  const std::string body = R"({"model": "corpus", "documents": "*", "query": [[)" + row + "]]}";
  EXPECT_THAT(HttpPost(server.http_port(), "/v1/rerank", body, "application/json").body,
              HasSubstr("\"unavailable_documents\":" + std::to_string(missing)));

  // A reload moves all documents to the remaining devices.
  grpc::ClientContext context;
  v1::ReloadCollectionRequest reload;
  reload.set_name("corpus");
  v1::ReloadCollectionResponse reloaded;
  const grpc::Status moved = server.admin().ReloadCollection(&context, reload, &reloaded);
  ASSERT_TRUE(moved.ok()) << moved.error_message();
  EXPECT_TRUE(reloaded.changed());
  response.Clear();
  ASSERT_TRUE(server.Rerank(WholeCollection(), &response).ok());
  EXPECT_EQ(response.results(0).scores_size(), kNumDocuments);
  EXPECT_EQ(response.results(0).unavailable_documents(), 0u);
  EXPECT_EQ(HttpGet(server.http_port(), "/readyz").body, "ok\nlost: device 1: Xid 79\n");
  EXPECT_EQ(server.Stop(), 0);
}

TEST(DevicesServiceTest, ACopiedCollectionMissesNothing) {
  Fakes fakes(2);
  RunningServer server([](config::Config* config) { config->collections[0].replication = store::Replication::kOn; },
                       std::move(fakes.owned));
  fakes.backends[0]->OnTopK([](absl::Span<const Query>) { return absl::UnavailableError("Xid 79"); });
  for (int round = 0; round < 4; ++round) {
    v1::RerankResponse response;
    ASSERT_TRUE(server.Rerank(WholeCollection(), &response).ok());
    EXPECT_EQ(response.results(0).scores_size(), kNumDocuments);
    EXPECT_EQ(response.results(0).unavailable_documents(), 0u);
  }
  EXPECT_EQ(server.server().Losses(), "lost: device 0: Xid 79\n");
}

TEST(DevicesServiceTest, ClientsMayAskForCopies) {
  TemporaryFolder folder;
  Publish(folder / "second", ServedDocuments(77));
  Fakes fakes(2);
  RunningServer server([&](config::Config* config) { config->allowed_roots = {folder.path()}; },
                       std::move(fakes.owned));
  for (const bool replicate : {false, true}) {
    v1::LoadCollectionRequest request;
    request.set_name(replicate ? "copied" : "spread");
    request.set_path(folder / "second");
    request.set_replicate(replicate);
    grpc::ClientContext context;
    v1::LoadCollectionResponse response;
    const grpc::Status status = server.admin().LoadCollection(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    uint64_t shards = 0;
    for (const v1::TierInfo& tier : response.collection().tiers()) shards += tier.num_shards();
    EXPECT_EQ(shards, response.collection().num_shards() * (replicate ? 2 : 1));
  }
}

TEST(DevicesServiceTest, TheLastDeviceEndsTheServer) {
  Fakes fakes(2);
  RunningServer server(nullptr, std::move(fakes.owned));
  for (FakeBackend* backend : fakes.backends) backend->SetHealth(absl::UnavailableError("Xid 79"));
  EXPECT_EQ(server.Wait(), Server::kExitDeviceLost);
}

TEST(DevicesServiceTest, UnderExitAnyDeviceDoes) {
  Fakes fakes(2);
  RunningServer server([](config::Config* config) { config->on_device_loss = store::OnDeviceLoss::kExit; },
                       std::move(fakes.owned));
  fakes.backends[1]->OnTopK([](absl::Span<const Query>) { return absl::UnavailableError("Xid 79"); });
  v1::RerankResponse response;
  const grpc::Status status = server.Rerank(WholeCollection(), &response);
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("device 1: Xid 79"));
  EXPECT_EQ(server.Wait(), Server::kExitDeviceLost);
}

TEST(DevicesServiceTest, ASingleDeviceMayBeToldToDegradeAndEndsAllTheSame) {
  Fakes fakes(1);
  RunningServer server([](config::Config* config) { config->on_device_loss = store::OnDeviceLoss::kDegrade; },
                       std::move(fakes.owned));
  fakes.backends[0]->SetHealth(absl::UnavailableError("Xid 79"));
  EXPECT_EQ(server.Wait(), Server::kExitDeviceLost);
}

}  // namespace
}  // namespace maxsim::test
