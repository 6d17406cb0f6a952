// Tests how much host memory an executor keeps after calls, and calls that get no memory. A program of its own, because
// it replaces operator new to count allocations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "kernels/maxsim.h"
#include "tests/support/contract/contract_runner.h"
#include "tests/support/values/random_documents.h"

namespace {

std::atomic<int64_t> live_bytes{0};
std::atomic<size_t> largest_allowed{SIZE_MAX};  // allocations beyond it fail

void* Allocate(size_t size, size_t alignment) {
  if (size > largest_allowed.load()) throw std::bad_alloc();
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), size) != 0) throw std::bad_alloc();
  live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}

void Release(void* memory) {
  if (memory == nullptr) return;
  live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) { return Allocate(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(size_t size, std::align_val_t alignment) { return Allocate(size, static_cast<size_t>(alignment)); }
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete(void* memory, size_t) noexcept { Release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { Release(memory); }

namespace maxsim {
namespace {

constexpr int kNumThreads = 3;
constexpr int32_t kNumQueries = 8;

// Scores 40,000 documents of one token each. Each query asks for the best 10,000, so that threads keep most results.
class CpuMemoryTest : public testing::Test {
 protected:
  CpuMemoryTest()
      : backend_(*CreateCpuBackend({.num_threads = kNumThreads, .isa = ""})),
        documents_(test::MakeDocuments(1, ScalarType::kF16, 8, std::vector<int64_t>(40'000, 1))),
        runner_(*backend_),
        loaded_(runner_.Load(documents_)) {
    for (int32_t idx = 0; idx < kNumQueries; ++idx) {
      queries_.push_back(test::MakeQuery(static_cast<uint64_t>(idx), ScalarType::kF16, 8, 4));
    }
    for (const test::RandomQuery& query : queries_) calls_.push_back(query.view(10'000));
  }

  absl::Status TopK(std::vector<std::vector<Scored>>* results) {
    results->resize(calls_.size());
    return runner_.executor().TopK(loaded_, calls_, absl::MakeSpan(*results), nullptr);
  }

  const std::unique_ptr<Backend> backend_;
  const test::RandomDocuments documents_;
  test::ContractRunner runner_;
  const Documents& loaded_;
  std::vector<test::RandomQuery> queries_;
  std::vector<Query> calls_;
};

TEST_F(CpuMemoryTest, SelectionsOfManyResultsAreGivenBack) {
  const int64_t before = live_bytes;
  std::vector<std::vector<Scored>> results;
  ASSERT_TRUE(TopK(&results).ok());
  const int64_t result_bytes = kNumQueries * 10'000 * static_cast<int64_t>(sizeof(Scored));
  // Results hold only the memory for the returned documents.
  for (const std::vector<Scored>& result : results) {
    EXPECT_EQ(result.size(), 10'000u);
    EXPECT_EQ(result.capacity(), 10'000u);
  }
  // cpu_executor.h promises at most 8 KiB per thread and query. The 400,000 bytes allow for the small parts of the
  // workspace.
  EXPECT_LE(live_bytes - before - result_bytes, kNumThreads * kNumQueries * 8192 + 400'000);
}

TEST_F(CpuMemoryTest, NoMemoryForSelectionIsAnErrorAndTheNextCallWorks) {
  std::vector<std::vector<Scored>> expected;
  ASSERT_TRUE(TopK(&expected).ok());
  std::vector<std::vector<Scored>> results;
  results.reserve(kNumQueries);
  for (int run = 0; run < 20; ++run) {
    largest_allowed = 50'000;  // too little for the selections, on workers and on this thread
    const absl::Status status = TopK(&results);
    largest_allowed = SIZE_MAX;
    ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  }
  ASSERT_TRUE(TopK(&results).ok());
  EXPECT_EQ(results, expected);
}

TEST_F(CpuMemoryTest, NoMemoryForQueriesIsAnErrorAndTheNextCallWorks) {
  const test::RandomQuery query = test::MakeQuery(1, ScalarType::kF16, 8, 4096);
  const std::vector<uint32_t> ordinals = {7, 3};
  calls_ = {query.view(5)};
  calls_[0].ordinals = ordinals.data();
  calls_[0].num_candidates = 2;
  std::vector<std::vector<Scored>> results(1);
  std::vector<TokenMatch> matches(2 * 4096);
  largest_allowed = 50'000;
  const absl::Status scored = TopK(&results);
  const absl::Status aligned = runner_.executor().Align(loaded_, calls_[0], ordinals, absl::MakeSpan(matches));
  largest_allowed = SIZE_MAX;
  EXPECT_EQ(scored.code(), absl::StatusCode::kResourceExhausted) << scored;
  EXPECT_EQ(aligned.code(), absl::StatusCode::kResourceExhausted) << aligned;
  EXPECT_TRUE(TopK(&results).ok());
  EXPECT_EQ(results[0].size(), 2u);
  EXPECT_TRUE(runner_.executor().Align(loaded_, calls_[0], ordinals, absl::MakeSpan(matches)).ok());
}

// Offsets, row addresses and byte counts exceed 32 bits: the shard has 2^31 + 200 rows. Nearly all are zeros that take
// no memory, because only a few rows are written.
TEST(CpuLargeCollectionTest, RowsBeyond32BitsAreScoredAndAligned) {
  constexpr int64_t kNumRows = (int64_t{1} << 31) + 200;
  constexpr int32_t kDim = 8;
  constexpr size_t kBytes = static_cast<size_t>(kNumRows) * kDim * sizeof(uint16_t);
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no " << kBytes << " bytes of address space";
  const std::shared_ptr<void> rows(memory, [](void* address) { ::munmap(address, kBytes); });

  // Each document has 65,536 tokens, except the last two, which are smaller.
  std::vector<int64_t> offsets = {0};
  while (offsets.back() + kMaxDocumentTokens <= kNumRows - 20) offsets.push_back(offsets.back() + kMaxDocumentTokens);
  offsets.push_back(kNumRows - 10);
  offsets.push_back(kNumRows);
  const auto last = static_cast<uint32_t>(offsets.size() - 2);
  // Row r gets `value` in column 0, so that its inner product with the query is that value.
  const auto set = [&](int64_t row, float value) { static_cast<uint16_t*>(memory)[row * kDim] = F32ToF16(value); };
  set(kNumRows - 1, 3.0f);
  set(kNumRows - 11, 2.0f);
  set(offsets[last - 1], 1.5f);
  // If rows were computed modulo 2^31 or bytes modulo 2^32, these rows would be read instead. Their high values would
  // show in the scores.
  for (int64_t row = 0; row < 400; ++row) set(row, 50.0f);

  const DocumentsView view = {ScalarType::kF16, kDim, static_cast<int64_t>(offsets.size()) - 1, memory, offsets.data()};
  const std::unique_ptr<Backend> backend = *CreateCpuBackend({.num_threads = 1, .isa = ""});
  const std::unique_ptr<Documents> documents = *backend->Load(view, Tier::kDevice, rows);
  const std::unique_ptr<Executor> executor = *backend->CreateExecutor({});
  EXPECT_EQ(documents->num_tokens(), kNumRows);
  std::vector<uint16_t> token(kDim, 0);
  token[0] = F32ToF16(1.0f);
  const std::vector<uint32_t> ordinals = {last, last - 1, 0};
  const Query query = {
      .tokens = token.data(), .num_tokens = 1, .ordinals = ordinals.data(), .num_candidates = 3, .top_k = 3};
  std::vector<std::vector<Scored>> results(1);
  ASSERT_TRUE(executor->TopK(*documents, {&query, 1}, absl::MakeSpan(results), nullptr).ok());
  EXPECT_EQ(results[0], (std::vector<Scored>{{50.0f, 2}, {3.0f, 0}, {2.0f, 1}}));
  std::vector<TokenMatch> matches(2);
  ASSERT_TRUE(executor->Align(*documents, query, {ordinals.data(), 2}, absl::MakeSpan(matches)).ok());
  EXPECT_EQ(matches[0].document_token, 9);
  EXPECT_EQ(matches[0].similarity, 3.0f);
  EXPECT_EQ(matches[1].document_token, offsets[last] - 1 - offsets[last - 1]);
  EXPECT_EQ(matches[1].similarity, 2.0f);
}

}  // namespace
}  // namespace maxsim
