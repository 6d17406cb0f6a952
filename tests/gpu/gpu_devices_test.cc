// Tests a server on two GPUs when one GPU breaks under load. The test has its own binary, because afterwards the
// process can no longer use the broken device.
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/runtime/stream.h"
#include "kernels/maxsim.h"
#include "tests/gpu/trap.h"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using ::testing::HasSubstr;

constexpr int kBroken = 1;
constexpr uint32_t kTopK = kNumDocuments;

// Checks the documents in `response`. Returns "" if they are correct, otherwise what is wrong. Sets `missing` to the
// number of documents that the response reports as unavailable.
std::string WrongAboutTheRest(const RandomDocuments& documents, const RandomQuery& query,
                              const v1::RerankResponse& response, uint64_t& missing) {
  const v1::QueryResult& result = response.results(0);
  missing = result.unavailable_documents();
  std::vector<int64_t> scored(kNumDocuments, -1);  // -1: WrongAnswer expects no result for this document
  for (const uint32_t position : result.positions()) scored[position] = position;
  if (result.positions_size() + static_cast<int64_t>(missing) != kNumDocuments) return "documents are lost uncounted";
  return WrongAnswer(documents, query, scored, kTopK, result);
}

// Runs a kernel that traps on a device. Returns whether the process can still use device 0. With some drivers (580), an
// exception in a kernel disables all devices of the process.
bool Break(int device) {
  EXPECT_EQ(cudaSetDevice(device), cudaSuccess);
  const cuda::Stream stream = *cuda::Stream::Create();
  EXPECT_EQ(LaunchTrap(stream.get()), cudaSuccess);
  EXPECT_NE(cudaStreamSynchronize(stream.get()), cudaSuccess);
  cudaGetLastError();
  return cudaSetDevice(0) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
}

// If the other GPU still works, only the broken GPU's documents may be missing. If it does not, the server ends, so
// that its supervisor restarts it. In both cases every call must end, and no answer may be wrong.
TEST(GpuDevicesTest, NoAnswerIsWrongWhenAGpuBreaksUnderLoad) {
  std::vector<std::unique_ptr<Backend>> backends;
  for (int device = 0; device < 2; ++device) {
    absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCudaBackend({.device = device});
    if (!backend.ok()) GTEST_SKIP() << "needs two GPUs: " << backend.status().message();
    backends.push_back(*std::move(backend));
  }
  RunningServer server(nullptr, std::move(backends));
  const RandomQuery query = MakeQuery(5, ScalarType::kF16, kDim, 7);
  const v1::RerankRequest request = MakeRequest("corpus", query, AllIds(), kTopK);

  // These clients call until the test stops them, or the server has ended.
  std::atomic<bool> stop = false, broken = false;
  std::atomic<int> whole = 0, partial = 0, unavailable = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&] {
      while (!stop) {
        v1::RerankResponse response;
        const grpc::Status status = server.Rerank(request, &response);
        if (broken && status.error_code() == grpc::StatusCode::UNAVAILABLE) {
          ++unavailable;
          return;
        }
        ASSERT_TRUE(status.ok()) << status.error_message();
        uint64_t missing = 0;
        ASSERT_EQ(WrongAboutTheRest(server.documents(), query, response, missing), "");
        ++(missing == 0 ? whole : partial);
      }
    });
  }
  const auto eventually = [](const auto& condition) {
    for (int round = 0; round < 3000 && !condition(); ++round) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return condition();
  };
  EXPECT_TRUE(eventually([&] { return whole >= 100; }));
  EXPECT_EQ(partial, 0);
  broken = true;
  if (!Break(kBroken)) {
    EXPECT_EQ(server.Wait(), Server::kExitDeviceLost);
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(unavailable, 8) << "an answer came from a device that CUDA no longer works with";
    EXPECT_THAT(server.server().Losses(), HasSubstr("lost: device 1: CUDA: "));
    return;
  }
  EXPECT_TRUE(eventually([&] { return partial >= 100; }));
  EXPECT_EQ(unavailable, 0);
  stop = true;
  for (std::thread& client : clients) client.join();

  EXPECT_THAT(server.server().Losses(), HasSubstr("lost: device 1: CUDA: "));
  const HttpAnswer ready = HttpGet(server.http_port(), "/readyz");
  EXPECT_EQ(ready.status, 200);
  EXPECT_THAT(ready.body, HasSubstr("of 200 documents cannot be scored"));
  EXPECT_THAT(server.server().metrics().Expose(), HasSubstr("maxsim_device_up{device=\"0\"} 1\n"));

  // A reload moves all documents to the remaining device.
  grpc::ClientContext context;
  v1::ReloadCollectionRequest reload;
  reload.set_name("corpus");
  v1::ReloadCollectionResponse reloaded;
  const grpc::Status moved = server.admin().ReloadCollection(&context, reload, &reloaded);
  ASSERT_TRUE(moved.ok()) << moved.error_message();
  v1::RerankResponse response;
  ASSERT_TRUE(server.Rerank(request, &response).ok());
  uint64_t missing = kNumDocuments;
  EXPECT_EQ(WrongAboutTheRest(server.documents(), query, response, missing), "");
  EXPECT_EQ(missing, 0u);
  EXPECT_EQ(server.Stop(), 0);
}

}  // namespace
}  // namespace maxsim::test
