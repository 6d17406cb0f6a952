#include "tests/gpu/gpu_fixture.h"

#include <limits>

namespace maxsim::test {

const absl::StatusOr<std::unique_ptr<cuda::CudaBackend>>& GpuBackend() {
  static const auto* const backend =
      new absl::StatusOr<std::unique_ptr<cuda::CudaBackend>>(cuda::CudaBackend::Create({}));
  return *backend;
}

std::unique_ptr<Documents> GpuTest::Load(const RandomDocuments& documents) {
  absl::StatusOr<std::unique_ptr<Documents>> loaded = backend().Load(documents.view(), Tier::kDevice, nullptr);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? *std::move(loaded) : nullptr;
}

std::unique_ptr<cuda::CudaExecutor> GpuTest::MakeExecutor(const ExecutorOptions& options) {
  absl::StatusOr<std::unique_ptr<cuda::CudaExecutor>> executor =
      cuda::CudaExecutor::Create(backend().device(), options);
  EXPECT_TRUE(executor.ok()) << executor.status();
  return executor.ok() ? *std::move(executor) : nullptr;
}

std::vector<std::vector<Scored>> GpuTest::TopK(Executor& executor, const Documents& documents,
                                               const std::vector<Query>& queries) {
  std::vector<std::vector<Scored>> results(
      queries.size(), std::vector<Scored>(3, Scored{std::numeric_limits<float>::quiet_NaN(), 0xdeadbeef}));
  const absl::Status status = executor.TopK(documents, queries, absl::MakeSpan(results), nullptr);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) results.assign(queries.size(), {});
  return results;
}

}  // namespace maxsim::test
