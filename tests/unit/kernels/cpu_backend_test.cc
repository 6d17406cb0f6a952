// Tests the behaviour that only the CPU backend has. cpu_contract_test tests the behaviour of all backends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "kernels/maxsim.h"
#include "tests/support/contract/contract_runner.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim {
namespace {

using ::testing::HasSubstr;

TEST(CpuBackendTest, TheLastInstructionSetIsThePortableOne) {
  ASSERT_FALSE(CpuIsas().empty());
  EXPECT_EQ(CpuIsas().back(), "portable");
}

TEST(CpuBackendTest, TakesTheBestInstructionSetAndEveryCoreByDefault) {
  const absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->info().name, "cpu");
  EXPECT_EQ((*backend)->info().isa, CpuIsas().front());
  EXPECT_GE((*backend)->info().parallelism, 1);
}

// A call cannot be interrupted, so shutdowns and deadlines wait for its end. The backend therefore limits the work of
// one call, per thread.
TEST(CpuBackendTest, WantsCallsThatEndSoon) {
  const auto most = [](int num_threads) {
    return (*CreateCpuBackend({.num_threads = num_threads, .isa = ""}))->info().max_call_work;
  };
  EXPECT_EQ(most(1), uint64_t{1} << 26);
  EXPECT_EQ(most(3), 3 * most(1));
}

TEST(CpuBackendTest, RefusesUnknownInstructionSetsAndThreadCounts) {
  const absl::Status isa = CreateCpuBackend({.num_threads = 1, .isa = "mmx"}).status();
  EXPECT_EQ(isa.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(isa.message()), HasSubstr("isa is \"mmx\""));
  EXPECT_THAT(std::string(isa.message()), HasSubstr("portable"));
  for (int num_threads : {-1, 1025}) {
    const absl::Status status = CreateCpuBackend({.num_threads = num_threads, .isa = ""}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("0 to 1024"));
  }
}

TEST(CpuBackendTest, BorrowsDocumentsUntilTheyAreDropped) {
  const absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({});
  ASSERT_TRUE(backend.ok());
  auto owned = std::make_shared<test::RandomDocuments>(test::MakeDocuments(1, ScalarType::kF16, 8, {1, 2}));
  absl::StatusOr<std::unique_ptr<Documents>> documents = (*backend)->Load(owned->view(), Tier::kHost, owned);
  ASSERT_TRUE(documents.ok());
  EXPECT_EQ(owned.use_count(), 2);
  EXPECT_EQ((*documents)->memory(), MemoryNeed{});
  EXPECT_EQ((*backend)->BytesNeeded(ScalarType::kF16, 8, 2, 3, Tier::kDevice), MemoryNeed{});
  documents->reset();
  EXPECT_EQ(owned.use_count(), 1);
}

// Returns the bytes of the process's memory that are in use.
int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(CpuBackendTest, RoomForAppendedDocumentsTakesMemoryAsItIsUsed) {
  if (test::kSanitized)
    GTEST_SKIP() << "not with a sanitizer: sanitizers have memory of their own for all that is allocated";
  const absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({.num_threads = 1, .isa = ""});
  ASSERT_TRUE(backend.ok());
  const int64_t before = ResidentBytes();
  ASSERT_GT(before, 0);
  const AppendableShape shape = {
      .type = ScalarType::kF16, .dim = 128, .max_documents = 1 << 20, .max_tokens = 1 << 20};  // 264 MiB
  const std::shared_ptr<AppendableDocuments> appendable = *(*backend)->CreateAppendable(shape);
  const test::RandomDocuments documents = test::MakeDocuments(1, ScalarType::kF16, 128, {300, 20});
  ASSERT_TRUE(appendable->Append(documents.view()).ok());
  EXPECT_LT(ResidentBytes() - before, 16 << 20);
  EXPECT_EQ(appendable->Snapshot()->memory(), MemoryNeed{});
}

// Stands for a mapped file that changes while it is read.
class ChangedSource : public MemorySource {
 public:
  absl::Status Check() const override {
    return changed ? absl::DataLossError("x.safetensors changed") : absl::OkStatus();
  }
  bool changed = false;
};

TEST(CpuBackendTest, ACallOverMemoryThatChangedFailsInsteadOfAnswering) {
  const absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({.num_threads = 2, .isa = ""});
  ASSERT_TRUE(backend.ok());
  test::RandomDocuments random = test::MakeDocuments(1, ScalarType::kF16, 8, std::vector<int64_t>(3000, 2));
  ChangedSource source;
  DocumentsView view = random.view();
  view.source = &source;
  const std::unique_ptr<Documents> documents = *(*backend)->Load(view, Tier::kDisk, nullptr);
  const std::unique_ptr<Executor> executor = *(*backend)->CreateExecutor({});
  const test::RandomQuery query = test::MakeQuery(2, ScalarType::kF16, 8, 4);
  const Query call = query.view(10);
  const std::vector<uint32_t> ordinals = {5, 2999};
  std::vector<std::vector<Scored>> results(1);
  std::vector<TokenMatch> matches(8);
  EXPECT_TRUE(executor->TopK(*documents, {&call, 1}, absl::MakeSpan(results), nullptr).ok());
  EXPECT_TRUE(executor->Align(*documents, call, ordinals, absl::MakeSpan(matches)).ok());
  source.changed = true;
  // After the file has changed, the mapped bytes may be anything. Even with NaN in every row, the selection must end
  // and the call return the error.
  std::memset(const_cast<void*>(view.tokens), 0xff, 6000 * 8 * 2);
  const absl::Status scored = executor->TopK(*documents, {&call, 1}, absl::MakeSpan(results), nullptr);
  EXPECT_EQ(scored.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(scored.message()), HasSubstr("x.safetensors changed"));
  EXPECT_EQ(executor->Align(*documents, call, ordinals, absl::MakeSpan(matches)).code(), absl::StatusCode::kDataLoss);
}

// The order of additions must not depend on how many threads share the work.
TEST(CpuBackendTest, ThreadCountDoesNotChangeTheBits) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  const test::RandomDocuments documents =
      test::MakeDocuments(seed, ScalarType::kF16, 128, test::RandomLengths(seed, 300, 1, 100));
  const test::RandomQuery query = test::MakeQuery(seed + 1, ScalarType::kF16, 128, 32);
  for (const std::string& isa : CpuIsas()) {
    std::vector<Scored> expected;
    for (int num_threads : {1, 2, 5}) {
      const absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({num_threads, isa});
      ASSERT_TRUE(backend.ok());
      test::ContractRunner runner(**backend);
      runner.Load(documents);
      const std::vector<Scored> results = runner.TopK(query.view(1000));
      if (num_threads == 1) expected = results;
      test::ExpectSameBits(expected, results);
    }
  }
}

// The workspace has no room for all tokens of the three queries, so the call runs in several waves. Each query must get
// the same bits as alone.
TEST(CpuBackendTest, CallsLargerThanTheWorkspaceRunInWaves) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  const absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({});
  ASSERT_TRUE(backend.ok());
  test::ContractRunner runner(**backend);
  const test::RandomDocuments documents = test::MakeDocuments(seed, ScalarType::kF16, 4096, {2, 1});
  runner.Load(documents);
  std::vector<test::RandomQuery> queries;
  for (int32_t idx = 0; idx < 3; ++idx) queries.push_back(test::MakeQuery(seed + idx, ScalarType::kF16, 4096, 1100));
  std::vector<Query> calls;
  for (const test::RandomQuery& query : queries) calls.push_back(query.view(2));
  const test::Results together = runner.TopK(calls);
  for (size_t idx = 0; idx < calls.size(); ++idx) test::ExpectSameBits(runner.TopK(calls[idx]), together[idx]);
}

TEST(CpuBackendTest, ReportsTheTimeOfACall) {
  const absl::StatusOr<std::unique_ptr<Backend>> backend = CreateCpuBackend({});
  ASSERT_TRUE(backend.ok());
  test::ContractRunner runner(**backend);
  const test::RandomDocuments documents = test::MakeDocuments(1, ScalarType::kF16, 64, {50, 60});
  const Documents& loaded = runner.Load(documents);
  const test::RandomQuery query = test::MakeQuery(2, ScalarType::kF16, 64, 32);
  const Query call = query.view(2);
  std::vector<std::vector<Scored>> results(1);
  CallTimings timings = {.copy_seconds = -1, .kernel_seconds = -1};
  ASSERT_TRUE(runner.executor().TopK(loaded, {&call, 1}, absl::MakeSpan(results), &timings).ok());
  EXPECT_EQ(timings.copy_seconds, 0);
  EXPECT_GT(timings.kernel_seconds, 0);
}

TEST(CudaBackendTest, ADeviceThatIsNotThereIsRefused) {
  if (!BuiltWithCuda()) {
    EXPECT_EQ(CreateCudaBackend({}).status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(CountCudaDevices().status().code(), absl::StatusCode::kUnimplemented);
    return;
  }
  const absl::StatusOr<int> count = CountCudaDevices();
  const absl::Status status = CreateCudaBackend({.device = count.value_or(0)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  if (!count.ok()) {
    EXPECT_EQ(status, count.status());
  }
}

}  // namespace
}  // namespace maxsim
