// Tests a backend whose device breaks. The test has its own binary, because afterwards the process can no longer use
// the device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/trap.h"
#include "tests/support/contract/contract_runner.h"

namespace maxsim::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CudaErrorTest, MessagesNameTheCallItsPlaceAndTheError) {
  const absl::Status status =
      cuda::CudaStatus(cudaErrorIllegalAddress, "Launch(x)", "/build/tree/kernels/cuda/a.cc", 7);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("Launch(x)"), HasSubstr("at kernels/cuda/a.cc:7"), HasSubstr("cudaErrorIllegalAddress")));
  EXPECT_TRUE(MAXSIM_CUDA_STATUS(cudaSuccess).ok());
  EXPECT_EQ(MAXSIM_CUDA_STATUS(cudaErrorMemoryAllocation).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(MAXSIM_CUDA_STATUS(cudaErrorInvalidValue).code(), absl::StatusCode::kInternal);
}

TEST(DeviceHealthTest, TheFirstLossStaysAndNothingElseCounts) {
  cuda::DeviceHealth health;
  EXPECT_TRUE(health.Note(absl::OkStatus()).ok());
  EXPECT_EQ(health.Note(absl::ResourceExhaustedError("full")).message(), "full");
  EXPECT_TRUE(health.Get().ok());
  EXPECT_FALSE(health.Note(absl::UnavailableError("first")).ok());
  EXPECT_EQ(health.Note(absl::UnavailableError("second")).message(), "second");
  EXPECT_EQ(health.Get(), absl::UnavailableError("first"));
}

class GpuHealthTest : public GpuTest {};

TEST_F(GpuHealthTest, ABrokenDeviceIsUnavailableForEver) {
  const RandomDocuments documents = MakeDocuments(TestSeed(), ScalarType::kF16, 16, {3, 4});
  const std::unique_ptr<Documents> loaded = Load(documents);
  const std::unique_ptr<cuda::CudaExecutor> executor = MakeExecutor();
  const RandomQuery query = MakeQuery(TestSeed(), ScalarType::kF16, 16, 4);
  EXPECT_EQ(TopK(*executor, *loaded, {query.view(2)})[0].size(), 2u);
  EXPECT_TRUE(backend().Health().ok());
  const AppendableShape shape = {.type = ScalarType::kF16, .dim = 16, .max_documents = 9, .max_tokens = 99};
  const std::shared_ptr<AppendableDocuments> appendable = *backend().CreateAppendable(shape);
  ASSERT_TRUE(appendable->Append(documents.view()).ok());

  const cuda::Stream stream = *cuda::Stream::Create();
  ASSERT_EQ(LaunchTrap(stream.get()), cudaSuccess);
  cudaStreamSynchronize(stream.get());

  const Query call = query.view(2);
  std::vector<std::vector<Scored>> results(1);
  const absl::Status first = executor->TopK(*loaded, {&call, 1}, absl::MakeSpan(results), nullptr);
  EXPECT_EQ(first.code(), absl::StatusCode::kUnavailable) << first;
  EXPECT_THAT(std::string(first.message()), HasSubstr("CUDA: "));
  // Every later call must fail with the same status, except calls that do not use the device.
  EXPECT_EQ(backend().Health(), first);
  EXPECT_EQ(executor->TopK(*loaded, {&call, 1}, absl::MakeSpan(results), nullptr), first);
  EXPECT_EQ(executor->Stage(documents.view()).status(), first);
  EXPECT_EQ(backend().Load(documents.view(), Tier::kDevice, nullptr).status(), first);
  EXPECT_EQ(backend().CreateExecutor({}).status(), first);
  EXPECT_EQ(backend().CreateAppendable(shape).status(), first);
  EXPECT_EQ(appendable->Append(documents.view()), first);
  std::vector<uint16_t> rows(7 * 16);
  EXPECT_EQ(appendable->ReadRows(0, 7, rows.data()), first);
  EXPECT_EQ(appendable->Snapshot()->num_documents(), 2);
  EXPECT_EQ(backend().FreeBytes().status(), first);
}

}  // namespace
}  // namespace maxsim::test
